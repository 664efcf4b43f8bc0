"""Graphs for a database give what the client gives, for texts of every kind."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from agentmem import CapabilityError, InvalidInputError, ModelError
from agentmem.models import database_onnx, database_tokenizer
from agentmem.models._files import BUNDLED, BUNDLED_CROSS_ENCODER
from agentmem.models.base import RerankCandidate
from agentmem.models.database_graphs import (
    BuiltGraph,
    build_cross_encoder,
    build_embedder,
    verify_cross_encoder,
    verify_embedder,
)
from agentmem.models.onnx_embedder import OnnxEmbedder
from agentmem.models.onnx_reranker import CrossEncoderReranker

WORDS = """the heron stood in reeds while ferry left pier seven invoice password cabin allergic
peanuts budget meeting moved Thursday deploy rolled back unbelievably tokenization transformers
Ada Jonas said that nobody remembered where key was hidden under third stone""".split()
CODES = ["ERR-4711", "v2.3.1-rc4", "0xDEADBEEF", "ab_cd-99/x", "GH#812", "2025-06-15T12:00Z"]
ODD = [
    ".", " a ", "", " ", "\t", "\n\n", "?!", "…", "-", "\u200b", "\ufeff", "\x07\x1b", "#", "##ing",
    "[SEP]", "a [MASK] b", "[CLS][SEP]", "[unused7]", "[sep]", "\xa0x\u3000y\u2028z",
    "a\u0301\u0323", "e\u0301cole", "x" * 100, "x" * 101, "\\0 \\1", "¯", "ĳ", "\ue000",
    "İstanbul ıı", "ﬁ Ǆ ß ẞ Æ",
]  # fmt: skip
SCRIPTS = {
    "accents": "àéîõüñçšžøåłđğőůâêôûäëïöÿÀÉÎÕÜÑÇŠŽØÅŁĐĞŐ",
    "han": "東京都中文測試記憶検索龍鷺湖水面静漢字𠀀𪚥豈更",
    "kana": "こんにちは世界カタカナがぎぐげゞヶ",
    "hangul": "한국어기억검색좋아요왜렁뷁각가힣",
    "emoji": "😀🥰🦄🏳️‍🌈👩‍👩‍👧☕✈️🫠🇩🇪1️⃣",
    "cyrillic": "Приветмирйёїщъыь",
    "greek": "ΑλφάΩμέγαςάΐΰ",
    "arabic": "مرحباًبالعالمِّ",
    "hindi": "नमस्तेदुनियाक्षि",
    "thai": "สวัสดีชาวโลก",
    "signs": "«»„“’–—•·§¶©®™°±×÷€£¥¢‰√∞≈≠→⇒✓★♪$+<=>^`|~",
}
CONTROLS = (
    "\t\n\r\v\f\x01\x1f\x7f\x85\xa0\xad\u1680\u200b\u200d\u2028\u2029\u202e\u3000\ufeff\ufffd"
)
LEAST = 0.999
SIZE = 16


def words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


def script(chance: random.Random, name: str) -> str:
    letters = SCRIPTS[name]
    made = ["".join(chance.choices(letters, k=chance.randint(1, 6))) for _ in range(6)]
    return " ".join(chance.choice([word, chance.choice(WORDS), word]) for word in made)


def controlled(chance: random.Random) -> str:
    text = list(words(chance, 8))
    for _ in range(8):
        text.insert(chance.randrange(len(text)), chance.choice(CONTROLS))
    return "".join(text)


def punctuated(chance: random.Random) -> str:
    return "".join(chance.choice(WORDS) + chance.choice(",.;:!?'\"()-/&%@#*_ ") for _ in range(10))


def varied(count: int) -> list[str]:
    """Return texts of every kind in turn, the same ones each time."""
    chance = random.Random(11)
    kinds: list[Callable[[], str]] = [
        lambda: words(chance, chance.randint(1, 30)),
        lambda: f"{chance.choice(CODES)} {words(chance, 3)} {chance.choice(CODES)}",
        lambda: punctuated(chance),
        lambda: controlled(chance),
        lambda: "".join(chance.choice(w.upper() + w + "é") for w in words(chance, 4)),
        lambda: words(chance, 2) + "".join(chance.choices("".join(SCRIPTS.values()), k=12)),
        *(lambda name=name: script(chance, name) for name in SCRIPTS),
    ]
    long = [
        words(chance, 600),
        script(chance, "han") * 60,
        "é. " * 400,
        script(chance, "hangul") * 40,
    ]
    fill = (kinds[n % len(kinds)]() for n in range(count))
    return [*ODD, *long, *fill][:count]


def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(BUNDLED / "tokenizer.json"))


def table(rows: int, columns: int, seed: int = 7) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def save(folder: Path, nodes: list[Any], inputs: list[str], output: tuple[str, list[Any]],
         weights: dict[str, Any], *, kind: int = TensorProto.INT64, opset: int = 17,
         tokenizer_file: Tokenizer | None = None, **config: Any) -> Path:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(n, kind, ["b", "t"]) for n in inputs],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    (tokenizer_file or tokenizer()).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def word_table(folder: Path, **config: Any) -> Path:
    """Save an embedder whose states are rows of a table, each weighted by its position."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("CumSum", ["mask", "one"], ["places"]),
        helper.make_node("Unsqueeze", ["places", "two"], ["wide"]),
        helper.make_node("Sqrt", ["wide"], ["weight"]),
        helper.make_node("Mul", ["rows", "weight"], ["last_hidden_state"]),
        helper.make_node("Gather", ["table", "input_ids"], ["not_asked_for"]),
    ]
    weights = {"table": table(30_522, SIZE), "one": np.array(1), "two": np.array([2])}
    return save(
        folder, nodes, ["input_ids", "attention_mask"], ("last_hidden_state", ["b", "t", SIZE]),
        weights, **{"hidden_size": SIZE, **config},
    )  # fmt: skip


