"""The part of building a database's graph that knows ONNX: nodes, encoders, one file of them.

Only this module of the library imports onnx, and only when a graph is built: an encoder on the
client runs without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentmem.errors import CapabilityError, ModelError
from agentmem.models._files import ModelFiles

CUSTOM = "ai.onnx.contrib"
CLASSIC = "ai.onnx.ml"
_STANDARD = ("", "ai.onnx")
# From 13 on Squeeze and its kin take axes as an input; the database's runtime knows up to 18.
_OLDEST, _NEWEST = 13, 18
_RAISED = 17
_AXES_AS_INPUT = 18
_IR_VERSION = 8
_MOST_BYTES = 10**9
# Before all names of an encoder, so that none of them meets one of ours.
ENCODER = "encoder/"


def missing(module: str) -> ModelError:
    """Return the error that says which extra to install."""
    return ModelError(f"graphs for a database need {module!r}; install agentmem[oracle-models]")


def _onnx() -> Any:
    try:
        import onnx
        import onnx.compose
        import onnx.version_converter
    except ImportError as error:
        raise missing("onnx") from error
    return onnx


class Steps:
    """Nodes that are put one after another, with their constants.

    Parameters
    ----------
    name
        Where they stand; it tells apart the names of several steps in one graph.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper = _onnx().helper
        self._from_array = _onnx().numpy_helper.from_array

    def add(
        self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any
    ) -> str:
        """Add a node and return the name of its first output."""
        stem = f"{self._name}/{len(self.nodes)}/{op}"
        names = [f"{stem}:{n}" for n in range(outputs)]
        self.nodes.append(
            self._helper.make_node(op, inputs, names, name=stem, domain=domain, **attributes)
        )
        return names[0]

    def name(self, value: str, name: str) -> None:
        """Give a value another name: an input of the encoder, or an output of the graph."""
        self.nodes.append(self._helper.make_node("Identity", [value], [name]))

    def constant(self, *values: Any, kind: type = np.int64) -> str:
        """Add a vector of numbers, or of strings with `kind` object, and return its name."""
        name = f"{self._name}/constant/{len(self.constants)}"
        self.constants.append(self._from_array(np.array(values, dtype=kind), name))
        return name

    def cast(self, value: str, element: int) -> str:
        """Convert to an element type, given by ONNX's number for it."""
        return self.add("Cast", value, to=element)

    def to_float(self, value: str) -> str:
        """Convert to float32."""
        return self.cast(value, _onnx().TensorProto.FLOAT)

    def full(self, shape_of: str, number: int) -> str:
        """Add a tensor of one integer in the shape of another tensor."""
        value = self._from_array(np.array([number], dtype=np.int64), "value")
        return self.add("ConstantOfShape", self.add("Shape", shape_of), value=value)

    def reduce(self, op: str, value: str, *, axis: int, encoder: Any) -> str:
        """Add a ReduceMean or ReduceMax, in the form that the encoder's opset has."""
        if opset(encoder) < _AXES_AS_INPUT:
            return self.add(op, value, axes=[axis], keepdims=0)
        return self.add(op, value, self.constant(axis), keepdims=0)


def load_encoder(files: ModelFiles) -> Any:
    """Return the ONNX model of `files`, of an opset that the database takes.

    All its names are put behind `ENCODER`.

    Raises
    ------
    ModelError
        The file is damaged or cannot be read.
    CapabilityError
        It is of an opset that cannot be used.
    """
    files.verify()
    onnx = _onnx()
    try:
        model = onnx.load(str(files.graph))
    except Exception as error:  # protobuf raises classes of its own
        raise ModelError(f"the graph {str(files.graph)!r} cannot be read: {error}") from error
    found = opset(model)
    if found > _NEWEST:
        raise CapabilityError(
            f"the graph of {files.name!r} is of opset {found}; a database takes up to {_NEWEST}. "
            "Export it with an older opset"
        )
    model = model if found >= _OLDEST else _raised(model, files)
    return onnx.compose.add_prefix(model, ENCODER, inplace=True)


