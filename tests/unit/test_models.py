"""Embedders and rerankers over ONNX, on tiny models made here."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from agentmem import ConfigurationError, Memory, ModelError
from agentmem.models import _session
from agentmem.models._files import BUNDLED, find_files
from agentmem.models.base import Encoding, RerankCandidate
from agentmem.models.onnx_embedder import OnnxEmbedder
from agentmem.models.onnx_reranker import CrossEncoderReranker
from agentmem.models.registry import load_reranker
from tests.support import texts

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "heron",
    "owl",
    "fish",
    "night",
    "the",
    "query",
    "passage",
    ":",
]
SIZE = 8


def bert_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({w: n for n, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    # A truncation of its own that must not be trusted.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    return tokenizer


def xlmr_tokenizer() -> Tokenizer:
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(f"▁{w}", -1.0) for w in WORDS[4:]] + [("▁", -5.0)]
    pieces += [(c, -9.0) for c in "abcdefghijklmnopqrstuvwxyz:"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


def table(rows: int, columns: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).normal(size=(rows, columns)).astype(np.float32)


def save(folder: Path, nodes: list[Any], inputs: list[str], output: tuple[str, list[Any]],
         weights: dict[str, Any], tokenizer: Tokenizer, *, integers: int = TensorProto.INT64,
         **config: Any) -> Path:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(n, integers, ["b", "t"]) for n in inputs],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def embedder_folder(folder: Path, tokenizer: Tokenizer, **config: Any) -> Path:
    """Save an embedder whose hidden states are rows of a table."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    return save(
        folder, nodes, ["input_ids"], ("last_hidden_state", ["b", "t", SIZE]),
        {"table": table(64, SIZE)}, tokenizer, **{"hidden_size": SIZE, **config},
    )  # fmt: skip


