"""A memory as a server of the Model Context Protocol: write, search, forget, get, list.

Whose memory it is, is fixed when the server is made: no tool takes a tenant or a user, so a model
cannot ask for another user's. The memory opens behind the handshake, which answers at once.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from agentmem import StoredDocument, __version__
from agentmem.config import Settings
from agentmem.errors import AgentMemError, ConfigurationError

_INSTRUCTIONS = (
    "A long-term memory. Search it before you answer questions about the user, earlier work or "
    "facts that were told before; write what will matter later, one statement at a time; cite hits "
    "by their number."
)
_READING = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDING = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_DESTROYING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

if TYPE_CHECKING:
    from agentmem import Memory

Filter = Annotated[
    dict[str, Any] | None,
    Field(description='Condition on metadata, such as {"kind": {"eq": "note"}}.'),
]


class Remembered(BaseModel):
    """What became of a text."""

    id: str
    version: int
    status: str


class Found(BaseModel):
    """One hit of a search."""

    number: int = Field(description="Number for citations.")
    text: str
    document_id: str
    version: int
    title: str | None
    source: str | None
    created_at: datetime
    score: float


class SearchAnswer(BaseModel):
    """The hits, and the cited context ready to be read."""

    hits: list[Found]
    context: str
    degraded: list[str]


class Entry(BaseModel):
    """A document."""

    id: str
    version: int
    key: str | None
    title: str | None
    content: str
    collection: str
    metadata: dict[str, Any]
    created_at: datetime


class Listing(BaseModel):
    """A page of documents."""

    documents: list[Entry]
    cursor: str | None


class Gone(BaseModel):
    """What was forgotten."""

    forgotten: list[str]
    missing: list[str]


class _Opened:
    """The memory of a server, opened in the background."""

    def __init__(self, make: Callable[[], Memory]) -> None:
        self._make = make
        self._task: asyncio.Task[Memory] | None = None

    @asynccontextmanager
    async def lifespan(self, server: MCPServer[None]) -> AsyncIterator[None]:
        """Open the memory while the server answers already, and close it in the end."""
        self._task = asyncio.create_task(self._open())
        try:
            yield
        finally:
            opened = await asyncio.gather(self._task, return_exceptions=True)
            if not isinstance(opened[0], BaseException):
                await opened[0].close()

    async def _open(self) -> Memory:
        memory = await asyncio.to_thread(self._make)
        await memory.open()
        return memory

    async def memory(self) -> Memory:
        """Return the memory as soon as it is open.

        Raises
        ------
        ToolError
            It could not be opened.
        """
        if self._task is None:
            raise ToolError("the server has not started")
        try:
            return await asyncio.shield(self._task)
        except AgentMemError as error:
            raise ToolError(str(error)) from error


def make_server(
    settings: Settings | None = None,
    *,
    tenant: str | None = None,
    user_id: str | None = None,
    collection: str | None = None,
    make_memory: Callable[[], Memory] | None = None,
) -> MCPServer[None]:
    """Return a server over one user's memory.

    Parameters
    ----------
    settings
        Where the memory is; from the environment when None.
    tenant, user_id
        Whose memory it is; without a user only shared documents are seen and written.
    collection
        Where new documents go.
    make_memory
        Makes the memory instead of `settings` and `tenant`.
    """
    chosen = settings or Settings()

    def configured() -> Memory:
        # Imported behind the handshake: the engine takes longer to load than a client waits.
        from agentmem import Memory

        return Memory(chosen, tenant=tenant)

    opened = _Opened(make_memory or configured)
    server: MCPServer[None] = MCPServer(
        "agentmem",
        title="Memory",
        instructions=_INSTRUCTIONS,
        version=__version__,
        lifespan=opened.lifespan,
        log_level="WARNING",
    )
    _add_reading(server, opened, user_id)
    if not chosen.read_only:
        _add_writing(server, opened, user_id, collection)
    return server


def _add_reading(server: MCPServer[None], opened: _Opened, user_id: str | None) -> None:
    @server.tool(annotations=_READING)
    async def search(
        query: Annotated[str, Field(description="Question or words.")],
        k: Annotated[int, Field(description="Most hits.", ge=1, le=50)] = 8,
        where: Filter = None,
        as_of: Annotated[
            datetime | None, Field(description="Answer as of this time, with time zone.")
        ] = None,
    ) -> SearchAnswer:
        """Find what the memory knows about a question, best first, with a cited context."""
        memory = await opened.memory()
        with _told():
            result = await memory.search(query, user_id=user_id, k=k, where=where, as_of=as_of)
        return SearchAnswer(
            hits=[
                Found(
                    number=number,
                    text=hit.text,
                    document_id=hit.document_id,
                    version=hit.version,
                    title=hit.title,
                    source=hit.source_uri,
                    created_at=hit.created_at,
                    score=hit.score,
                )
                for number, hit in enumerate(result.hits, start=1)
            ],
            context=result.context,
            degraded=list(result.degraded),
        )

    @server.tool(annotations=_READING)
    async def get(id: Annotated[str, Field(description="Document id.")]) -> Entry:
        """Read the newest version of a document."""
        memory = await opened.memory()
        with _told():
            found = await memory.get(id, user_id=user_id)
        if found is None:
            raise ToolError(f"there is no document {id!r}")
        return _entry(found)

    @server.tool(name="list", annotations=_READING)
    async def list_documents(
        limit: Annotated[int, Field(description="Documents on a page.", ge=1, le=200)] = 50,
        cursor: Annotated[str | None, Field(description="Where the page before ended.")] = None,
        where: Filter = None,
    ) -> Listing:
        """List documents in the order in which they were first written."""
        memory = await opened.memory()
        with _told():
            page = await memory.list(user_id=user_id, limit=limit, cursor=cursor, where=where)
        return Listing(documents=[_entry(d) for d in page.documents], cursor=page.cursor)

    @server.resource("agentmem://documents/{id}", mime_type="text/plain")
    async def document(id: str) -> str:
        """Return the newest text of a document."""
        memory = await opened.memory()
        with _told():
            found = await memory.get(id, user_id=user_id)
        if found is None:
            raise ToolError(f"there is no document {id!r}")
        return found.content


def _add_writing(
    server: MCPServer[None], opened: _Opened, user_id: str | None, collection: str | None
) -> None:
    @server.tool(annotations=_ADDING)
    async def write(
        content: Annotated[str, Field(description="The text to remember.")],
        key: Annotated[
            str | None, Field(description="Name of the fact; the same name again corrects it.")
        ] = None,
        title: Annotated[str | None, Field(description="Short title.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Further facts.")] = None,
        expires_at: Annotated[
            datetime | None, Field(description="When it stops to matter, with time zone.")
        ] = None,
    ) -> Remembered:
        """Remember a text. Writing the same again changes nothing."""
        memory = await opened.memory()
        with _told():
            result = await memory.write(
                content,
                user_id=user_id,
                collection=collection,
                key=key,
                title=title,
                metadata=metadata,
                expires_at=expires_at,
            )
        done = result.documents[0]
        return Remembered(id=done.id, version=done.version, status=done.status)

    @server.tool(annotations=_DESTROYING)
    async def forget(
        ids: Annotated[list[str], Field(description="Ids of documents, as search gives them.")],
        purge: Annotated[
            bool, Field(description="Remove the bytes as well; cannot be undone.")
        ] = False,
    ) -> Gone:
        """Forget documents with all their versions."""
        memory = await opened.memory()
        with _told():
            result = await memory.forget(ids, user_id=user_id, purge=purge)
        return Gone(forgotten=[d.id for d in result.documents], missing=list(result.missing))


@contextmanager
def _told() -> Iterator[None]:
    """Hand our errors to the model, which can do something about most of them."""
    try:
        yield
    except AgentMemError as error:
        raise ToolError(str(error)) from error


def _entry(document: StoredDocument) -> Entry:
    return Entry(
        id=document.id,
        version=document.version,
        key=document.key,
        title=document.title,
        content=document.content,
        collection=document.collection,
        metadata=dict(document.metadata),
        created_at=document.created_at,
    )


# ------------------------------------------------------------------------- HTTP


def check_binding(host: str, token: str | None) -> None:
    """Refuse to serve others without a token.

    Raises
    ------
    ConfigurationError
        The address can be reached from elsewhere and no token is given.
    """
    if token is None and not _is_loopback(host):
        raise ConfigurationError(
            f"{host!r} can be reached from other machines; set AGENTMEM_MCP_TOKEN, which clients "
            "then send as a bearer token, or serve 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def http_app(server: MCPServer[None], *, host: str, token: str | None) -> Any:
    """Return the ASGI application of a server; with a token it answers nobody else."""
    check_binding(host, token)
    app = server.streamable_http_app(host=host)
    return app if token is None else _Guard(app, token)


class _Guard:
    """Lets requests with the right bearer token through."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(given, self._wanted):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
