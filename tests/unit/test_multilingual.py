"""A multilingual model is plugged in by naming its folder; see docs/languages.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from agentmem import ConfigurationError, Memory, ModelMismatchError, Settings
from tests.support import texts
from tests.unit.test_models import SIZE, save

# Words of one line mean the same and get the same vector.
MEANINGS = ["heron garza reiher 白鹭", "owl lechuza eule 猫头鹰", "rain lluvia regen 雨"]


def multilingual(folder: Path) -> Path:
    """Save an embedder that knows a few words in four languages."""
    from onnx import helper

    words = ["<pad>", "<unk>", "<s>", "</s>", *(w for line in MEANINGS for w in line.split())]
    tokenizer = Tokenizer(
        models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    table = np.zeros((len(words), SIZE), dtype=np.float32)
    for meaning, line in enumerate(MEANINGS):
        for word in line.split():
            table[words.index(word), meaning] = 1.0
    table[:4, -1] = 0.1
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    return save(
        folder, nodes, ["input_ids"], ("last_hidden_state", ["b", "t", SIZE]), {"table": table},
        tokenizer, hidden_size=SIZE,
    )  # fmt: skip


async def test_a_multilingual_model_finds_across_languages(tmp_path: Path) -> None:
    model = str(multilingual(tmp_path / "model"))
    settings = Settings(url=str(tmp_path / "memory"), embedder=model, reranker="none")
    async with Memory(settings) as memory:
        await memory.write(["garza", "Eule".lower(), "雨"])
        for question, answer in (
            ("heron", "garza"), ("猫头鹰", "eule"), ("lluvia", "雨"), ("regen", "雨"),
        ):  # fmt: skip
            result = await memory.search(question)
            assert texts(result)[0] == answer, question
            assert result.hits[0].scores.similarity == pytest.approx(1.0)
            assert result.degraded == ()
    with pytest.raises(ModelMismatchError):
        async with Memory(tmp_path / "memory"):
            pass


async def test_without_token_vectors_another_reranker_must_be_named(tmp_path: Path) -> None:
    settings = Settings(url="local://:memory:", embedder=str(multilingual(tmp_path / "model")))
    with pytest.raises(ConfigurationError, match="set reranker to 'none' or to a cross-encoder"):
        async with Memory(settings):
            pass