def cross_encoder_folder(folder: Path, tokenizer: Tokenizer, logits: int, **config: Any) -> Path:
    """Save a cross-encoder: a sum of table rows over all tokens of the pair."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["rows", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "first"], ["logits"], keepdims=0),
    ]
    weights = {
        "table": table(64, logits), "last": np.array([2]), "first": np.array([1]),
    }  # fmt: skip
    return save(
        folder, nodes, ["input_ids", "attention_mask"], ("logits", ["b", logits]),
        weights, tokenizer, **config,
    )  # fmt: skip


def rows(*passages: str) -> list[RerankCandidate]:
    return [RerankCandidate(str(n), text, None) for n, text in enumerate(passages)]


@pytest.fixture(params=["bert", "xlm-r"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return bert_tokenizer() if request.param == "bert" else xlmr_tokenizer()


async def test_a_query_says_how_much_of_it_the_vocabulary_lacks(tmp_path: Path) -> None:
    # A graph whose token vectors are its hidden states.
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["token_vectors"]),
        helper.make_node(
            "ReduceMean", ["token_vectors"], ["sentence_embedding"], axes=[1], keepdims=0
        ),
    ]
    folder = save(
        tmp_path / "e", nodes, ["input_ids"], ("token_vectors", ["b", "t", SIZE]),
        {"table": table(64, SIZE)}, bert_tokenizer(), hidden_size=SIZE,
    )  # fmt: skip
    (folder / "model.json").write_text(json.dumps({"token_dimensions": SIZE, "dimensions": SIZE}))
    model = onnx.load(folder / "model.onnx")
    model.graph.output.append(
        helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["b", SIZE])
    )
    onnx.save(model, folder / "model.onnx")
    embedder = OnnxEmbedder(folder)
    for query, share in (("heron fish", 0.0), ("heron kingfisher", 0.5), ("白鹭", 1.0)):
        tokens = (await embedder.embed_query(query)).tokens
        assert tokens is not None
        assert tokens[0].unknown == share, query
    await embedder.close()


async def test_a_foreign_embedder_pools_the_mean(tmp_path: Path, tokenizer: Tokenizer) -> None:
    embedder = OnnxEmbedder(embedder_folder(tmp_path / "e", tokenizer))
    found = (await embedder.embed_passages(["heron fish", "owl"])).vectors
    tokenizer.no_truncation()
    tokenizer.no_padding()
    expected = table(64, SIZE)[tokenizer.encode("heron fish").ids].mean(axis=0)
    np.testing.assert_allclose(found[0], expected / np.linalg.norm(expected), atol=1e-5)
    assert (embedder.dimensions, embedder.token_dimensions) == (SIZE, None)
    await embedder.close()


async def test_a_foreign_embedder_that_pools_by_the_first_token(tmp_path: Path) -> None:
    folder = embedder_folder(tmp_path / "e", bert_tokenizer())
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    embedder = OnnxEmbedder(folder)
    both = (await embedder.embed_passages(["heron", "owl fish"])).vectors
    np.testing.assert_allclose(both[0], both[1], atol=1e-6)
    await embedder.close()


@pytest.mark.parametrize(
    ("flag", "pool"),
    [
        ("lasttoken", lambda rows: rows[-1]),
        ("max_tokens", lambda rows: rows.max(axis=0)),
        ("mean_sqrt_len_tokens", lambda rows: rows.mean(axis=0)),
    ],
)
async def test_other_ways_of_pooling(tmp_path: Path, flag: str, pool: Any) -> None:
    tokenizer = bert_tokenizer()
    folder = embedder_folder(tmp_path / "e", tokenizer)
    (folder / "1_Pooling").mkdir()
    settings = {"pooling_mode_cls_token": False, f"pooling_mode_{flag}": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    embedder = OnnxEmbedder(folder)
    found = (await embedder.embed_query("heron fish")).vectors[0]
    tokenizer.no_truncation()
    tokenizer.no_padding()
    expected = pool(table(64, SIZE)[tokenizer.encode("heron fish").ids])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)
    await embedder.close()


@pytest.mark.parametrize("flags", [("cls_token", "mean_tokens"), ("weightedmean_tokens",)])
async def test_an_unknown_pooling_is_an_error(tmp_path: Path, flags: tuple[str, ...]) -> None:
    folder = embedder_folder(tmp_path / "e", bert_tokenizer())
    (folder / "1_Pooling").mkdir()
    settings = {f"pooling_mode_{flag}": True for flag in flags}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    embedder = OnnxEmbedder(folder)
    with pytest.raises(ModelError, match="pools by"):
        await embedder.embed_query("heron")
    await embedder.close()


async def test_a_graph_with_32_bit_inputs(tmp_path: Path) -> None:
    wide = OnnxEmbedder(embedder_folder(tmp_path / "a", bert_tokenizer()))
    folder = embedder_folder(tmp_path / "b", bert_tokenizer(), integers=TensorProto.INT32)
    narrow = OnnxEmbedder(folder)
    one, two = [(await model.embed_query("heron owl")).vectors for model in (wide, narrow)]
    np.testing.assert_allclose(one, two, atol=1e-6)
    for model in (wide, narrow):
        await model.close()


async def test_callers_at_the_same_time_share_one_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loads, threads = _session._load_session, [], set()

    def slow_load(files: Any) -> Any:
        loads.append(files)
        threads.add(threading.current_thread())
        time.sleep(0.2)
        return load(files)

    monkeypatch.setattr(_session, "_load_session", slow_load)
    embedder = OnnxEmbedder(embedder_folder(tmp_path / "e", bert_tokenizer()), threads=2)
    calls = [asyncio.ensure_future(embedder.embed_query("heron")) for _ in range(5)]
    await asyncio.sleep(0.05)
    calls[0].cancel()
    calls[4].cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert len(loads) == 1
    assert threading.main_thread() not in threads
    assert [isinstance(found, Encoding) for found in done] == [False, True, True, True, False]
    assert (await embedder.embed_query("owl")).vectors.shape == (1, SIZE)
    await embedder.close()


async def test_a_cancelled_batch_leaves_the_model_usable(real_embedder: OnnxEmbedder) -> None:
    batch = asyncio.ensure_future(real_embedder.embed_passages(["a heron at night"] * 2_000))
    await asyncio.sleep(0.05)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert (await real_embedder.embed_query("owl")).vectors.shape == (1, 384)


async def test_a_tokenizers_own_truncation_is_not_trusted(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(embedder_folder(tmp_path / "e", bert_tokenizer()))
    short, long = (await embedder.embed_passages(["heron owl", "heron owl fish night the"])).vectors
    assert not np.allclose(short, long)
    assert embedder.count_tokens("heron owl fish night the") == 5
    await embedder.close()


async def test_the_models_own_limit_is_kept(tmp_path: Path) -> None:
    folder = embedder_folder(tmp_path / "e", bert_tokenizer(), max_position_embeddings=5)
    embedder = OnnxEmbedder(folder)
    assert embedder.max_tokens == 3
    one, two = (await embedder.embed_passages(["heron owl fish", "heron owl fish night"])).vectors
    np.testing.assert_allclose(one, two, atol=1e-6)
    await embedder.close()


async def test_prefixes_of_queries_and_passages(tmp_path: Path) -> None:
    folder = embedder_folder(tmp_path / "e", bert_tokenizer())
    plain = OnnxEmbedder(folder)
    both = OnnxEmbedder(folder, query_prefix="query: ", passage_prefix="passage: ")
    wanted = (await plain.embed_passages(["passage: heron", "query: heron"])).vectors
    passage = (await both.embed_passages(["heron"])).vectors[0]
    query = (await both.embed_query("heron")).vectors[0]
    np.testing.assert_allclose([passage, query], wanted, atol=1e-6)
    assert plain.id != both.id
    assert plain.max_tokens - both.max_tokens == 2
    for model in (plain, both):
        await model.close()


async def test_vectors_do_not_depend_on_the_texts_beside(real_embedder: OnnxEmbedder) -> None:
    sentences = ["The heron.", "A much longer sentence about the owl at night. " * 9, "Fish"]
    together = (await real_embedder.embed_passages(sentences)).vectors
    alone = [(await real_embedder.embed_query(s)).vectors[0] for s in sentences]
    assert np.array_equal(together, np.array(alone))
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


async def test_token_vectors_have_no_special_tokens(real_embedder: OnnxEmbedder) -> None:
    encoding = await real_embedder.embed_query("heron fish")
    assert encoding.tokens is not None
    assert len(encoding.tokens[0].ids) == real_embedder.count_tokens("heron fish")
    assert encoding.tokens[0].vectors.shape == (len(encoding.tokens[0].ids), 128)


async def test_no_texts_no_vectors(real_embedder: OnnxEmbedder) -> None:
    encoding = await real_embedder.embed_passages([])
    assert encoding.vectors.shape == (0, 384)


@pytest.mark.parametrize("logits", [1, 2])
async def test_case_32_a_cross_encoder_gives_differing_scores(
    tmp_path: Path, tokenizer: Tokenizer, logits: int
) -> None:
    folder = cross_encoder_folder(tmp_path / "c", tokenizer, logits)
    reranker = CrossEncoderReranker(folder)
    scores = await reranker.rerank("heron", None, rows("owl", "fish night", "the owl"))
    assert len({round(score, 4) for score in scores}) == 3
    tokenizer.no_truncation()
    tokenizer.no_padding()
    total = table(64, logits)[tokenizer.encode("heron", "owl").ids].sum(axis=0)
    assert scores[0] == pytest.approx(total[0] if logits == 1 else total[1] - total[0], abs=1e-4)
    await reranker.close()


async def test_case_32_the_cross_encoder_changes_the_order(tmp_path: Path) -> None:
    folder = cross_encoder_folder(tmp_path / "c", bert_tokenizer(), 1)
    async with Memory("local://:memory:", reranker=str(folder)) as memory:
        await memory.write(["heron fish", "owl night", "the fish"])
        result = await memory.search("heron fish")
        reranks = [hit.scores.rerank for hit in result.hits]
        assert None not in reranks
        assert reranks == sorted(reranks, key=lambda s: -(s or 0.0))
        assert [hit.score for hit in result.hits] == reranks
        assert (await memory.stats()).reranker == CrossEncoderReranker(folder).id


async def test_three_logits_are_no_reranker(tmp_path: Path) -> None:
    reranker = CrossEncoderReranker(cross_encoder_folder(tmp_path / "c", bert_tokenizer(), 3))
    with pytest.raises(ModelError, match="3 logits"):
        await reranker.rerank("heron", None, rows("owl"))
    await reranker.close()


async def test_a_long_query_leaves_room_for_the_passage(tmp_path: Path) -> None:
    folder = cross_encoder_folder(tmp_path / "c", bert_tokenizer(), 1, max_position_embeddings=9)
    reranker = CrossEncoderReranker(folder)
    one, two = await reranker.rerank("heron " * 50, None, rows("owl " * 50, "fish " * 50))
    values = table(64, 1)[:, 0]
    assert one - two == pytest.approx(3 * (values[5] - values[6]), abs=1e-4)
    await reranker.close()


async def test_case_38_a_failing_reranker_is_said(tmp_path: Path) -> None:
    folder = cross_encoder_folder(tmp_path / "c", bert_tokenizer(), 3)
    async with Memory("local://:memory:", reranker=str(folder)) as memory:
        await memory.write(["heron", "owl"])
        result = await memory.search("heron")
        assert texts(result)[0] == "heron"
        assert len(result.degraded) == 1
        assert "reranker" in result.degraded[0]


class NoQueries(OnnxEmbedder):
    """An embedder that cannot embed a query."""

    async def embed_query(self, text: str) -> Encoding:
        raise ModelError("out of order")


async def test_case_38_a_failing_embedder_leaves_words_and_is_said() -> None:
    embedder = NoQueries()
    async with Memory("local://:memory:", embedder=embedder) as memory:
        await memory.write(["the heron", "the owl"])
        result = await memory.search("heron")
        assert texts(result) == ["the heron"]
        assert "out of order" in result.degraded[0]
    await embedder.close()


async def test_late_interaction_needs_token_vectors(tmp_path: Path) -> None:
    folder = embedder_folder(tmp_path / "e", bert_tokenizer())
    with pytest.raises(ConfigurationError, match="token vectors"):
        async with Memory("local://:memory:", embedder=str(folder)):
            pass
    async with Memory("local://:memory:", embedder=str(folder), reranker="none") as memory:
        await memory.write(["heron fish", "owl night"])
        assert texts(await memory.search("heron"))[0] == "heron fish"


def late_folder(folder: Path, weights: Any) -> Path:
    """Save an embedder with token vectors, and weights for its vocabulary."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["token_vectors"]),
        helper.make_node("ReduceMean", ["token_vectors"], ["sentence_embedding"], axes=[1],
                         keepdims=0),
    ]  # fmt: skip
    save(
        folder, nodes, ["input_ids"], ("token_vectors", ["b", "t", SIZE]),
        {"table": table(64, SIZE)}, bert_tokenizer(),
    )  # fmt: skip
    model = onnx.load(folder / "model.onnx")
    model.graph.output.append(
        helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["b", SIZE])
    )
    onnx.save(model, folder / "model.onnx")
    np.save(folder / "token_weights.npy", weights)
    description = {"name": "late", "dimensions": SIZE, "token_dimensions": SIZE}
    (folder / "model.json").write_text(json.dumps(description))
    return folder


