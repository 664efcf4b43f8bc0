"""The contract between the memory and a storage engine.

An engine stores documents with their chunks and answers stages 2 to 4 of a search. It gets values
that are validated, chunked and embedded already, and it decides nothing about models or text. All
times are integers: microseconds since 1970-01-01 UTC. `FOREVER` and `NEVER` stand for open ends.

Guarantees every engine gives:

* A write batch is atomic, and durable when the call returns.
* Every search, read or count sees all writes that returned before it in this process.
* The scope is applied before candidates are taken: when m chunks match it and the query has a
  vector, at least min(limit, m) candidates come back.
* A cancelled call leaves the engine usable and nothing half written.
* Only errors of `agentmem.errors` leave it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentmem._filters import Filter
from agentmem._types import Scan, WriteStatus
from agentmem.backends._expiry import NewExpiry
from agentmem.errors import CapabilityError
from agentmem.models.base import TokenVectors

Micros: TypeAlias = int
Vector: TypeAlias = NDArray[np.float32]

NEVER: Micros = -(2**62)
"""Before every storable instant: an interval that starts here has no beginning."""

FOREVER: Micros = 2**62
"""After every storable instant: an interval that ends here has no end."""


def begin_of(valid_from: Micros | None, created_at: Micros) -> Micros:
    """Return when a statement begins to hold; without a word on that, when it was written."""
    return created_at if valid_from is None else valid_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which model made the vectors of a memory, and how texts were cut for it.

    `dimensions` is 0 for a model inside the engine, which knows its own.
    """

    embedder: str
    dimensions: int
    token_dimensions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Stage 2's output: which chunks a search may see.

    A chunk is in scope when its tenant is `tenant`; its user is NULL or `user_id` (NULL only when
    that is None); its collection is one of `collections` (any when None; none when empty); it is
    neither deleted nor expired at `now`; its version is in force, at `as_of` when that is given
    and else at `now`; and `where` is true for it.

    The version test is `visible_from <= now < visible_until`, or with `as_of` the test
    `as_of_from <= as_of < as_of_until`, over the columns of `StoredWindow`. With `begins` the
    version must also begin within that half-open interval: `begins[0] <= as_of_from < begins[1]`.
    """

    tenant: str
    user_id: str | None
    collections: tuple[str, ...] | None
    where: Filter | None
    now: Micros
    as_of: Micros | None
    begins: tuple[Micros, Micros] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRequest:
    """What stage 3 asks of an engine.

    Parameters
    ----------
    text
        The query as it is to be embedded and reranked.
    vector
        Query embedding, float32 of shape (dimensions,), L2-normalised and rounded as passages are
        (`agentmem.models.vector_codes`); None for no vector pool, unless the engine embeds `text`
        itself.
    terms
        Lexical terms in index form; empty for no lexical pool.
    pool
        Size of each pool.
    fusion_k, limit
        Constant of reciprocal rank fusion and number of fused rows wanted. An engine that fuses
        may return just these; None for `limit` asks for the whole union of the pools.
    want_codes
        Whether the rows shall carry token codes, their own and those of what stands around them.
    tokens
        Token vectors of the query, when a late-interaction score is wanted: of each candidate as
        `Candidate.late`, where the engine computes it, and else token codes to compute it from.
        With them an engine may add a third pool, the best of the scope by late interaction.
    """

    text: str
    vector: Vector | None
    terms: tuple[str, ...]
    pool: int
    fusion_k: int
    limit: int | None
    want_codes: bool = False
    tokens: TokenVectors | None = None


# Neither frozen nor keyword-only: a search makes a hundred, each in a fraction of the time.
@dataclass(slots=True)
class ChunkRow:
    """Everything that a hit shows of a chunk and its document version.

    Attributes
    ----------
    codes
        Token codes, when they were asked for and the engine has not computed `Candidate.late`.
    codes_before, codes_after
        With them, those of the chunks that stand before it and behind it, the nearest first: see
        `agentmem.backends._context`.
    texts_before
        Searchable texts (`agentmem.backends._rules`) of the chunks that stand before it, the
        nearest first.
    """

    document_id: str
    version: int
    chunk_index: int
    start: int
    end: int
    text: str
    tokens: int
    key: str | None
    title: str | None
    source_uri: str | None
    user_id: str | None
    collection: str
    metadata: Mapping[str, Any]
    created_at: Micros
    valid_from: Micros | None
    valid_until: Micros | None
    codes: bytes | None = None
    codes_before: tuple[bytes, ...] = ()
    codes_after: tuple[bytes, ...] = ()
    texts_before: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A chunk on its way through stages 3 to 6.

    Attributes
    ----------
    id
        Chunk id, ``<document id>:<version>:<chunk index>``; breaks ties everywhere.
    similarity
        Cosine similarity to the query, set for every candidate when the query has a vector.
    vector_rank, lexical_rank, late_rank
        Place in each pool from 1 on (ROW_NUMBER by similarity rounded to 6 digits and id;
        DENSE_RANK by lexical score; by late-interaction score and id), None when not in the pool.
    late
        Late-interaction score of the chunk with what stands around it, when the engine was asked
        and computes it.
    timing
        What the time that the question speaks of has added to `score`.
    row
        What a hit shows of the chunk; set for every candidate that leaves the engine.
    handle
        The engine's own short cut to the row; meaningless elsewhere.
    """

    id: str
    similarity: float | None = None
    vector_rank: int | None = None
    lexical_rank: int | None = None
    lexical_score: float | None = None
    late_rank: int | None = None
    late: float | None = None
    fusion: float = 0.0
    rerank: float | None = None
    timing: float = 0.0
    score: float = 0.0
    row: ChunkRow | None = None
    handle: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Stage 3's answer.

    Attributes
    ----------
    items
        The union of the pools (or the fused best of it), in no particular order.
    vector_pool, lexical_pool, late_pool
        How many rows each pool held.
    degraded
        Sentences about what did not work as configured.
    details
        Further numbers for the trace, such as milliseconds of each leg.
    """

    items: list[Candidate]
    vector_pool: int
    lexical_pool: int
    late_pool: int = 0
    degraded: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkToWrite:
    """A chunk, ready to be stored.

    Parameters
    ----------
    start, end
        Character span in the document's content.
    vector
        float32 of shape (dimensions,), L2-normalised and rounded
        (`agentmem.models.vector_codes`): one byte a dimension holds it without loss.
    codes
        Token codes for late interaction, or None when the embedder gives no token vectors.
    """

    chunk_index: int
    start: int
    end: int
    tokens: int
    vector: Vector
    codes: bytes | None


Remake = Callable[[Sequence[tuple[str | None, str]]], Awaitable[list[tuple[ChunkToWrite, ...]]]]
Progressing = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentToWrite:
    """A document, validated, chunked and embedded.

    Parameters
    ----------
    identity
        What tells documents apart within tenant, user and collection: the key or the content hash.
    fingerprint
        Hash over everything that makes a version. The stored head having the same one means that
        there is nothing to write.
    created_at
        Time of the write.
    """

    user_id: str | None
    collection: str
    key: str | None
    identity: str
    fingerprint: str
    title: str | None
    source_uri: str | None
    content: str
    metadata: Mapping[str, Any]
    created_at: Micros
    valid_from: Micros | None
    valid_until: Micros | None
    expires_at: Micros | None
    chunks: tuple[ChunkToWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedVersion:
    """One version of a document with its chunks, as it leaves a store.

    A chunk whose vector is missing has one of length 0.
    """

    row: StoredRow
    chunks: tuple[ChunkToWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentToLoad:
    """A document with all versions, oldest first, to be stored as it was elsewhere."""

    document_id: str
    deleted_at: Micros | None
    versions: tuple[DocumentToWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Names a document within its tenant."""

    user_id: str | None
    collection: str
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest version of a document that is not forgotten."""

    document_id: str
    version: int
    fingerprint: str
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the engine did with one document of a batch."""

    document_id: str
    version: int
    status: WriteStatus
    chunks: int


