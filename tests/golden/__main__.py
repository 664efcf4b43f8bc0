"""Writes the golden files anew; see `tests/unit/test_oracle_statements.py`."""

from __future__ import annotations

from pathlib import Path

from tests.oracle_statements import golden

FOLDER = Path(__file__).parent / "oracle"

if __name__ == "__main__":
    for path in FOLDER.glob("*.sql"):
        path.unlink()
    for name, sql in golden():
        (FOLDER / f"{name}.sql").write_text(f"{sql.rstrip()}\n", encoding="utf-8")