async def test_the_rarity_of_tokens_comes_from_the_models_own_vocabulary(tmp_path: Path) -> None:
    weights = np.arange(len(WORDS), dtype=np.float16)
    embedder = OnnxEmbedder(late_folder(tmp_path / "e", weights))
    tokens = (await embedder.embed_query("owl heron nonsense")).tokens
    assert tokens is not None
    assert tokens[0].weights is not None
    assert tokens[0].weights.tolist() == [5.0, 4.0, 1.0]
    await embedder.close()


async def test_weights_of_another_vocabulary_are_an_error(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(late_folder(tmp_path / "e", np.ones(99)))
    with pytest.raises(ModelError, match="vocabulary"):
        await embedder.embed_query("owl")
    await embedder.close()


@pytest.mark.parametrize("family", ["xlm-roberta", "camembert", "mpnet"])
def test_positions_that_start_behind_the_padding(tmp_path: Path, family: str) -> None:
    folder = embedder_folder(
        tmp_path / "e", xlmr_tokenizer(), model_type=family, pad_token_id=1,
        max_position_embeddings=514,
    )  # fmt: skip
    assert OnnxEmbedder(folder).max_tokens == 510


def test_files_that_are_missing_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder"):
        find_files(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"install agentmem\[hub\]|could not fetch"):
        find_files("org/name")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="no ONNX graph"):
        find_files(tmp_path / "empty")
    folder = embedder_folder(tmp_path / "e", bert_tokenizer())
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json"):
        OnnxEmbedder(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="how long the vectors are"):
        OnnxEmbedder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        OnnxEmbedder(folder)


async def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    folder = embedder_folder(tmp_path / "e", bert_tokenizer())
    description = {"dimensions": SIZE, "sha256": {"model.onnx": "0" * 64}}
    (folder / "model.json").write_text(json.dumps(description))
    embedder = OnnxEmbedder(folder)
    with pytest.raises(ModelError, match="SHA-256"):
        await embedder.embed_query("heron")
    await embedder.close()


def test_the_bundled_files_are_whole() -> None:
    find_files(BUNDLED).verify()


def test_names_of_rerankers() -> None:
    assert load_reranker("none") is None
    late = load_reranker("late")
    assert late is not None
    assert late.needs == {"late"}