class Bert:
    """Nodes and weights of a small BERT with random weights."""

    width, heads, layers, longest = 32, 2, 2, 128

    def __init__(self, labels: int) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        states = self.embed()
        for _ in range(self.layers):
            attended = self.op("Add", states, self.attend(states))
            states = self.norm(attended)
            states = self.norm(self.op("Add", states, self.feed_forward(states)))
        first = self.op("Gather", states, self.weight(np.array(0)), axis=1)
        pooled = self.op("Tanh", self.dense(first, self.width, self.width))
        self.op("Identity", self.dense(pooled, self.width, labels, 2.0), out="logits")

    def op(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def random(self, rows: int, columns: int, scale: float) -> str:
        value = table(rows, columns, len(self.weights)) * np.float32(scale)
        return self.weight(value)

    def dense(self, value: str, rows: int, columns: int, scale: float = 1.0) -> str:
        product = self.op("MatMul", value, self.random(rows, columns, scale / rows**0.5))
        return self.op("Add", product, self.random(1, columns, 0.1))

    def norm(self, value: str) -> str:
        scale = self.weight(1 + 0.1 * table(1, self.width, len(self.weights))[0])
        shift = self.weight(0.1 * table(1, self.width, len(self.weights))[0])
        return self.op("LayerNormalization", value, scale, shift, axis=-1)

    def embed(self) -> str:
        rows = self.op("Gather", self.random(30_522, self.width, 1.0), "input_ids")
        segments = self.op("Gather", self.random(2, self.width, 1.0), "token_type_ids")
        ones = self.op("Shape", "input_ids")
        count = self.op("Gather", ones, self.weight(np.array(1)))
        places = self.op("Range", self.weight(np.array(0)), count, self.weight(np.array(1)))
        order = self.op("Gather", self.random(self.longest, self.width, 1.0), places)
        return self.norm(self.op("Add", self.op("Add", rows, segments), order))

    def split(self, value: str, order: list[int]) -> str:
        shape = self.weight(np.array([0, 0, self.heads, self.width // self.heads]))
        return self.op("Transpose", self.op("Reshape", value, shape), perm=order)

    def attend(self, states: str) -> str:
        query, key, value = (
            self.split(self.dense(states, self.width, self.width), order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scale = self.weight(np.float32((self.width // self.heads) ** -0.5))
        scores = self.op("Mul", self.op("MatMul", query, key), scale)
        mask = self.op("Cast", "attention_mask", to=TensorProto.FLOAT)
        wide = self.op("Unsqueeze", mask, self.weight(np.array([1, 2])))
        hidden = self.op("Sub", wide, self.weight(np.float32(1)))
        masked = self.op("Add", scores, self.op("Mul", hidden, self.weight(np.float32(1e4))))
        mixed = self.op("MatMul", self.op("Softmax", masked, axis=-1), value)
        joined = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        flat = self.op("Reshape", joined, self.weight(np.array([0, 0, self.width])))
        return self.dense(flat, self.width, self.width)

    def feed_forward(self, states: str) -> str:
        inner = self.dense(states, self.width, 2 * self.width)
        root = self.op("Erf", self.op("Mul", inner, self.weight(np.float32(0.5**0.5))))
        half = self.op("Mul", inner, self.weight(np.float32(0.5)))
        active = self.op("Mul", half, self.op("Add", root, self.weight(np.float32(1))))
        return self.dense(active, 2 * self.width, self.width)


def cross_encoder(folder: Path, labels: int = 1) -> Path:
    bert = Bert(labels)
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    return save(
        folder, bert.nodes, inputs, ("logits", ["b", labels]), bert.weights,
        max_position_embeddings=bert.longest,
    )  # fmt: skip


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> BuiltGraph:
    return build_embedder(None, tmp_path_factory.mktemp("graph") / "embedder.onnx")


def test_the_bundled_graph_is_one_that_the_database_takes(bundled: BuiltGraph) -> None:
    content = bundled.path.read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (bundled.bytes, bundled.sha256)
    assert bundled.bytes < 30_000_000
    model = onnx.load(bundled.path)
    onnx.checker.check_model(model)
    assert model.ir_version <= 8
    assert bundled.opset == 17
    # No fused operators, and no operator for the token vectors that nobody asked for.
    assert bundled.domains == ("ai.onnx.contrib", "ai.onnx.ml")
    assert not [w.name for w in model.graph.initializer if "projection" in w.name]
    assert bundled.metadata == {
        "function": "embedding",
        "embeddingOutput": "embedding",
        "input": {"input": ["DATA"]},
    }
    assert [tensor.name for tensor in model.graph.input] == ["input"]
    (output,) = model.graph.output
    assert output.name == "embedding"
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [384]


def test_the_same_model_gives_the_same_bytes(bundled: BuiltGraph, tmp_path: Path) -> None:
    assert build_embedder(BUNDLED, tmp_path / "again.onnx").sha256 == bundled.sha256


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_the_bundled_graph_gives_the_vectors_of_the_client(
    bundled: BuiltGraph, count: int
) -> None:
    texts = varied(count)
    assert len(set(texts)) == count
    embedder = OnnxEmbedder()
    report = await verify_embedder(bundled.path, embedder, texts)
    print(report)
    assert report.texts == count
    assert report.least >= LEAST, report
    await embedder.close()


@pytest.fixture(scope="module")
def by_words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, OnnxEmbedder]:
    """Return a graph, loaded, and the client's embedder; any other token gives another vector."""
    from agentmem.models.database_checks import _load

    folder = word_table(tmp_path_factory.mktemp("words"))
    return _load(build_embedder(folder, folder / "graph.onnx").path), OnnxEmbedder(folder)


# A character of each kind that tokenizers treat in their own way, and any other.
CHARACTERS = st.sampled_from("aB é.,中가[]\t\x01\u0301😀¯ĳ") | st.characters(
    exclude_categories=["Cs"], exclude_characters="\0"
)


@given(st.text(CHARACTERS, max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_becomes_the_same_tokens(by_words: tuple[Any, OnnxEmbedder], text: str) -> None:
    session, embedder = by_words
    found = session.run(None, {"input": np.array([text], dtype=object)})[0]
    np.testing.assert_allclose(found, embedder._embed_query(text).vectors[0], atol=1e-5)


async def test_a_text_ends_at_a_null_character(by_words: tuple[Any, OnnxEmbedder]) -> None:
    # The operators of the extension read strings as C does; the client drops the character.
    session, embedder = by_words
    found = session.run(None, {"input": np.array(["the heron\0flies"], dtype=object)})[0]
    expected = (await embedder.embed_query("the heron")).vectors[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    await embedder.close()


async def test_a_check_finds_what_differs(tmp_path: Path) -> None:
    folder = word_table(tmp_path, query_prefix="query: ")
    (folder / "model.json").write_text(json.dumps({"query_prefix": "query: "}))
    embedder = OnnxEmbedder(folder)
    texts = ["the heron", "한국어 기억"]
    built = build_embedder(folder, tmp_path / "g.onnx", prepare=False)
    report = await verify_embedder(built.path, embedder, texts)
    assert report.worst == texts[1]
    assert report.least < 0.99 < report.mean + 0.4
    assert built.domains == ("ai.onnx.contrib",)
    assert (await verify_embedder(built.path, embedder, texts[:1])).least > LEAST
    assert (await verify_embedder(built.path, embedder, texts[:1], role="passage")).least < LEAST
    with pytest.raises(InvalidInputError, match="no text"):
        await verify_embedder(built.path, embedder, [])
    await embedder.close()


@pytest.mark.parametrize("role", ["query", "passage"])
async def test_prefixes_are_put_before_texts(tmp_path: Path, role: Any) -> None:
    folder = word_table(tmp_path)
    prefixes = {"query_prefix": "find \\1: ", "passage_prefix": "[MASK] passage"}
    (folder / "model.json").write_text(json.dumps(prefixes))
    built = build_embedder(folder, tmp_path / "g.onnx", role=role)
    embedder = OnnxEmbedder(folder)
    report = await verify_embedder(built.path, embedder, ["", "heron", "words " * 600], role=role)
    assert report.least > 1 - 1e-6
    await embedder.close()


@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "lasttoken"])
@pytest.mark.parametrize("opset", [12, 17, 18])
async def test_states_are_pooled_like_on_the_client(
    tmp_path: Path, pooling: str, opset: int
) -> None:
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["token_embeddings"])]
    folder = save(
        tmp_path, nodes, ["input_ids"], ("token_embeddings", ["b", "t", SIZE]),
        {"table": table(30_522, SIZE)}, kind=TensorProto.INT32, opset=opset,
        hidden_size=SIZE, max_position_embeddings=8,
    )  # fmt: skip
    (folder / "model.json").write_text(json.dumps({"pooling": pooling}))
    built = build_embedder(folder, tmp_path / "g.onnx")
    assert built.opset == max(opset, 17)
    embedder = OnnxEmbedder(folder)
    report = await verify_embedder(built.path, embedder, ["", "a heron", "heron " * 20])
    assert report.least > 1 - 1e-6
    await embedder.close()


async def test_the_bundled_cross_encoder_is_one_that_the_database_takes(tmp_path: Path) -> None:
    built = build_cross_encoder(None, tmp_path / "g.onnx")
    assert built.opset == 17
    assert built.domains == ("ai.onnx.contrib", "ai.onnx.ml")
    reranker = CrossEncoderReranker(BUNDLED_CROSS_ENCODER)
    pairs = {query: varied(40)[20:] for query in ("the heron at night", "a café in Zürich")}
    report = await verify_cross_encoder(built.path, reranker, pairs)
    assert report.least > 0.99
    await reranker.close()


@pytest.mark.parametrize("labels", [1, 2])
async def test_pairs_are_ranked_like_on_the_client(tmp_path: Path, labels: int) -> None:
    folder = cross_encoder(tmp_path, labels)
    built = build_cross_encoder(folder, tmp_path / "g.onnx")
    assert built.metadata == {
        "function": "regression",
        "regressionOutput": "logits",
        "input": {"first_input": ["DATA1"], "second_input": ["DATA2"]},
    }
    model = onnx.load(built.path)
    assert [tensor.name for tensor in model.graph.input] == ["first_input", "second_input"]
    assert not model.graph.output[0].type.tensor_type.shape.dim
    texts = varied(500)
    # Queries and texts of all lengths: short, beyond their half of the input, beyond all of it.
    queries = ["", "heron", *texts[40:45], *texts[30:33]]
    pairs = {query: texts[50 + 6 * n :][:6] + texts[30:34] for n, query in enumerate(queries)}
    assert sum(map(len, pairs.values())) == 100
    reranker = CrossEncoderReranker(folder)
    report = await verify_cross_encoder(built.path, reranker, pairs)
    assert (report.queries, report.pairs) == (10, 100)
    assert report.least == report.mean == 1.0
    assert report.gap < 1e-4
    scores = await reranker.rerank(
        "heron", None, [RerankCandidate("1", text, None) for text in texts[50:60]]
    )
    assert np.ptp(scores) > 0.1
    with pytest.raises(InvalidInputError, match="two texts"):
        await verify_cross_encoder(built.path, reranker, {"heron": ["one"]})
    await reranker.close()


def refused(tmp_path: Path, **given: Any) -> str:
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    folder = save(
        tmp_path, nodes, given.pop("inputs", ["input_ids"]),
        ("last_hidden_state", ["b", "t", SIZE]), {"table": table(40_000, SIZE)},
        hidden_size=SIZE, **given,
    )  # fmt: skip
    with pytest.raises((ModelError, CapabilityError)) as caught:
        build_embedder(folder, tmp_path / "g.onnx")
    assert not (tmp_path / "g.onnx").exists()
    return str(caught.value)


def test_another_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    pieces = [("<s>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁heron", -1.0)]
    unigram = Tokenizer(models.Unigram(pieces, unk_id=2))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    message = refused(tmp_path, tokenizer_file=unigram)
    assert "a model Unigram, a pre-tokenizer Metaspace" in message
    assert "needs BERT's kind: WordPiece" in message


def test_a_vocabulary_with_gaps_is_refused(tmp_path: Path) -> None:
    gaps = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 2}, unk_token="[UNK]"))
    gaps.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    gaps.post_processor = processors.TemplateProcessing(
        single="[UNK] $A [UNK]", special_tokens=[("[UNK]", 0)]
    )
    assert "gaps between its ids" in refused(tmp_path, tokenizer_file=gaps)


def test_letters_that_are_no_pieces_are_refused() -> None:
    pieces, prepared = {"a", "b", "##a", "##b", "ab"}, {"a": "a", "b": "b", "c": "c"}
    assert database_tokenizer._letters(pieces, "##", prepared) == {"a", "b"}
    for wrong in ("abc", "c", "##c"):
        with pytest.raises(ModelError, match="lacks 'c'"):
            database_tokenizer._letters(pieces | {wrong}, "##", prepared)


def test_other_marks_around_texts_are_refused(tmp_path: Path) -> None:
    bare = tokenizer()
    bare.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    assert "one special token before and one after" in refused(tmp_path / "e", tokenizer_file=bare)
    folder = cross_encoder(tmp_path / "c")
    single = tokenizer()
    single.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 101), ("[SEP]", 102)],
    )  # fmt: skip
    single.save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelError, match="joins two texts in its own way"):
        build_cross_encoder(folder, tmp_path / "g.onnx")


