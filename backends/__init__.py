"""Storage engines behind one contract.

`agentmem.backends.base` holds the contract. Each engine lives in a folder of its own, which is the
only place that knows its driver, and is imported on demand by `open_backend`.
"""

from __future__ import annotations

if __name__ == "backends":  # pragma: no cover
    raise ImportError("import agentmem.backends, not the bare folder name")

from typing import TYPE_CHECKING

from agentmem.errors import ConfigurationError

if TYPE_CHECKING:
    from agentmem.backends.base import Backend
    from agentmem.config import Settings


def make_backend(
    settings: Settings,
    tenant: str,
    *,
    embed_model: str | None = None,
    rerank_model: str | None = None,
) -> Backend:
    """Return the engine that `settings.url` names, not yet open.

    Parameters
    ----------
    tenant
        Whom an engine for many tenants shall work for.
    embed_model, rerank_model
        Models inside the engine that embed queries and rerank candidates.

    Raises
    ------
    ConfigurationError
        No engine understands the URL, its driver is not installed, or it runs no models.
    """
    from agentmem.config import allocator_is_chosen, local_folder, without_password

    folder = local_folder(settings.url)
    if folder is not False:
        from agentmem.backends.embedded import EmbeddedBackend

        model = embed_model or rerank_model
        if model is not None:
            raise ConfigurationError(
                f"the embedded engine runs no models, so 'database:{model}' cannot be used; "
                "choose a model of this process"
            )
        return EmbeddedBackend(
            folder,
            lock_timeout=settings.lock_timeout,
            durability=settings.durability,
            readers=settings.readers,
            vector_memory=settings.vector_memory_mb << 20,
            read_only=settings.read_only,
            tune_allocator=settings.tune_allocator and not allocator_is_chosen(),
        )
    if not settings.url.startswith("oracle://"):
        raise ConfigurationError(
            f"no engine understands {without_password(settings.url)!r}; give a folder, "
            "local:///absolute/path, local://:memory: or oracle://user@host:1521/service"
        )
    try:
        from agentmem.backends.oracle import OracleBackend, read_target
    except ModuleNotFoundError as error:
        if error.name != "oracledb":
            raise
        raise ConfigurationError(
            "the driver for Oracle is not installed; run: pip install 'agentmem[oracle]'"
        ) from error
    return OracleBackend(
        read_target(settings), tenant, embed_model=embed_model, rerank_model=rerank_model
    )
