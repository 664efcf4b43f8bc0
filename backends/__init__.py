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


def make_backend(settings: Settings) -> Backend:
    """Return the engine that `settings.url` names, not yet open.

    Raises
    ------
    ConfigurationError
        No engine understands the URL.
    """
    from agentmem.config import local_folder, without_password

    folder = local_folder(settings.url)
    if folder is not False:
        from agentmem.backends.embedded import EmbeddedBackend

        return EmbeddedBackend(
            folder,
            lock_timeout=settings.lock_timeout,
            durability=settings.durability,
            readers=settings.readers,
            vector_memory=settings.vector_memory_mb << 20,
        )
    raise ConfigurationError(
        f"no engine understands {without_password(settings.url)!r}; "
        "give a folder, local:///absolute/path or local://:memory:"
    )
