"""The second settings of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

from agentmem.config import Settings, without_password
from agentmem.errors import ConfigurationError, InvalidInputError

# They say how texts are cut when they are written, so a search cannot tell them apart.
_WHEN_WRITTEN = ("chunker", "chunk_tokens", "chunk_overlap")


def changed(settings: Settings, changes: Sequence[str], file: Path | None) -> Settings:
    """Return settings with what a file and then ``NAME=VALUE`` say instead.

    Raises
    ------
    ConfigurationError, InvalidInputError
        The settings cannot be made, or make no difference to a memory that is written.
    """
    values = settings.model_dump(exclude_unset=True)
    if file is not None:
        values |= _read(file)
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or name not in Settings.model_fields:
            raise InvalidInputError(
                f"--with {change!r} must be NAME=VALUE with the name of a setting; see "
                "'agentmem config'"
            )
        values[name] = value
    second = Settings(**values)
    late = [n for n in _WHEN_WRITTEN if getattr(settings, n) != getattr(second, n)]
    if late and settings.url == second.url:
        raise InvalidInputError(
            f"{late[0]} says how texts are cut when they are written and changes nothing in a "
            "memory that is there; write the texts into another folder with it and compare with "
            "--with url=FOLDER"
        )
    return second


def _read(file: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"could not read settings from {str(file)!r}: {error}; give a TOML file"
        ) from error


def difference(first: Settings, second: Settings) -> str:
    """Return what the second settings say instead, without secrets."""
    shown = []
    for name in Settings.model_fields:
        value = getattr(second, name)
        if value == getattr(first, name):
            continue
        if isinstance(value, SecretStr):
            value = "another one"
        shown.append(f"{name}={without_password(str(value)) if name == 'url' else value}")
    return ", ".join(shown) or "the same settings once more"
