"""Every error that agentmem raises, as one tree.

    AgentMemError
    ├── ConfigurationError            a setting, URL or file of settings cannot be used
    │   └── PipelineError             the stages of a pipeline do not fit together
    ├── LifecycleError                the memory is in the wrong state for the call
    │   ├── NotOpenError              used before `open()`
    │   ├── ClosedError               used after `close()`
    │   └── WrongLoopError            used from another event loop or a forked process
    ├── InvalidInputError             an argument cannot be used
    │   ├── InvalidDocumentError      a document cannot be written; carries its position
    │   ├── InvalidQueryError         a query cannot be searched
    │   ├── InvalidScopeError         a tenant, user or collection name cannot be used
    │   ├── FilterError               a `where` filter is malformed; carries the path
    │   └── ConfirmationError         so many documents are forgotten only when confirmed
    ├── ConflictError                 the call contradicts what is stored
    ├── ModelError                    a model's files are missing, damaged or unusable
    │   └── ModelMismatchError        the memory was written with another embedding model
    ├── DeadlineExceededError         the call did not finish within its deadline
    ├── CapabilityError               the engine, or a read-only memory, cannot do what was asked
    └── StoreError                    the store failed or cannot be used
        ├── StoreAccessError          not a memory, not a folder, or no permission
        ├── StoreCorruptError         the stored bytes are damaged
        ├── StoreVersionError         the schema is newer than this release knows
        ├── StoreLockedError          another process held a lock for too long
        ├── StoreFullError            no space is left
        └── StoreUnavailableError     the database cannot be reached

A message names what was asked, what stopped it and what to do. Errors of a driver never leave the
library; they are chained as `__cause__`.
"""

from __future__ import annotations


class AgentMemError(Exception):
    """Root of all errors raised by agentmem."""


class ConfigurationError(AgentMemError):
    """A setting, a URL or a file of settings cannot be used."""


class PipelineError(ConfigurationError):
    """The stages of a pipeline do not fit together."""


class LifecycleError(AgentMemError):
    """The memory is in the wrong state for the call."""


class NotOpenError(LifecycleError):
    """The memory was used before it was opened."""


class ClosedError(LifecycleError):
    """The memory was used after it was closed."""


class WrongLoopError(LifecycleError):
    """The memory was used from another event loop or process than the one that opened it."""


class InvalidInputError(AgentMemError):
    """An argument cannot be used."""


class InvalidDocumentError(InvalidInputError):
    """A document cannot be written.

    Attributes
    ----------
    position
        Zero-based position of the document in what was passed to `write`.
    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class InvalidQueryError(InvalidInputError):
    """A query cannot be searched."""


class InvalidScopeError(InvalidInputError):
    """A tenant, user or collection name cannot be used."""


class FilterError(InvalidInputError):
    """A `where` filter is malformed.

    Attributes
    ----------
    path
        Where in the filter the fault is, such as `and[1].kind.in`.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class ConfirmationError(InvalidInputError):
    """A forget covers more documents than it may without being confirmed; nothing was changed.

    Attributes
    ----------
    documents
        How many it covers.
    """

    def __init__(self, message: str, *, documents: int = 0) -> None:
        super().__init__(message)
        self.documents = documents


class ConflictError(AgentMemError):
    """The call contradicts what is stored."""


class ModelError(AgentMemError):
    """A model's files are missing, damaged or unusable."""


class ModelMismatchError(ModelError):
    """The memory was written with another embedding model."""


class DeadlineExceededError(AgentMemError):
    """The call did not finish within its deadline."""


class CapabilityError(AgentMemError):
    """The engine, or a memory that was opened read-only, cannot do what was asked."""


class StoreError(AgentMemError):
    """The store failed or cannot be used."""


class StoreAccessError(StoreError):
    """The path is not a memory, not a folder, or may not be read or written."""


class StoreCorruptError(StoreError):
    """The stored bytes are damaged."""


class StoreVersionError(StoreError):
    """The store's schema is newer than this release knows."""


class StoreLockedError(StoreError):
    """Another process held a lock for longer than the lock timeout."""


class StoreFullError(StoreError):
    """No space is left for the write."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached."""
