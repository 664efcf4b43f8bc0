"""Settings: what they are, where they come from, and how a URL is read.

Sources, strongest first: arguments, environment variables ``AGENTMEM_*``, a TOML file, defaults.
This is the only module that reads the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from agentmem.errors import ConfigurationError

CONFIG_FILE = "AGENTMEM_CONFIG"
DEFAULT_FILE = "agentmem.toml"
_SECRET = "********"


class Settings(BaseSettings):
    """Everything that can be configured, with its default.

    Each field can be given as an argument, as an environment variable (``AGENTMEM_POOL``), or in a
    TOML file: ``agentmem.toml`` in the working directory, or the one that ``AGENTMEM_CONFIG``
    names.

    Raises
    ------
    ConfigurationError
        A value cannot be used; the message names the field.
    """

    model_config = SettingsConfigDict(
        env_prefix="AGENTMEM_", frozen=True, extra="forbid", validate_default=True
    )

    url: str = Field(
        default="./agentmem", description="where the memory lives: a folder, local:// or oracle://"
    )
    tenant: str = Field(
        default="default", description="isolation boundary, fixed while the memory is open"
    )
    embedder: str = Field(
        default="default", description="'default', a folder with an ONNX model, or a hub id"
    )
    reranker: str = Field(
        default="late",
        description="'late', 'quality', 'none', a folder with an ONNX cross-encoder, or a hub id",
    )
    rerank_budget: float = Field(
        default=0.15,
        ge=0.0,
        le=60.0,
        description="seconds that the cross-encoder of 'quality' may take for a search",
    )
    threads: int = Field(
        default=0, ge=0, le=256, description="threads of a model; 0 chooses by the machine"
    )
    chunk_tokens: int = Field(default=256, ge=16, le=8192, description="most tokens of a chunk")
    chunk_overlap: int = Field(
        default=32, ge=0, le=4096, description="tokens that neighbouring chunks share at most"
    )
    pool: int = Field(default=100, ge=1, le=4096, description="candidates taken from each pool")
    fusion_k: int = Field(
        default=60, ge=1, le=10_000, description="constant of reciprocal rank fusion"
    )
    fused: int = Field(default=100, ge=1, le=8192, description="candidates kept after fusion")
    fused_cross_encoder: int = Field(
        default=40, ge=1, le=8192, description="the same when a cross-encoder reranks"
    )
    token_budget: int | None = Field(
        default=2048, ge=1, description="most tokens of a context; empty for no limit"
    )
    synonyms: dict[str, list[str]] = Field(
        default_factory=dict, description="words and what else they are called"
    )
    understand_timeout: float = Field(
        default=2.0, gt=0, le=600, description="seconds for the caller's understand"
    )
    forget_limit: int = Field(
        default=1000, ge=0, description="documents that a forget covers without confirm=True"
    )
    read_only: bool = Field(default=False, description="refuse to write; open without a trace")
    lock_timeout: float = Field(
        default=5.0, ge=0, le=3600, description="seconds to wait for another process"
    )
    durability: Literal["full", "normal"] = Field(
        default="full", description="'full' survives a power cut, 'normal' a crash"
    )
    readers: int = Field(default=2, ge=1, le=64, description="threads that read at the same time")
    vector_memory_mb: int = Field(
        default=1024, ge=0, description="RAM for vectors in MiB; beyond it they stay on disk"
    )
    tune_allocator: bool = Field(
        default=True,
        description="set glibc's allocator, of the whole process, to give back what commits freed",
    )
    write_batch: int = Field(
        default=256, ge=1, le=1_000, description="documents of one transaction in a long write"
    )
    chunker: Literal["sentences", "whole"] = Field(
        default="sentences", description="'sentences' packs sentences, 'whole' cuts nothing"
    )
    search_log: Path | None = Field(
        default=None,
        description="file to which each search is appended, with its question; for agentmem eval",
    )
    telemetry: bool = Field(
        default=True, description="spans and measurements, where opentelemetry-api is installed"
    )
    telemetry_content: bool = Field(
        default=False, description="tell queries, users and error messages in spans too"
    )
    oracle_password: SecretStr | None = Field(
        default=None, description="password of the database user"
    )
    oracle_password_file: Path | None = Field(
        default=None, description="file that holds the password"
    )
    oracle_dsn: str | None = Field(
        default=None, description="name in tnsnames.ora or connect descriptor instead of a host"
    )
    oracle_owner: str | None = Field(
        default=None, description="schema of the tables; the user's own by default"
    )
    oracle_config_dir: Path | None = Field(default=None, description="folder of tnsnames.ora")
    oracle_wallet_dir: Path | None = Field(default=None, description="folder of ewallet.pem")
    oracle_wallet_password: SecretStr | None = Field(
        default=None, description="password of the wallet"
    )
    oracle_pool_min: int = Field(default=1, ge=0, le=1000, description="connections kept open")
    oracle_pool_max: int = Field(default=8, ge=1, le=1000, description="most connections")
    oracle_pool_timeout: float = Field(
        default=10.0, gt=0, le=3600, description="seconds to wait for a free connection"
    )
    oracle_connect_timeout: float = Field(
        default=10.0, gt=0, le=600, description="seconds to wait for a new connection"
    )
    oracle_call_timeout: float = Field(
        default=30.0, gt=0, le=3600, description="seconds to wait for one answer"
    )
    oracle_retries: int = Field(
        default=2, ge=0, le=10, description="repetitions of work that a passing fault stopped"
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigurationError(_explain(error)) from None

    @field_validator("token_budget", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("tenant")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments, environment, TOML file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, _toml_file())


def _toml_file() -> Path | None:
    named = os.environ.get(CONFIG_FILE)
    if named is None:
        default = Path(DEFAULT_FILE)
        return default if default.is_file() else None
    path = Path(named)
    if not path.is_file():
        raise ConfigurationError(
            f"{CONFIG_FILE} names {named!r}, which is not a file; correct or unset it"
        )
    return path


def _explain(error: ValidationError) -> str:
    """Say what is wrong with each field, without repeating values that may be secrets."""
    faults = []
    for fault in error.errors(include_input=False, include_url=False):
        name = ".".join(str(part) for part in fault["loc"]) or "settings"
        faults.append(f"{name}: {fault['msg']}")
    return "these settings cannot be used: " + "; ".join(faults)


def secret(name: str) -> str | None:
    """Return a secret that belongs to a single command and to no setting, None when unset."""
    return os.environ.get(f"AGENTMEM_{name}")


def allocator_is_chosen() -> bool:
    """Return whether the thresholds of glibc's allocator come from the environment."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return any(
        f"MALLOC_{name.upper()}_" in os.environ or f"glibc.malloc.{name}" in tunables
        for name in ("mmap_threshold", "trim_threshold")
    )


def without_password(text: str) -> str:
    """Return a URL with its password hidden."""
    parts = urlsplit(text)
    if not parts.password:
        return text
    return text.replace(f":{parts.password}@", f":{_SECRET}@")


def local_folder(url: str) -> Path | Literal[False] | None:
    """Read a URL of the embedded engine.

    Returns
    -------
    Path | None | False
        The folder, None for a memory in RAM, or False when the URL is for another engine.

    Raises
    ------
    ConfigurationError
        The URL cannot be understood.
    """
    if url in ("local://:memory:", ":memory:"):
        return None
    if not url.isprintable() or not url.strip():
        raise ConfigurationError(f"{url!r} is not a path; give a folder such as './memory'")
    if "://" not in url:
        return Path(url).expanduser()
    parts = urlsplit(url)
    if parts.scheme == "local":
        path = unquote(parts.path)
        if parts.netloc or not path:
            raise ConfigurationError(
                f"{url!r} has no absolute path; write three slashes, as in 'local:///home/me/mem'"
            )
        return Path(path)
    return False
