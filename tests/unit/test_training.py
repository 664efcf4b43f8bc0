"""Training of the models: what is trained on, what judges it, and a whole run on a tiny model."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agentmem.models.training._mining import mine, save
from agentmem.models.training._records import (
    FOREIGN,
    Record,
    batch,
    by_source,
    mixture,
    normal,
    read,
    split,
    with_mined,
)

BIRDS = ("heron", "owl", "kestrel", "wren", "finch", "plover", "crane", "swift")


def record(number: int, source: str = "birds") -> Record:
    bird = BIRDS[number % len(BIRDS)]
    return Record(
        f"Where did the {bird} number {number} sleep?",
        (f"The {bird} with number {number} slept in barn {number * 7}.",),
        (f"Nobody saw {bird} {number} eat.",),
        source,
    )


def sets(*names: str, size: int = 200) -> dict[str, list[Record]]:
    return {name: [record(n, name) for n in range(size)] for name in names}


def write_set(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_records_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    good = {"query": "who slept here", "positives": ["the owl"], "negatives": None}
    write_set(
        tmp_path / "birds.jsonl.gz",
        [good, {**good, "query": "who"}, {**good, "positives": []}, {**good, "query": "a " * 60}],
    )
    assert read(tmp_path) == {"birds": [Record("who slept here", ("the owl",), (), "birds")]}
    with pytest.raises(FileNotFoundError, match=r"no \*\.jsonl\.gz"):
        read(tmp_path / "none")


def test_what_judges_is_not_trained_on() -> None:
    rows = [record(n) for n in range(400)]
    shared = Record("Another question about it?", rows[0].positives, (), "birds")
    trained, judged = split([*rows, shared])
    assert 0.02 < len(judged) / len(rows) < 0.09
    assert {row.query for row in trained}.isdisjoint(row.query for row in judged)
    answers = {text for row in judged for text in row.positives}
    assert answers.isdisjoint(text for row in trained for text in row.positives)
    again = Record(judged[0].query.upper() + "!", ("other",), (), "birds")
    assert split([again])[1] == [again]
    mixed = mixture(sets("birds", *FOREIGN), seed=1)
    assert {row.source for row in mixed} == {"birds"}
    assert mixed == mixture(sets("birds", *FOREIGN), seed=1)
    assert mixed != mixture(sets("birds", *FOREIGN), seed=2)


def test_batches_repeat_for_a_seed_and_hold_a_query_once() -> None:
    grouped = sets("birds", "boats", "towns")
    batches = [batch(grouped, 24, 1, step) for step in range(20)]
    assert batches == [batch(grouped, 24, 1, step) for step in range(20)]
    assert batches[0] != batch(grouped, 24, 2, 0)
    for step, rows in enumerate(batches):
        assert len({normal(row.query) for row in rows}) == len(rows)
        assert (len(by_source(rows)) > 1) == bool(step % 2)


def test_mined_records_take_the_place_of_their_own() -> None:
    rows = [record(n) for n in range(3)]
    better = Record(rows[1].query, rows[1].positives, ("harder",), "birds")
    elsewhere = Record(rows[2].query, rows[2].positives, ("harder",), "boats")
    mined = {"birds": [better], "boats": [elsewhere]}
    assert with_mined(rows, mined) == [rows[0], better, rows[2]]


async def test_hard_negatives_are_near_and_no_answers(tmp_path: Path) -> None:
    question = "Where did the heron of Oban sleep?"
    answer = (
        "In Oban the grey heron of the harbour slept on the roof of the old ice house all night"
    )
    twin = f"Said again: {answer.lower()}, it seems."
    near = "A heron slept somewhere near Wick"
    far = "The bread needs forty minutes at two hundred degrees"
    rows = [
        Record(question, (answer,), (far,), "birds"),
        Record("What does the bread need?", ("Flour, water, salt",), (twin, near), "birds"),
    ]
    calls: list[None] = []
    mined = await mine(rows, 1, lambda: calls.append(None))
    assert len(calls) == len(mined) == 2
    (found,) = (row for row in mined if row.query == question)
    assert found.positives == (answer,)
    assert found.negatives[0] == near
    assert not {twin, answer} & {*found.negatives}
    assert far in found.negatives
    save(mined, tmp_path / "birds.jsonl.gz")
    assert read(tmp_path) == {"birds": mined}


# ------------------------------------------------------------ with torch


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A tiny encoder with the width of the real one, as published weights are."""
    reason = "the training itself needs agentmem[train]"
    torch = pytest.importorskip("torch", reason=reason)
    transformers = pytest.importorskip("transformers", reason=reason)
    from agentmem.models._files import BUNDLED

    torch.manual_seed(1)
    folder = tmp_path / "base"
    config = transformers.BertConfig(
        hidden_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=512,
    )
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((BUNDLED / "tokenizer.json").read_bytes())
    return folder


