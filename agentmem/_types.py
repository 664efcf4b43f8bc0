"""The values that go into a memory and come out of it.

Everything here is a plain frozen dataclass without behaviour, shared by all layers. Times are
timezone-aware datetimes in UTC; texts are `str`; positions in a text count characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

Metadata: TypeAlias = Mapping[str, Any]
WriteStatus: TypeAlias = Literal["created", "updated", "unchanged"]
ProgressCallback: TypeAlias = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long call has come.

    Parameters
    ----------
    done
        Units finished so far.
    total
        Units in all, or None while that is not known (a stream of documents).
    unit
        What is counted, such as ``"documents"``.
    """

    done: int
    total: int | None
    unit: str = "documents"


@dataclass(frozen=True, slots=True)
class Document:
    """What a caller writes.

    A field left at None takes the value of the same argument of `Memory.write`.

    Parameters
    ----------
    content
        The text to remember.
    key
        Identity across versions, unique within tenant, user and collection. Writing the same key
        again makes a new version. Without a key the identity is the content's hash.
    title
        Shown with the hit, and searched together with the content.
    source_uri
        Where the text comes from; carried into the citation.
    user_id
        Owner. None makes the document visible to every user of the tenant.
    collection
        Named group of documents.
    metadata
        JSON-like values under string keys, filterable with `where`.
    valid_from, valid_until
        When the statement holds: from the first instant on, up to but not including the second.
    expires_at
        From this instant on the document is invisible everywhere.
    """

    content: str
    key: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    source_uri: str | None = field(default=None, kw_only=True)
    user_id: str | None = field(default=None, kw_only=True)
    collection: str | None = field(default=None, kw_only=True)
    metadata: Metadata | None = field(default=None, kw_only=True)
    valid_from: datetime | None = field(default=None, kw_only=True)
    valid_until: datetime | None = field(default=None, kw_only=True)
    expires_at: datetime | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """One version of a document as the memory holds it."""

    id: str
    version: int
    key: str | None
    content: str
    title: str | None
    source_uri: str | None
    user_id: str | None
    collection: str
    metadata: Metadata
    created_at: datetime
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDocument:
    """What a write did with one document."""

    id: str
    version: int
    status: WriteStatus
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did, in the order of the documents given."""

    documents: tuple[WrittenDocument, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Document ids in the order of the documents given."""
        return tuple(document.id for document in self.documents)

    @property
    def created(self) -> int:
        """How many documents are new."""
        return sum(document.status == "created" for document in self.documents)

    @property
    def updated(self) -> int:
        """How many documents received a new version."""
        return sum(document.status == "updated" for document in self.documents)

    @property
    def unchanged(self) -> int:
        """How many documents were there already, exactly so."""
        return sum(document.status == "unchanged" for document in self.documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenDocument:
    """One document named in a receipt. It never holds content."""

    id: str
    user_id: str | None
    collection: str
    key: str | None
    versions: int
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A search for purged data in every byte that the memory keeps.

    Attributes
    ----------
    files, bytes
        What was searched.
    fingerprints
        How many pieces of 16 bytes were looked for: from texts, keys, metadata, index terms,
        vectors and token codes. Pieces that remaining documents hold too are not among them.
    found
        Files in which any was found, with their number; empty when nothing is left.
    milliseconds
        How long it took.
    """

    files: int
    bytes: int
    fingerprints: int
    found: tuple[str, ...]
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One entry of the log of what was forgotten. It holds ids and no content.

    Attributes
    ----------
    number
        Place in the log, over all tenants.
    action
        ``"forget"``, ``"purge"`` or ``"scan"``.
    details
        For a scan its numbers; else the numbers of versions and chunks.
    hash
        Covers this entry and the hash of the one before; `verify` checks the chain.
    """

    number: int
    at: datetime
    action: str
    ids: tuple[str, ...]
    details: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetResult:
    """What a `forget` did.

    Attributes
    ----------
    documents
        What was forgotten, or with `dry_run` what would be.
    missing
        Ids that were asked for and are not there for this caller.
    purged
        True when the bytes were removed, False when the documents can still be restored.
    dry_run
        True when nothing was changed.
    at
        When it happened.
    receipt
        Hash of the entry in the log of receipts; None when nothing was changed.
    scan
        What a purge looked for afterwards, and found; None without a purge.
    """

    documents: tuple[ForgottenDocument, ...]
    missing: tuple[str, ...]
    purged: bool
    dry_run: bool
    at: datetime
    receipt: str | None = None
    scan: Scan | None = None

    @property
    def count(self) -> int:
        """How many documents were forgotten."""
        return len(self.documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What a `restore` brought back."""

    restored: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of `Memory.list`."""

    documents: tuple[StoredDocument, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The numbers behind a hit; higher is better, ranks start at 1.

    Attributes
    ----------
    similarity
        Cosine similarity of query and chunk, 1 for the same text.
    vector_rank, lexical_rank, late_rank
        Place in each candidate pool, or None when the chunk was not in it. The third, by late
        interaction, is taken from small scopes in a folder.
    lexical_score
        The engine's own relevance score (BM25 or Oracle Text); only its order has a meaning.
    fusion
        Reciprocal rank fusion score.
    rerank
        The reranker's score, or None without one.
    timing
        What the time that the question speaks of added to the hit's score.
    """

    similarity: float | None
    vector_rank: int | None
    lexical_rank: int | None
    lexical_score: float | None
    fusion: float
    rerank: float | None
    timing: float = 0.0
    late_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Ties a number in the context to a place in a document.

    Attributes
    ----------
    number
        The number in square brackets in `SearchResult.context`.
    span
        First and one-past-last character of the chunk in the document's content.
    """

    number: int
    document_id: str
    version: int
    chunk_index: int
    span: tuple[int, int]
    title: str | None
    source_uri: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk that made it into the result."""

    id: str
    document_id: str
    key: str | None
    version: int
    chunk_index: int
    span: tuple[int, int]
    text: str
    title: str | None
    source_uri: str | None
    user_id: str | None
    collection: str
    metadata: Metadata
    created_at: datetime
    valid_from: datetime | None
    valid_until: datetime | None
    score: float
    scores: Scores
    tokens: int
    citation: Citation


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTrace:
    """What one stage of a search did.

    Attributes
    ----------
    milliseconds
        Wall time of the stage.
    count_in, count_out
        Candidates or hits that went in and came out, None for a stage that handles none.
    details
        Further numbers of the stage, such as pool sizes or tokens used.
    """

    name: str
    runs: Literal["client", "engine"]
    milliseconds: float
    count_in: int | None
    count_out: int | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one candidate was kept or cut (`explain=True`)."""

    id: str
    document_id: str
    text: str
    scores: Scores
    kept: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How a search went, stage by stage."""

    stages: tuple[StageTrace, ...]
    explanations: tuple[Explanation, ...] | None = None

    @property
    def milliseconds(self) -> float:
        """Wall time of all stages together."""
        return sum(stage.milliseconds for stage in self.stages)

    def __getitem__(self, name: str) -> StageTrace:
        """Return the trace of the stage called `name`; KeyError when there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)


Intent: TypeAlias = Literal[
    "fact", "time", "list", "procedure", "comparison", "preference", "other"
]


TimePreference: TypeAlias = Literal["earlier", "current", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """A time expression found in a query, resolved against the clock.

    Attributes
    ----------
    start, end
        Half-open interval in UTC; None where it is open.
    text
        The words of the query that it came from.
    """

    start: datetime | None
    end: datetime | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What stage 1 understood of a query.

    Attributes
    ----------
    query
        The query as the caller wrote it.
    text
        The text that is embedded and reranked against.
    terms
        Lexical search terms, in the index's own form (see `agentmem._terms`).
    phrases
        Texts that stood in quotation marks.
    codes
        Codes and numbers, such as ``ERR-4711``, as written.
    entities
        Names found in the query, as written.
    expansions
        Further lexical terms from the caller's synonyms, in the index's own form.
    intent
        The kind of question.
    time_window
        The period that the query speaks of, or None.
    time_preference
        Which of several statements the query prefers: ``"earlier"`` ones ("used to", "before the
        move"), the ``"latest"`` ("now", "still"), or, for a question about what is, a
        ``"current"`` one: the later of two that say much the same. None for neither.
    token_budget
        Upper limit of tokens in the context, or None for no limit.
    diversify_by
        See `Memory.search`.
    made_by
        ``"default"``, or ``"caller"`` when the caller's `understand` made or changed it.
    """

    query: str
    text: str
    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    expansions: tuple[str, ...] = ()
    intent: Intent = "other"
    time_window: TimeWindow | None = None
    time_preference: TimePreference | None = None
    token_budget: int | None = None
    diversify_by: str | None = None
    made_by: Literal["default", "caller"] = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A chunk that stage 6 did not put into the context, and why."""

    id: str
    document_id: str
    tokens: int
    reason: Literal["duplicate", "diversity", "budget", "limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The working set for one query.

    Attributes
    ----------
    hits
        The chunks kept, best first.
    context
        The hits as numbered, cited text, ready for a prompt.
    citations
        One entry for each number in the context.
    tokens
        Tokens of the context.
    left_out
        Chunks that stage 6 dropped among the best, with the reason.
    plan
        What stage 1 understood.
    trace
        What each stage did and how long it took.
    degraded
        What did not work as configured, as sentences; empty when everything did.
    """

    hits: tuple[Hit, ...]
    context: str
    citations: tuple[Citation, ...]
    tokens: int
    left_out: tuple[LeftOut, ...]
    plan: Plan
    trace: Trace
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a memory holds and how it is set up.

    Attributes
    ----------
    documents, versions, chunks
        Live ones of this tenant.
    forgotten
        Documents that can still be restored.
    users, collections
        How many have live documents.
    bytes
        Size of the whole store, or None when the engine cannot tell.
    engine, embedder, reranker
        What is in use.
    degraded
        What does not work as configured, as sentences.
    """

    documents: int
    versions: int
    chunks: int
    forgotten: int
    users: int
    collections: int
    bytes: int | None
    engine: str
    embedder: str
    reranker: str | None
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault that `verify` found.

    Attributes
    ----------
    kind
        What is at fault, such as ``"text index"``.
    subject
        The row, file or id it is about.
    repaired
        True when it was mended.
    """

    kind: str
    subject: str
    message: str
    repaired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What `verify` found."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong, or everything wrong was repaired."""
        return all(finding.repaired for finding in self.findings)
