"""One ONNX graph with its tokenizer, loaded once and run in threads of its own.

Each run takes one text. The bundled model computes with 8-bit numbers whose scale follows the
largest value of a run: in a batch, a text's vector would depend on the texts beside it. One text a
run makes a vector depend on its text alone, pads nothing, and keeps the memory of a run small;
several runs go on at the same time, each on one core.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentmem.errors import ModelError
from agentmem.models._files import ModelFiles

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding as Tokenized
    from tokenizers import Tokenizer

T = TypeVar("T")
U = TypeVar("U")
_TOKENS_PER_JOB = 256
_MOST_THREADS = 8


class OnnxModel:
    """A graph and its tokenizer.

    Parameters
    ----------
    files
        Where they are.
    threads
        Runs at the same time; 0 takes the machine's cores, up to 8.
    """

    def __init__(self, files: ModelFiles, *, threads: int = 0) -> None:
        self.files = files
        self._threads = threads or min(os.cpu_count() or 1, _MOST_THREADS)
        self._lock = threading.Lock()
        self._session: InferenceSession | None = None
        self._tokenizer: Tokenizer | None = None
        self._pool: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function` in one of the model's threads and return what it returns."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="agentmem-model")
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def map(
        self, function: Callable[[T], U], items: Sequence[T], sizes: Sequence[int]
    ) -> list[U]:
        """Run `function` on each item and return the results in order.

        Items go to the threads in jobs of a few hundred tokens, and no more jobs wait than there
        are threads, so that a query does not stand behind a whole batch.

        Parameters
        ----------
        items
            What to call `function` with.
        sizes
            Tokens of each item.
        """
        free = asyncio.Semaphore(self._threads)

        async def run(job: Sequence[T]) -> list[U]:
            async with free:
                return await self.call(lambda: [function(item) for item in job])

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(items[start:end])) for start, end in _jobs(sizes)]
        except ExceptionGroup as several:
            # The jobs are one call to whoever waits for it: its first error is what is raised.
            raise several.exceptions[0] from None
        return [result for task in tasks for result in task.result()]

    async def load(self) -> None:
        """Load graph and tokenizer, if they are not loaded yet."""
        await self.call(lambda: (self.session, self.tokenizer))

    async def everywhere(self, function: Callable[[], None]) -> None:
        """Run `function` once in each of the model's threads and wait for all."""
        await asyncio.gather(*(self.call(function) for _ in range(self._threads)))

    async def close(self) -> None:
        """Finish running jobs, end the threads and let go of the graph."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.shield(asyncio.to_thread(pool.shutdown, cancel_futures=True))
        self._session = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, without a truncation or padding of its own."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = _load_tokenizer(self.files)
            return self._tokenizer

    @property
    def session(self) -> InferenceSession:
        """The graph, loaded at first use."""
        with self._lock:
            if self._session is None:
                self._session = _load_session(self.files)
            return self._session

    def run(self, ids: Sequence[int], types: Sequence[int] | None = None) -> dict[str, Any]:
        """Run the graph on one text and return its outputs by name.

        Parameters
        ----------
        ids
            Token ids.
        types
            Segment ids; None for zeros.

        Returns
        -------
        dict
            Arrays with a first axis of length 1.
        """
        given = {
            "input_ids": ids,
            "attention_mask": [1] * len(ids),
            "token_type_ids": [0] * len(ids) if types is None else types,
        }
        wanted = {tensor.name: tensor.type for tensor in self.session.get_inputs()}
        unknown = wanted.keys() - given.keys()
        if unknown:
            raise ModelError(
                f"the graph of {self.files.name!r} wants an input {min(unknown)!r}; "
                f"known are {', '.join(given)}"
            )
        feed = {
            name: np.array([given[name]], np.int32 if kind == "tensor(int32)" else np.int64)
            for name, kind in wanted.items()
        }
        names = [tensor.name for tensor in self.session.get_outputs()]
        try:
            return dict(zip(names, self.session.run(names, feed), strict=True))
        except Exception as error:  # the runtime raises classes of its own for each kind of fault
            raise ModelError(f"the model {self.files.name!r} failed: {error}") from error


def _jobs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a list of items into runs of at most `_TOKENS_PER_JOB` tokens, at least one item each."""
    jobs, start, tokens = [], 0, 0
    for place, size in enumerate(sizes):
        if place > start and tokens + size > _TOKENS_PER_JOB:
            jobs.append((start, place))
            start, tokens = place, 0
        tokens += size
    if start < len(sizes):
        jobs.append((start, len(sizes)))
    return jobs


def cut(encoded: Tokenized, length: int) -> list[int]:
    """Return token ids cut to `length`, with the last special token kept at the end."""
    ids: list[int] = encoded.ids
    if len(ids) <= length:
        return ids
    tail = [encoded.ids[-1]] if encoded.special_tokens_mask[-1] else []
    return ids[: length - len(tail)] + tail


def _load_tokenizer(files: ModelFiles) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{str(files.tokenizer)!r} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _load_session(files: ModelFiles) -> InferenceSession:
    files.verify()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # The arena keeps the memory of the largest run for good.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(files.graph), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the runtime raises classes of its own for each kind of fault
        raise ModelError(f"the graph {str(files.graph)!r} cannot be loaded: {error}") from error
