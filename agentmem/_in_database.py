"""An embedder whose model lives in the database: texts go there, vectors come back.

A query is not embedded here at all: the engine does it inside the search statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.backends.base import Backend
from agentmem.errors import AgentMemError, ModelError
from agentmem.models.base import Embedder, Encoding

PREFIX = "database:"


def in_database(model: object) -> str | None:
    """Return the name in ``"database:NAME"``, None for any other choice of a model."""
    if isinstance(model, str) and model.startswith(PREFIX):
        return model.removeprefix(PREFIX)
    return None


class DatabaseEmbedder:
    """Embeds with a model that was loaded into the database.

    Parameters
    ----------
    backend
        The engine, which is opened later.
    model
        Name of the model in the database.
    tokenizer
        Tells where texts can be cut and how long they are; its model is never run.
    """

    token_dimensions = None
    dimensions = 0  # the engine knows its own

    def __init__(self, backend: Backend, model: str, tokenizer: Embedder) -> None:
        self.id = f"{PREFIX}{model.lower()}"
        self._backend = backend
        self._model = model
        self._tokenizer = tokenizer

    @property
    def max_tokens(self) -> int:
        """Longest text, in tokens."""
        return self._tokenizer.max_tokens

    async def embed_passages(self, texts: Sequence[str]) -> Encoding:
        """Return the encoding of texts to be stored."""
        try:
            return Encoding(await self._backend.embed(self._model, texts), None)
        except ModelError:
            raise
        except AgentMemError as error:
            raise ModelError(f"the database could not embed: {error}") from error

    async def embed_query(self, text: str) -> Encoding:
        """Return the encoding of one query."""
        return await self.embed_passages([text])

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        return self._tokenizer.count_tokens(text)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the character span of each token of `text`."""
        return self._tokenizer.token_offsets(text)

    async def close(self) -> None:
        """Close the tokenizer's model."""
        await self._tokenizer.close()
