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
    """Root of all errors raised by agentmem.

    What to do: catch it where any of them will do.
    """


class ConfigurationError(AgentMemError):
    """A setting, a URL or a file of settings cannot be used.

    What to do: correct the setting that the message names; ``agentmem config`` shows all.
    """


class PipelineError(ConfigurationError):
    """The stages of a pipeline do not fit together.

    What to do: let each stage of your own declare what it needs and adds, and set what it adds.
    """


class LifecycleError(AgentMemError):
    """The memory is in the wrong state for the call.

    What to do: use a memory inside ``async with``, on one event loop.
    """


class NotOpenError(LifecycleError):
    """The memory was used before it was opened.

    What to do: open it with ``async with`` or `Memory.open` first.
    """


class ClosedError(LifecycleError):
    """The memory was used after it was closed.

    What to do: make a new `Memory`; one instance is opened once.
    """


class WrongLoopError(LifecycleError):
    """The memory was used from another event loop or process than the one that opened it.

    What to do: open a memory on each loop and in each process, or share one through
    `agentmem.integrations.home.MemoryHome`.
    """


class InvalidInputError(AgentMemError):
    """An argument cannot be used.

    What to do: correct the argument that the message names; nothing was changed.
    """


class InvalidDocumentError(InvalidInputError):
    """A document cannot be written.

    What to do: correct or leave out the document at `position`, and write again.

    Attributes
    ----------
    position
        Zero-based position of the document in what was passed to `write`.
    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class InvalidQueryError(InvalidInputError):
    """A query cannot be searched.

    What to do: give a text with something in it.
    """


class InvalidScopeError(InvalidInputError):
    """A tenant, user or collection name cannot be used.

    What to do: give a name that is not blank, or leave it out.
    """


class FilterError(InvalidInputError):
    """A `where` filter is malformed.

    What to do: correct the filter at `path`.

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

    What to do: look with ``dry_run=True``; then narrow the call, give ``confirm=True``, or raise
    `Settings.forget_limit`.

    Attributes
    ----------
    documents
        How many it covers.
    """

    def __init__(self, message: str, *, documents: int = 0) -> None:
        super().__init__(message)
        self.documents = documents


class ConflictError(AgentMemError):
    """The call contradicts what is stored.

    What to do: look at what is stored under that key, text or id, and decide which one stays.
    """


class ModelError(AgentMemError):
    """A model's files are missing, damaged or unusable.

    What to do: check the folder or hub id that the message names.
    """


class ModelMismatchError(ModelError):
    """The memory was written with another embedding model.

    What to do: configure the former model, or run ``agentmem reembed`` (on Oracle, ``agentmem
    copy`` into a schema for the new one).
    """


class DeadlineExceededError(AgentMemError):
    """The call did not finish within its deadline.

    What to do: allow more time, or lower `Settings.pool` or `Settings.fused`.
    """


class CapabilityError(AgentMemError):
    """The engine, or a memory that was opened read-only, cannot do what was asked.

    What to do: open the memory without `Settings.read_only`, or do what the message says instead.
    """


class StoreError(AgentMemError):
    """The store failed or cannot be used.

    What to do: look at the message and at `__cause__`, and check disk or database.
    """


class StoreAccessError(StoreError):
    """The path is not a memory, not a folder, or may not be read or written.

    What to do: check the path, its permissions and whose folder it is.
    """


class StoreCorruptError(StoreError):
    """The stored bytes are damaged.

    What to do: restore a backup; `Memory.verify` says more.
    """


class StoreVersionError(StoreError):
    """The store's schema is newer than this release knows.

    What to do: upgrade agentmem.
    """


class StoreLockedError(StoreError):
    """Another process held a lock for longer than the lock timeout.

    What to do: try again, or raise `Settings.lock_timeout`; the message names the process where
    that is known.
    """


class StoreFullError(StoreError):
    """No space is left for the write.

    What to do: free some space and try again; what was acknowledged before is safe.
    """


class StoreUnavailableError(StoreError):
    """The database cannot be reached.

    What to do: try again. After a forget, purge or restore look first whether it was done: what was
    lost may be the answer.
    """