@dataclass(frozen=True, slots=True)
class Owner:
    """Which users' documents a selection covers.

    `mode` is ``"visible"`` (shared ones and `user_id`'s own), ``"own"`` (exactly `user_id`'s; the
    shared ones when that is None) or ``"every"`` (all users of the tenant).
    """

    mode: Literal["visible", "own", "every"]
    user_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which documents of a tenant a read, count, forget or restore is about.

    All given conditions hold together. `where` and `as_of` look at the document's newest version,
    except that `as_of` picks the version in force at that time. `deleted` chooses between live
    documents (False), forgotten ones (True) and both (None). Expired documents are never selected
    unless `expired` is True.
    """

    tenant: str
    owner: Owner
    now: Micros
    ids: tuple[str, ...] | None = None
    key: str | None = None
    collections: tuple[str, ...] | None = None
    where: Filter | None = None
    as_of: Micros | None = None
    deleted: bool | None = False
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """One version of a document, as stored."""

    document_id: str
    version: int
    user_id: str | None
    collection: str
    key: str | None
    title: str | None
    source_uri: str | None
    content: str
    metadata: Mapping[str, Any]
    first_created_at: Micros
    created_at: Micros
    valid_from: Micros | None
    valid_until: Micros | None
    expires_at: Micros | None
    deleted_at: Micros | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """One document that a forget covered."""

    document_id: str
    user_id: str | None
    collection: str
    key: str | None
    versions: int
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a forget did.

    Attributes
    ----------
    documents
        What it covered, in list order.
    receipt
        Hash of the receipt that was written; None when nothing was changed.
    scan
        What a purge looked for and found afterwards; None without a purge.
    """

    documents: list[Forgotten]
    receipt: str | None = None
    scan: Scan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """One link of the chain of receipts; see `agentmem.Receipt`."""

    number: int
    at: Micros
    action: str
    ids: tuple[str, ...]
    details: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Tenant-wide numbers for `stats()`."""

    documents: int
    versions: int
    chunks: int
    forgotten: int
    users: int
    collections: int
    bytes: int | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding of `verify()`."""

    kind: str
    subject: str
    message: str
    repaired: bool = False


