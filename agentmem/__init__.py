"""agentmem gives an agent a memory: write, search, forget.

    async with Memory("./memory") as memory:
        await memory.write("The wifi password of the cabin is 'heron-42'.")
        result = await memory.search("How do I get online at the cabin?")
        print(result.context)

Everything public is imported from here. Names are loaded on first use, so that `import agentmem`
costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentmem.errors import (
    AgentMemError,
    CapabilityError,
    ClosedError,
    ConfigurationError,
    ConfirmationError,
    ConflictError,
    DeadlineExceededError,
    FilterError,
    InvalidDocumentError,
    InvalidInputError,
    InvalidQueryError,
    InvalidScopeError,
    LifecycleError,
    ModelError,
    ModelMismatchError,
    NotOpenError,
    PipelineError,
    StoreAccessError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreUnavailableError,
    StoreVersionError,
    WrongLoopError,
)

if TYPE_CHECKING:
    from agentmem._chunking import Chunk
    from agentmem._filters import F, Filter
    from agentmem._memory import Memory
    from agentmem._types import (
        Citation,
        Document,
        Explanation,
        Finding,
        ForgetResult,
        ForgottenDocument,
        Hit,
        LeftOut,
        Page,
        Plan,
        Progress,
        Receipt,
        RestoreResult,
        Scan,
        Scores,
        SearchResult,
        StageTrace,
        Stats,
        StoredDocument,
        TimeWindow,
        Trace,
        VerifyResult,
        WriteResult,
        WrittenDocument,
    )
    from agentmem._types_moving import Comparison, MoveResult
    from agentmem.config import Settings

_HOMES = {
    "agentmem._chunking": ("Chunk",),
    "agentmem._filters": ("F", "Filter"),
    "agentmem._memory": ("Memory",),
    "agentmem._types": (
        "Citation",
        "Document",
        "Explanation",
        "Finding",
        "ForgetResult",
        "ForgottenDocument",
        "Hit",
        "LeftOut",
        "Page",
        "Plan",
        "Progress",
        "Receipt",
        "RestoreResult",
        "Scan",
        "Scores",
        "SearchResult",
        "StageTrace",
        "Stats",
        "StoredDocument",
        "TimeWindow",
        "Trace",
        "VerifyResult",
        "WriteResult",
        "WrittenDocument",
    ),
    "agentmem._types_moving": ("Comparison", "MoveResult"),
    "agentmem.config": ("Settings",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "AgentMemError",
    "CapabilityError",
    "Chunk",
    "Citation",
    "ClosedError",
    "Comparison",
    "ConfigurationError",
    "ConfirmationError",
    "ConflictError",
    "DeadlineExceededError",
    "Document",
    "Explanation",
    "F",
    "Filter",
    "FilterError",
    "Finding",
    "ForgetResult",
    "ForgottenDocument",
    "Hit",
    "InvalidDocumentError",
    "InvalidInputError",
    "InvalidQueryError",
    "InvalidScopeError",
    "LeftOut",
    "LifecycleError",
    "Memory",
    "ModelError",
    "ModelMismatchError",
    "MoveResult",
    "NotOpenError",
    "Page",
    "PipelineError",
    "Plan",
    "Progress",
    "Receipt",
    "RestoreResult",
    "Scan",
    "Scores",
    "SearchResult",
    "Settings",
    "StageTrace",
    "Stats",
    "StoreAccessError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreUnavailableError",
    "StoreVersionError",
    "StoredDocument",
    "TimeWindow",
    "Trace",
    "VerifyResult",
    "WriteResult",
    "WrittenDocument",
    "WrongLoopError",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'agentmem' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, also those not loaded yet."""
    return [*__all__, "__version__"]
