"""Where the database is and how to log on: reads the URL and the settings that belong to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agentmem.backends.oracle._names import simple_name
from agentmem.config import Settings, without_password
from agentmem.errors import ConfigurationError

_FORM = "oracle://user@host:1521/service, or oracle://user@ with oracle_dsn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Everything that a connection needs.

    Attributes
    ----------
    user, password, dsn
        Log-on and connect string: ``host:port/service``, a name of tnsnames.ora or a descriptor.
    owner
        Schema that holds the tables.
    pool_min, pool_max
        Connections kept, and most at the same time.
    pool_timeout, connect_timeout, call_timeout
        Seconds to wait for a free connection, for a new one, and for one answer.
    retries
        How often work that can be repeated is tried again.
    extra
        Further arguments of the driver: wallet and folder of tnsnames.ora.
    """

    user: str
    password: str = field(repr=False)
    dsn: str
    owner: str
    pool_min: int = 1
    pool_max: int = 8
    pool_timeout: float = 10.0
    connect_timeout: float = 10.0
    call_timeout: float = 30.0
    retries: int = 2
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """Where the database is, for messages; holds no secret."""
        return f"{self.user}@{self.dsn}"


def read_target(settings: Settings) -> Target:
    """Return the target that the settings describe.

    Raises
    ------
    ConfigurationError
        Something is missing or cannot be used.
    """
    parts = urlsplit(settings.url)
    shown = without_password(settings.url)
    if parts.query or parts.fragment:
        raise ConfigurationError(f"{shown!r} has options behind '?'; use the oracle_* settings")
    user = unquote(parts.username or "")
    if not user:
        raise ConfigurationError(f"{shown!r} names no user; write {_FORM}")
    dsn = _dsn(settings, parts.hostname, _port(settings.url), parts.path.strip("/"), shown)
    return Target(
        user=simple_name(user, "a database user"),
        password=_password(settings, unquote(parts.password or "")),
        dsn=dsn,
        owner=simple_name(settings.oracle_owner or user, "a schema"),
        pool_min=min(settings.oracle_pool_min, settings.oracle_pool_max),
        pool_max=settings.oracle_pool_max,
        pool_timeout=settings.oracle_pool_timeout,
        connect_timeout=settings.oracle_connect_timeout,
        call_timeout=settings.oracle_call_timeout,
        retries=settings.oracle_retries,
        extra=_wallet(settings),
    )


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        raise ConfigurationError(
            f"{without_password(url)!r} has a port that is no number; write {_FORM}"
        ) from None


def _dsn(settings: Settings, host: str | None, port: int | None, service: str, shown: str) -> str:
    if settings.oracle_dsn:
        if host or service:
            raise ConfigurationError(
                f"both {shown!r} and oracle_dsn say where the database is; write oracle://user@"
            )
        return settings.oracle_dsn
    if not host:
        raise ConfigurationError(f"{shown!r} does not say where the database is; write {_FORM}")
    if not service:
        raise ConfigurationError(f"{shown!r} names no service; write {_FORM}")
    if ":" in host:  # IPv6
        host = f"[{host}]"
    return f"{host}:{port or 1521}/{unquote(service)}"


def _password(settings: Settings, in_url: str) -> str:
    if in_url:
        return in_url
    if settings.oracle_password is not None:
        return settings.oracle_password.get_secret_value()
    if settings.oracle_password_file is None:
        raise ConfigurationError(
            "no password for Oracle is given; set AGENTMEM_ORACLE_PASSWORD or "
            "AGENTMEM_ORACLE_PASSWORD_FILE"
        )
    return _read_secret(settings.oracle_password_file)


def _read_secret(path: Path) -> str:
    try:
        secret = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"oracle_password_file {str(path)!r} cannot be read "
            f"({type(error).__name__}); check path and permissions"
        ) from None
    if not secret:
        raise ConfigurationError(f"oracle_password_file {str(path)!r} is empty")
    return secret


def _wallet(settings: Settings) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    for name, folder in (
        ("config_dir", settings.oracle_config_dir),
        ("wallet_location", settings.oracle_wallet_dir),
    ):
        if folder is None:
            continue
        if not folder.expanduser().is_dir():
            raise ConfigurationError(f"{str(folder)!r} ({name}) is not a folder")
        extra[name] = str(folder.expanduser())
    if settings.oracle_wallet_password is not None:
        extra["wallet_password"] = settings.oracle_wallet_password.get_secret_value()
    return extra
