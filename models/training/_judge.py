"""Held-out questions of the training sets, which say when a run is best."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize

from agentmem.models.training._encoder import TwoHeads, to_batch
from agentmem.models.training._objective import max_sim
from agentmem.models.training._records import FOREIGN, Record, normal, split

SETS = (
    "tweetqa",
    "synthetic_persona_chat",
    "dstc11_reviews",
    "cosmosqa_valid",
    "crd3",
    "qmsum",
    "medquad",
    *FOREIGN,
)
QUESTIONS = 80
PASSAGES = 400
LONGEST = 192
MEASURES = ("sentence", "token64", "token128")


@dataclass(frozen=True, slots=True)
class Judge:
    """Questions over one set of passages.

    Attributes
    ----------
    answers
        For each question the places of its passages.
    """

    name: str
    questions: list[str]
    passages: list[str]
    answers: list[set[int]]

    def rivals(self, question: str) -> list[int]:
        """Return the places of all passages, those that share most words with a question first."""
        words = set(normal(question).split())
        shared = [len(words & set(normal(text).split())) for text in self.passages]
        return sorted(range(len(shared)), key=lambda place: -shared[place])


def judges(sources: dict[str, list[Record]], seed: int) -> list[Judge]:
    """Return one judge for each of `SETS` that is there."""
    return [_judge(name, sources[name], seed) for name in SETS if name in sources]


def judge_all(
    model: TwoHeads, tokenizer: Tokenizer, weights: Tensor, all_judges: Sequence[Judge]
) -> dict[str, dict[str, float]]:
    """Return nDCG@10 of each set by each of `MEASURES`."""
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        return {judge.name: _measure(model, tokenizer, weights, judge) for judge in all_judges}


def means(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the mean over the sets of each of `MEASURES`."""
    return {name: sum(row[name] for row in found.values()) / len(found) for name in MEASURES}


def ndcg(scores: np.ndarray, answers: set[int], depth: int = 10) -> float:
    """Return nDCG with binary relevance (Järvelin and Kekäläinen, 2002)."""
    order = np.argsort(-scores, kind="stable")[:depth]
    discounts = 1.0 / np.log2(np.arange(2, depth + 2))
    gained = sum(discounts[rank] for rank, place in enumerate(order) if int(place) in answers)
    return float(gained / discounts[: len(answers)].sum())


def _judge(name: str, records: list[Record], seed: int) -> Judge:
    judged = list(records) if name in FOREIGN else split(records)[1]
    chance = random.Random(f"{seed}/judge/{name}")
    chance.shuffle(judged)
    asked = judged[:QUESTIONS]
    texts = [text for row in asked for text in row.positives]
    others = [text for row in asked for text in row.negatives]
    others += [text for row in records for text in row.positives]
    chance.shuffle(others)
    known = dict.fromkeys(texts)
    for text in others:
        if len(known) >= max(PASSAGES, len(texts)):
            break
        known.setdefault(text)
    places = {text: place for place, text in enumerate(known)}
    answers = [{places[text] for text in row.positives} for row in asked]
    return Judge(name, [row.query for row in asked], list(known), answers)


def _measure(
    model: TwoHeads, tokenizer: Tokenizer, weights: Tensor, judge: Judge
) -> dict[str, float]:
    scores: dict[str, list[np.ndarray]] = {measure: [] for measure in MEASURES}
    asked = to_batch(tokenizer, judge.questions, 64)
    sentences, tokens = model(asked.ids, asked.mask)
    rarity = weights[asked.ids] * asked.inner
    order = sorted(range(len(judge.passages)), key=lambda i: len(judge.passages[i]))
    for start in range(0, len(order), 16):
        texts = [judge.passages[i] for i in order[start : start + 16]]
        some = to_batch(tokenizer, texts, LONGEST)
        vectors, states = model(some.ids, some.mask)
        scores["sentence"].append((sentences @ vectors.T).float().numpy())
        for cut in (64, 128):
            short = [normalize(part[..., :cut].float(), dim=-1) for part in (tokens, states)]
            found = max_sim(short[0], rarity, short[1], some.inner)
            scores[f"token{cut}"].append(found.float().numpy())
    back = np.argsort(order)
    whole = {name: np.concatenate(parts, axis=1)[:, back] for name, parts in scores.items()}
    return {
        name: float(
            np.mean([ndcg(row, found) for row, found in zip(table, judge.answers, strict=True)])
        )
        for name, table in whole.items()
    }
