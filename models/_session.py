"""One ONNX graph with its tokenizer, loaded once and run in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ModelError
from agentmem.models._files import ModelFiles

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding as Tokenized
    from tokenizers import Tokenizer

T = TypeVar("T")
_TOKENS_PER_RUN = 4096
_MOST_THREADS = 4


class OnnxModel:
    """A graph and its tokenizer.

    Parameters
    ----------
    files
        Where they are.
    threads
        Threads inside one run of the graph; 0 takes the machine's cores, up to 4.
    """

    def __init__(self, files: ModelFiles, *, threads: int = 0) -> None:
        self.files = files
        self._threads = threads or min(os.cpu_count() or 1, _MOST_THREADS)
        self._lock = threading.Lock()
        self._session: InferenceSession | None = None
        self._tokenizer: Tokenizer | None = None
        # One thread: ONNX Runtime spreads a run over the cores by itself.
        self._pool: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function` in the model's thread and return what it returns."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="agentmem-model")
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def close(self) -> None:
        """Finish the running job, end the thread and let go of the graph."""
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
                self._session = _load_session(self.files, self._threads)
            return self._session

    def run(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]]) -> list[Any]:
        """Run the graph on token ids of differing length and return its outputs.

        Parameters
        ----------
        ids, types
            Token ids and segment ids of each text.

        Returns
        -------
        list
            One array per output, each of shape (texts, ...), padded positions included.
        """
        mask = [[1] * len(row) for row in ids]
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        wanted = {tensor.name for tensor in self.session.get_inputs()}
        unknown = wanted - given.keys()
        if unknown:
            raise ModelError(
                f"the graph of {self.files.name!r} wants an input {min(unknown)!r}; "
                f"known are {', '.join(given)}"
            )
        feed = {name: _padded(given[name], self._pad(name)) for name in wanted}
        try:
            outputs: list[Any] = self.session.run(None, feed)
        except Exception as error:  # the runtime raises classes of its own for each kind of fault
            raise ModelError(f"the model {self.files.name!r} failed: {error}") from error
        return outputs

    def outputs(self) -> list[str]:
        """Return the names of the graph's outputs."""
        return [tensor.name for tensor in self.session.get_outputs()]

    def _pad(self, name: str) -> int:
        if name != "input_ids":
            return 0
        declared = self.files.setting("pad_token_id", "config.json")
        return int(declared or 0)


def runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield positions in groups to run together: of similar length, and bounded by tokens.

    Padding to the longest of a group is wasted work, so short texts never wait for long ones; a
    bound on tokens rather than on texts keeps the memory of one run flat.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    group: list[int] = []
    for position in order:
        if group and lengths[position] * (len(group) + 1) > _TOKENS_PER_RUN:
            yield group
            group = []
        group.append(position)
    if group:
        yield group


def _padded(rows: Sequence[Sequence[int]], fill: int) -> NDArray[np.int64]:
    width = max(map(len, rows))
    array = np.full((len(rows), width), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


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


def _load_session(files: ModelFiles, threads: int) -> InferenceSession:
    files.verify()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads would burn a core between two searches.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The arena keeps the memory of the largest run for good.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(files.graph), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the runtime raises classes of its own for each kind of fault
        raise ModelError(f"the graph {str(files.graph)!r} cannot be loaded: {error}") from error
