"""Builds the graphs that an Oracle Database runs: texts in, a vector or a logit out.

DBMS_VECTOR.LOAD_ONNX_MODEL takes one ONNX file that holds everything between a string and the
result. The builders put the tokenizer before an encoder that agentmem runs on the client, and the
pooling behind it, so that both sides give the same vectors and scores; the verifiers measure
whether they do. A graph takes one text, or one pair, a run.

The database's runtime is of the time of ONNX Runtime 1.15: graphs are of opset 18 at most and of
IR version 8. The tokenizer is made of operators of onnxruntime-extensions (domain ai.onnx.contrib)
and of LabelEncoder (ai.onnx.ml). An encoder's operators stay as they are. The bundled one has
standard operators only, its 8-bit products being DynamicQuantizeLinear and MatMulInteger; one that
was optimised with fused operators of com.microsoft keeps them, and whether a database has those is
not known. `BuiltGraph.domains` tells what a graph needs. 8-bit products also round a little
otherwise from one runtime to the next, on the client as in a database: see docs/oracle.md.

Needs the extra ``agentmem[oracle-models]``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentmem.errors import ModelError
from agentmem.models import database_onnx
from agentmem.models._files import BUNDLED, BUNDLED_CROSS_ENCODER, ModelFiles, find_files
from agentmem.models._session import OnnxModel
from agentmem.models.database_checks import (
    CrossEncoderReport,
    EmbedderReport,
    Role,
    verify_cross_encoder,
    verify_embedder,
)
from agentmem.models.database_onnx import CLASSIC, CUSTOM, ENCODER, Steps, feed
from agentmem.models.database_tokenizer import TextRules, read_rules
from agentmem.models.onnx_embedder import (
    SENTENCE,
    OnnxEmbedder,
    pooling_of,
    prefix_of,
    sentence_output,
)
from agentmem.models.onnx_reranker import logits_output

__all__ = [
    "BuiltGraph",
    "CrossEncoderReport",
    "EmbedderReport",
    "build_cross_encoder",
    "build_embedder",
    "verify_cross_encoder",
    "verify_embedder",
]

# The names that the database's default metadata for embedders has.
_TEXT, _VECTOR = "input", "embedding"
_QUERY, _DOCUMENT, _LOGIT = "first_input", "second_input", "logits"
_TINY = 1e-9
_PAIR_MARKS, _TEXT_MARKS = 3, 2


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """A graph that was written.

    Attributes
    ----------
    path, sha256, bytes
        The file, its digest and its size.
    opset
        Version of the standard operators.
    domains
        Where its other operators come from.
    metadata
        What LOAD_ONNX_MODEL must be told, as a JSON object.
    """

    path: Path
    sha256: str
    opset: int
    domains: tuple[str, ...]
    metadata: dict[str, Any]
    bytes: int


def build_embedder(
    folder: str | Path | None, out: Path, *, role: Role = "query", prepare: bool = True
) -> BuiltGraph:
    """Write a graph from the string `input` to the unit vector `embedding`.

    Parameters
    ----------
    folder
        Folder or hub id of an embedder with a WordPiece tokenizer; None takes the bundled model.
    out
        The file to write.
    role
        Whose prefix is put before a text, with a model that has prefixes.
    prepare
        Whether the graph prepares texts by itself, as the client does. Without it the tokenizer
        operator does, by rules of its own: a fallback for a server without the operators that this
        takes. Measure it with `verify_embedder`.

    Raises
    ------
    ModelError
        The model is not an embedder, or its tokenizer is of another kind.
    CapabilityError
        Its graph is of an opset or a size that a database does not take.
    """
    files = find_files(BUNDLED if folder is None else folder)
    encoder, tokenizer = database_onnx.load_encoder(files), OnnxModel(files).tokenizer
    rules, before, after = read_rules(tokenizer), Steps("before"), Steps("after")
    prefix = prefix_of(files, role, None).replace("\\", r"\\")
    text = _replace(before, _TEXT, (r"\A", prefix)) if prefix else _TEXT
    pieces = _pieces(before, rules, text, prepare)
    opening, closing = before.constant(rules.opening), before.constant(rules.closing)
    cut = _start(before, pieces, before.constant(files.max_tokens() - _TEXT_MARKS))
    ids = before.add("Concat", opening, cut, closing, axis=0)
    feed(before, encoder, files, ids, before.full(ids, 0))
    dimensions = OnnxEmbedder(files.folder).dimensions
    after.name(_unit(after, _sentence(after, encoder, files), dimensions), _VECTOR)
    model = database_onnx.assemble(encoder, before, after, [_TEXT], (_VECTOR, [dimensions]))
    metadata = {"function": "embedding", "embeddingOutput": _VECTOR, "input": {_TEXT: ["DATA"]}}
    return _save(model, out, metadata)


def build_cross_encoder(
    folder: str | Path | None, out: Path, *, prepare: bool = True
) -> BuiltGraph:
    """Write a graph from the strings `first_input` and `second_input` to the number `logits`.

    The first one is the query, which may take half of the input, the second one the text. Of two
    logits the difference is given, like on the client.

    Parameters
    ----------
    folder
        Folder or hub id of a cross-encoder with a WordPiece tokenizer; None takes the bundled one.
    out
        The file to write.
    prepare
        As for `build_embedder`.

    Raises
    ------
    ModelError
        The model is not a cross-encoder, or its tokenizer is of another kind.
    CapabilityError
        Its graph is of an opset or a size that a database does not take.
    """
    files = find_files(BUNDLED_CROSS_ENCODER if folder is None else folder)
    encoder, client = database_onnx.load_encoder(files), OnnxModel(files)
    rules, before, after = read_rules(client.tokenizer, pairs=True), Steps("before"), Steps("after")
    _pair(before, encoder, files, rules, prepare)
    logits, count = _logits(client, rules)
    flat = after.add("Reshape", after.to_float(ENCODER + logits), after.constant(-1))
    score = flat
    if count == 2:
        weights = after.constant(-1, 1, kind=np.float32)
        score = after.add("ReduceSum", after.add("Mul", flat, weights), after.constant(0))
    after.name(after.add("Squeeze", score), _LOGIT)
    model = database_onnx.assemble(encoder, before, after, [_QUERY, _DOCUMENT], (_LOGIT, []))
    attributes = {_QUERY: ["DATA1"], _DOCUMENT: ["DATA2"]}
    metadata = {"function": "regression", "regressionOutput": _LOGIT, "input": attributes}
    return _save(model, out, metadata)


def _pair(steps: Steps, encoder: Any, files: ModelFiles, rules: TextRules, prepare: bool) -> None:
    """Join query and text like the client's reranker: the query takes at most half the room."""
    room = files.max_tokens() - _PAIR_MARKS
    if room < 2:
        raise ModelError(
            f"the model {files.name!r} takes {files.max_tokens()} tokens, too few for a query and "
            "a text"
        )
    opening, closing = steps.constant(rules.opening), steps.constant(rules.closing)
    query = _start(steps, _pieces(steps, rules, _QUERY, prepare), steps.constant(room // 2))
    left = steps.add("Sub", steps.constant(room), steps.add("Shape", query))
    text = _start(steps, _pieces(steps, rules, _DOCUMENT, prepare), left)
    first = steps.add("Concat", opening, query, closing, axis=0)
    second = steps.add("Concat", text, closing, axis=0)
    ids = steps.add("Concat", first, second, axis=0)
    types = steps.add("Concat", steps.full(first, 0), steps.full(second, 1), axis=0)
    feed(steps, encoder, files, ids, types)


def _pieces(steps: Steps, rules: TextRules, text: str, prepare: bool) -> str:
    """Cut a text into the ids of its word pieces, without special tokens."""
    if prepare:
        text = _prepared(steps, rules, text)
    basic = {"do_basic_tokenize": 0} if prepare else {"do_basic_tokenize": 1, **rules.operator}
    # The operator insists on five special tokens. What it puts around a text is taken off again,
    # so that one that every vocabulary has serves for all.
    special = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
    ids = steps.add(
        "BertTokenizer",
        text,
        domain=CUSTOM,
        outputs=3,
        vocab_file=rules.vocabulary,
        suffix_indicator=rules.continuation,
        **dict.fromkeys(special, rules.unknown),
        **basic,
    )
    return steps.add("Slice", ids, steps.constant(1), steps.constant(-1))


def _prepared(steps: Steps, rules: TextRules, text: str) -> str:
    """Write a text as words between single spaces, by the rules of the client's tokenizer."""
    for replacement in rules.before:
        text = _replace(steps, text, replacement)
    # Each character is a delimiter that is kept.
    every = steps.constant("(?s)(.)", kind=object)
    characters = steps.add(
        "StringRegexSplitWithOffsets", text, every, every, domain=CUSTOM, outputs=4
    )
    mapped = steps.add(
        "LabelEncoder",
        characters,
        domain=CLASSIC,
        keys_strings=list(rules.table),
        values_strings=list(rules.table.values()),
        default_string=rules.other,
    )
    nothing = steps.constant("", kind=object)
    text = steps.add("StringJoin", mapped, nothing, steps.constant(0), domain=CUSTOM)
    for replacement in rules.after:
        text = _replace(steps, text, replacement)
    return text


def _replace(steps: Steps, text: str, replacement: tuple[str, str]) -> str:
    pattern, result = (steps.constant(part, kind=object) for part in replacement)
    return steps.add("StringRegexReplace", text, pattern, result, domain=CUSTOM)


def _start(steps: Steps, values: str, length: str) -> str:
    return steps.add("Slice", values, steps.constant(0), length)


def _sentence(steps: Steps, encoder: Any, files: ModelFiles) -> str:
    """Add what the client does with the outputs and return the name of the vector."""
    outputs = [tensor.name.removeprefix(ENCODER) for tensor in encoder.graph.output]
    name = sentence_output(outputs, files.name)
    states = steps.to_float(ENCODER + name)
    if name == SENTENCE:
        return states
    # There is one row without padding, so no mask is needed.
    first, last = steps.constant(0), steps.constant(-1)
    pools: dict[str, Callable[[], str]] = {
        "mean": lambda: steps.reduce("ReduceMean", states, axis=1, encoder=encoder),
        "max": lambda: steps.reduce("ReduceMax", states, axis=1, encoder=encoder),
        "cls": lambda: steps.add("Gather", states, first, axis=1),
        "lasttoken": lambda: steps.add("Gather", states, last, axis=1),
    }
    return pools[pooling_of(files)]()


def _unit(steps: Steps, vector: str, dimensions: int) -> str:
    """Scale a vector to length 1, with a shape that does not change."""
    flat = steps.add("Reshape", vector, steps.constant(dimensions))
    squares = steps.add("ReduceSum", steps.add("Mul", flat, flat), steps.constant(0))
    length = steps.add("Max", steps.add("Sqrt", squares), steps.constant(_TINY, kind=np.float32))
    return steps.add("Div", flat, length)


def _logits(client: OnnxModel, rules: TextRules) -> tuple[str, int]:
    """Return the output with the logits, and how many there are: a run on two empty texts tells."""
    outputs = client.run([rules.opening, rules.closing, rules.closing], [0, 0, 1])
    name = logits_output([*outputs], client.files.name)
    count = int(np.size(outputs[name]))
    if count not in (1, 2):
        raise ModelError(
            f"the model {client.files.name!r} gives {count} logits for a pair; a reranker gives "
            "one or two"
        )
    return name, count


def _save(model: Any, out: Path, metadata: dict[str, Any]) -> BuiltGraph:
    content = database_onnx.save(model, out)
    return BuiltGraph(
        path=out,
        sha256=hashlib.sha256(content).hexdigest(),
        opset=database_onnx.opset(model),
        domains=database_onnx.domains(model),
        metadata=metadata,
        bytes=len(content),
    )
