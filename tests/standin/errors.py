"""Makes the errors that driver and server would raise, with the driver's own classes."""

from __future__ import annotations

import oracledb
from oracledb.errors import _Error

_RECOVERABLE = {"DPY-4011", "ORA-00060"}


def error(code: str, text: str = "raised by the stand-in", offset: int = 0) -> oracledb.Error:
    """Return the exception for a code such as ``"ORA-00001"`` or ``"DPY-4011"``."""
    prefix, number = code.split("-")
    detail = _Error(
        message=f"{code}: {text}", code=int(number) if prefix == "ORA" else 0, offset=offset
    )
    if detail.full_code == "DPY-4011":
        detail.is_session_dead = detail.isrecoverable = True
    made: oracledb.Error = detail.exc_type(detail)
    return made


def text_error(drg: str, text: str) -> oracledb.Error:
    """Return the error of a query that Oracle Text refuses."""
    return error(
        "ORA-29902",
        f"error in executing ODCIIndexStart() routine\nORA-30600: Oracle Text error\n{drg}: {text}",
    )