def test_other_inputs_and_opsets_are_refused(tmp_path: Path) -> None:
    assert "opset 19; a database takes up to 18" in refused(tmp_path / "a", opset=19)
    inputs = ["input_ids", "position_ids"]
    assert "wants an input 'position_ids'" in refused(tmp_path / "b", inputs=inputs)


def test_a_graph_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_onnx, "_MOST_BYTES", 1000)
    assert "a database takes less than 1000" in refused(tmp_path)


def test_a_model_that_is_no_reranker_is_refused(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "three", labels=3)
    with pytest.raises(ModelError, match="gives 3 logits"):
        build_cross_encoder(folder, tmp_path / "g.onnx")
    (folder / "config.json").write_text('{"max_position_embeddings": 4}')
    with pytest.raises(ModelError, match="too few for a query and a text"):
        build_cross_encoder(folder, tmp_path / "g.onnx")


@pytest.mark.parametrize("module", ["onnx", "onnxruntime_extensions"])
async def test_a_missing_extra_is_named(
    bundled: BuiltGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    built = tmp_path / "g.onnx"
    tried: dict[str, Callable[[], Awaitable[object]]] = {
        "onnx": lambda: asyncio.to_thread(build_embedder, None, built),
        "onnxruntime_extensions": lambda: verify_embedder(bundled.path, OnnxEmbedder(), ["heron"]),
    }
    with pytest.raises(ModelError, match=r"install agentmem\[oracle-models\]"):
        await tried[module]()


async def test_a_file_that_is_no_graph_is_named(tmp_path: Path) -> None:
    (tmp_path / "g.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match=r"g\.onnx' cannot be loaded"):
        await verify_embedder(tmp_path / "g.onnx", OnnxEmbedder(), ["heron"])