class Backend(ABC):
    """A storage engine. See the module's text for the guarantees.

    Attributes
    ----------
    name
        Short name of the engine, such as ``"embedded"``.
    """

    name: str

    @abstractmethod
    async def open(self, model: ModelIdentity) -> None:
        """Open or create the store for vectors of `model`.

        Raises
        ------
        ModelMismatchError
            The store was made with another model.
        StoreError
            The store cannot be used; the subclass says why.
        """

    async def reembed(self, model: ModelIdentity, remake: Remake, progress: Progressing) -> None:
        """Make `model` the one of the store, which is not open; nothing is done when it is.

        Parameters
        ----------
        remake
            Returns new chunks for titles and contents.
        progress
            Called with the number of versions that are done and of all versions.

        Raises
        ------
        CapabilityError
            The engine cannot change the model of a store in its place.
        """
        raise CapabilityError(
            f"the {self.name} engine cannot change the model of a store in its place; set up "
            "another one with the new model and run 'agentmem copy', which embeds again"
        )

    @abstractmethod
    async def close(self) -> None:
        """Release every resource. Closing twice is harmless."""

    @abstractmethod
    async def heads(
        self, tenant: str, identities: Sequence[Identity], now: Micros
    ) -> list[Head | None]:
        """Return the live head for each identity, in order."""

    @abstractmethod
    async def write(self, tenant: str, documents: Sequence[DocumentToWrite]) -> list[Written]:
        """Store a batch in one transaction and return what became of each document, in order.

        A document whose live head has the same fingerprint is left alone. A document whose head
        differs becomes the next version. Otherwise it is new.
        """

    @abstractmethod
    async def candidates(self, scope: Scope, request: CandidateRequest) -> Candidates:
        """Run stages 2 and 3, and stage 4 when the engine fuses. Every candidate has its row."""

    @abstractmethod
    async def read(
        self,
        selection: Selection,
        *,
        after: tuple[Micros, str] | None = None,
        limit: int | None = None,
    ) -> list[StoredRow]:
        """Return one version per selected document, ordered by first creation and id.

        `after` is the order key (`first_created_at`, `document_id`) of the last row seen.
        """

    @abstractmethod
    async def versions(self, selection: Selection) -> list[StoredRow]:
        """Return every version of the selected documents, oldest first."""

    @abstractmethod
    async def count(self, selection: Selection) -> int:
        """Return how many documents are selected."""

    @abstractmethod
    async def forget(
        self,
        selection: Selection,
        *,
        at: Micros,
        purge: bool,
        dry_run: bool,
        at_most: int | None = None,
    ) -> Outcome:
        """Mark the selected documents as forgotten, or remove their bytes, in one transaction.

        A purge looks for what it removed afterwards, where the engine can.

        Raises
        ------
        ConfirmationError
            More than `at_most` documents are selected; nothing is changed.
        """

    @abstractmethod
    async def receipts(self, tenant: str) -> list[StoredReceipt]:
        """Return the receipts of a tenant, oldest first."""

    @abstractmethod
    async def restore(self, selection: Selection) -> list[str]:
        """Bring forgotten documents back and return their ids.

        Raises
        ------
        ConflictError
            A live document has the same identity as one to be restored; nothing is changed.
        """

    @abstractmethod
    async def set_expiry(self, tenant: str, changes: Sequence[NewExpiry]) -> list[bool]:
        """Change when versions expire, and return for each whether it still was a live head."""

    @abstractmethod
    async def totals(self, tenant: str, now: Micros) -> Totals:
        """Return tenant-wide numbers."""

    @abstractmethod
    async def verify(self, *, repair: bool) -> list[Problem]:
        """Check the store and, with `repair`, mend what is derived from the truth."""

    @abstractmethod
    async def lacking_vectors(self, after: int, limit: int) -> list[tuple[int, str]]:
        """Return handle and searchable text of chunks without usable vector or token codes.

        In order of the handle, from the one behind `after` on, at most `limit`.
        """

    @abstractmethod
    async def set_vectors(self, rows: Sequence[tuple[int, Vector, bytes | None]]) -> None:
        """Store vector and token codes of the chunks with these handles, in one transaction."""

    @abstractmethod
    async def dump(
        self, selection: Selection, *, after: tuple[Micros, str] | None, limit: int
    ) -> list[list[DumpedVersion]]:
        """Return every version of at most `limit` selected documents, in list order.

        `after` is the order key of the last document seen, as in `read`.
        """

    @abstractmethod
    async def load(self, tenant: str, documents: Sequence[DocumentToLoad]) -> list[bool]:
        """Store documents with their ids, versions and times, all or none of them.

        Returns
        -------
        list[bool]
            Whether each document was stored; False when one with its id was there already, which is
            left as it is.

        Raises
        ------
        ConflictError
            A document's key or text belongs to another one; nothing is stored.
        """

    async def embed(self, model: str, texts: Sequence[str]) -> Vector:
        """Return vectors made by a model inside the engine, float32 of shape (texts, dimensions).

        Raises
        ------
        CapabilityError
            The engine runs no models.
        """
        raise CapabilityError(
            f"the {self.name} engine runs no models; configure an embedder of this process "
            f"instead of the model {model!r} in a database"
        )

    @abstractmethod
    async def compact(self) -> None:
        """Give back space that deleted and superseded data no longer need."""
