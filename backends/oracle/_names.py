"""Names and limits of the Oracle engine that its statements and its scripts share."""

from __future__ import annotations

import re

from agentmem.errors import ConfigurationError

DOCUMENTS = "mem_documents"
CHUNKS = "mem_chunks"
RECEIPTS = "mem_receipts"
META = "mem_meta"
TENANT_TABLES = (DOCUMENTS, CHUNKS, RECEIPTS)
"""Tables that hold rows of tenants; each has a row-level security policy."""

SESSION_PACKAGE = "mem_session"
UPKEEP_PACKAGE = "mem_upkeep"
TEXT_INDEX = "mem_chunks_text_i"
VECTOR_INDEX = "mem_chunks_vector_i"

SCHEMA_VERSION = 1

VARCHAR_BYTES = 4000
"""Bytes of a VARCHAR2, a text bind and an Oracle Text query when MAX_STRING_SIZE is STANDARD."""

_SIMPLE = re.compile(r"[A-Za-z][A-Za-z0-9_$#]{0,122}")


def simple_name(name: str, what: str) -> str:
    """Return `name` in lower case when it can stand unquoted in a statement.

    Raises
    ------
    ConfigurationError
        It cannot. Names are the only texts of a configuration that are put into statements.
    """
    if not _SIMPLE.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of {what}; start with a letter and go on with letters, "
            "digits, '_', '$' and '#'"
        )
    return name.lower()


def context_name(owner: str) -> str:
    """Return the name of the application context, which is unique in the whole database."""
    return f"{owner}_ctx"