def _raised(model: Any, files: ModelFiles) -> Any:
    try:
        return _onnx().version_converter.convert_version(model, _RAISED)
    except Exception as error:  # the converter raises RuntimeError and others
        raise CapabilityError(
            f"the graph of {files.name!r} is of opset {opset(model)} and cannot be converted to "
            f"{_RAISED} ({error}); export it with opset {_OLDEST} to {_NEWEST}"
        ) from error


def opset(model: Any) -> int:
    """Return the version of the standard operators."""
    return max((int(o.version) for o in model.opset_import if o.domain in _STANDARD), default=0)


def feed(steps: Steps, encoder: Any, files: ModelFiles, ids: str, types: str) -> None:
    """Give the encoder its inputs: one row, of which every token counts.

    Raises
    ------
    ModelError
        The encoder wants an input that is not known here.
    """
    values = {"input_ids": ids, "attention_mask": steps.full(ids, 1), "token_type_ids": types}
    weights = {weight.name for weight in encoder.graph.initializer}
    for tensor in encoder.graph.input:
        if tensor.name in weights:
            continue
        name = tensor.name.removeprefix(ENCODER)
        if name not in values:
            raise ModelError(
                f"the graph of {files.name!r} wants an input {name!r}; known are "
                f"{', '.join(values)}"
            )
        row = steps.add("Unsqueeze", values[name], steps.constant(0))
        steps.name(steps.cast(row, tensor.type.tensor_type.elem_type), tensor.name)


def assemble(
    encoder: Any, before: Steps, after: Steps, inputs: Sequence[str], output: tuple[str, list[int]]
) -> Any:
    """Return the model that runs `before`, the encoder and `after`, checked.

    Parameters
    ----------
    encoder
        The encoder; `before` gives its inputs, `after` takes some of its outputs.
    inputs
        Names of the text inputs.
    output
        Name and shape of the one output.
    """
    onnx = _onnx()
    helper, kinds, inner = onnx.helper, onnx.TensorProto, encoder.graph
    nodes = list(_needed([*before.nodes, *inner.node, *after.nodes], output[0]))
    used = {name for node in nodes for name in _reads(node)}
    weights = [*before.constants, *inner.initializer, *after.constants]
    graph = helper.make_graph(
        nodes,
        inner.name,
        # Without a length: the database decides how it passes its one text.
        [helper.make_tensor_value_info(name, kinds.STRING, [None]) for name in inputs],
        [helper.make_tensor_value_info(output[0], kinds.FLOAT, output[1])],
        [weight for weight in weights if weight.name in used],
        # Without its shapes a runtime fuses an encoder less, and 8-bit products round otherwise.
        value_info=[info for info in (*inner.input, *inner.value_info) if info.name in used],
    )
    versions = {CUSTOM: 1, CLASSIC: 2} | {o.domain: o.version for o in encoder.opset_import}
    versions = {name: version for name, version in versions.items() if name not in _STANDARD}
    imports = [helper.make_opsetid("", opset(encoder))]
    imports += [helper.make_opsetid(name, version) for name, version in versions.items()]
    model = helper.make_model(
        graph, opset_imports=imports, ir_version=_IR_VERSION, functions=encoder.functions
    )
    onnx.checker.check_model(model)
    return model


def _needed(nodes: Sequence[Any], output: str) -> Iterator[Any]:
    """Yield the nodes that `output` is computed from, in order."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if wanted & {*node.output}:
            wanted |= {*_reads(node)}
            kept.append(node)
    yield from reversed(kept)


def _reads(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, with those of the graphs inside of it."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
            yield from (output.name for output in graph.output)


def domains(model: Any) -> tuple[str, ...]:
    """Return the domains of operators other than the standard's, in order."""
    return tuple(sorted({n.domain for n in model.graph.node} - {*_STANDARD}))


def save(model: Any, out: Path) -> bytes:
    """Write the model into one file and return its bytes.

    Raises
    ------
    CapabilityError
        It is larger than a database takes.
    """
    size = model.ByteSize()
    if size >= _MOST_BYTES:
        raise CapabilityError(
            f"the graph would have {size} bytes; a database takes less than {_MOST_BYTES}. "
            "Quantise the encoder"
        )
    content: bytes = model.SerializeToString(deterministic=True)
    out.write_bytes(content)
    return content