# The exporter warns about its own future and about the tracing of branches.
@pytest.mark.filterwarnings("ignore")
async def test_a_run_goes_on_where_it_stopped_and_its_model_embeds(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from agentmem.models.onnx_embedder import OnnxEmbedder
    from agentmem.models.training import _train
    from agentmem.models.training._encoder import TwoHeads, load_encoder, load_tokenizer
    from agentmem.models.training._export import between, export_embedder, shortened
    from agentmem.models.training._train import Options, train

    def options(**changed: Any) -> Options:
        return Options(**{"size": 4, "save_every": 2, "judge_every": 4, "warm_up": 2, **changed})

    class Stop(Exception):
        pass

    sources = sets("tweetqa", "qmsum", "qed_nq_dev", size=60)
    train(base, sources, {}, tmp_path / "whole", options(steps=4))
    step = _train._step

    def failing(*arguments: Any) -> Any:
        if arguments[-1] == 3:
            raise Stop
        return step(*arguments)

    monkeypatch.setattr(_train, "_step", failing)
    with pytest.raises(Stop):
        train(base, sources, {}, tmp_path / "parts", options(steps=4))
    monkeypatch.undo()
    train(base, sources, {}, tmp_path / "parts", options(steps=4))
    whole = torch.load(tmp_path / "whole" / "step-4.pt")
    parts = torch.load(tmp_path / "parts" / "step-4.pt")
    start = torch.load(tmp_path / "whole" / "step-0.pt")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not torch.equal(start["projection"], whole["projection"])
    with pytest.raises(ValueError, match="begun with"):
        train(base, sources, {}, tmp_path / "parts", options(steps=5))
    lines = (tmp_path / "whole" / "log.jsonl").read_text().splitlines()
    judged = [json.loads(line) for line in lines]
    assert [row["judged"] for row in judged if "judged" in row] == [0, 4]

    models = []
    for state in (start, whole):
        model = TwoHeads(load_encoder(base), state["projection"])
        model.load_state_dict(state)
        models.append(model)
    half = shortened(between(models[0], models[1], 0.5), 64)
    weights = torch.load(tmp_path / "whole" / "weights.pt").numpy()
    tokenizer = load_tokenizer(base)
    export_embedder(half, weights, tokenizer, tmp_path / "model", "tiny")
    embedder = OnnxEmbedder(tmp_path / "model")
    encoding = await embedder.embed_query("Where did the heron sleep?")
    assert encoding.tokens is not None
    ids = torch.tensor([tokenizer.encode("Where did the heron sleep?").ids])
    with torch.no_grad():
        sentence, tokens = half.eval()(ids, torch.ones_like(ids))
    # What 8 bits leave of it.
    assert float(encoding.vectors[0] @ sentence[0].numpy()) > 0.98
    assert encoding.tokens[0].vectors.shape == (ids.shape[1] - 2, 64) == tokens[0, 1:-1].shape
    await embedder.close()


@pytest.mark.filterwarnings("ignore")  # of the exporter, as above
async def test_a_cross_encoder_is_trained_and_ranks(base: Path, tmp_path: Path) -> None:
    import torch

    from agentmem.models.base import RerankCandidate
    from agentmem.models.onnx_reranker import CrossEncoderReranker
    from agentmem.models.training._cross import CrossOptions, load_cross, pair_batch, train_cross
    from agentmem.models.training._encoder import TwoHeads, load_encoder, load_tokenizer
    from agentmem.models.training._export import export_cross

    start = tmp_path / "step-4.pt"
    torch.save(torch.ones(load_tokenizer(base).get_vocab_size()), tmp_path / "weights.pt")
    torch.save(TwoHeads(load_encoder(base), torch.zeros(384, 64)).state_dict(), start)
    sources = sets("tweetqa", size=60)
    options = CrossOptions(layers=1, steps=4, size=4, save_every=2, judge_every=4)
    train_cross(base, start, sources, sources, tmp_path / "run", options)
    model, tokenizer = load_cross(base, tmp_path / "run" / "step-4.pt", 1), load_tokenizer(base)
    export_cross(model, tokenizer, tmp_path / "model", "tiny-cross")
    reranker = CrossEncoderReranker(tmp_path / "model")
    rows = [RerankCandidate(str(n), text, None) for n, text in enumerate(BIRDS)]
    scores = await reranker.rerank("heron", None, rows)
    with torch.no_grad():
        logits = model(*pair_batch(tokenizer, [("heron", text) for text in BIRDS], 64))[:, 0]
    assert scores == pytest.approx(logits.tolist(), abs=0.1)
    await reranker.close()
