"""The cross-encoder: every other layer of the embedder, with one number at the end.

Query and text go in as one input, so that each token is read in the light of the other side. The
score is

    20 * sum over tokens i of the query of w(i) * max over tokens j of the text of cos(h_i, h_j)
         divided by the sum of the w(i),  plus a number from the first state

with the states h of the last layer, and w the rarity of a token times a factor from its state. Such
a head knows from the start what matches; with a score from the first state alone, the first
hundreds of steps tell an answer from other texts no better than chance does.

It is trained to put the answer above texts that the library's own search ranks high: softmax over
one answer and its negatives. The vocabulary is the larger part of so small a model, so that few
layers cost little.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from agentmem.models.training._encoder import DIMENSIONS, TwoHeads, load_encoder, load_tokenizer
from agentmem.models.training._judge import Judge, judges, ndcg
from agentmem.models.training._objective import SCALE
from agentmem.models.training._records import Record, by_source
from agentmem.models.training._run import Log, rate_at, resume, save_state

_JUDGED = 40
_CANDIDATES = 24
_FAR = -1e4
_TOGETHER = 12
_HEAD_TIMES = 10.0
_APART = 4.0  # more than two cosines can differ


@dataclass(frozen=True)
class CrossOptions:
    """Settings of a run; those with the names of `Options` mean the same.

    Attributes
    ----------
    layers
        Every other layer of the encoder is kept, this many from the first on.
    rivals
        Texts beside the answer in each choice.
    rate
        Highest learning rate of the encoder; the head's is ten times as high.
    pair_tokens
        Where a query with a text is cut.
    """

    layers: int = 3
    steps: int = 1_000
    size: int = 8
    rivals: int = 5
    rate: float = 5e-5
    warm_up: int = 50
    pair_tokens: int = 144
    judge_every: int = 200
    save_every: int = 25
    seed: int = 20250101


class CrossEncoder(torch.nn.Module):
    """A BERT-like encoder of a few layers with one score for a query with a text.

    Parameters
    ----------
    encoder
        An encoder with hidden states of 384 dimensions; loses the layers that are not kept.
    layers
        As in `CrossOptions`.
    rarity
        float32 of shape (vocabulary,): weight of each word piece to start from.
    """

    def __init__(self, encoder: torch.nn.Module, layers: int, rarity: Tensor) -> None:
        super().__init__()
        encoder.encoder.layer = encoder.encoder.layer[: 2 * layers : 2]
        encoder.pooler = None
        segments = encoder.embeddings.token_type_embeddings.weight.data
        segments[1] = segments[0]  # an embedder saw the first segment alone
        self.encoder = encoder
        self.rarity = torch.nn.Embedding.from_pretrained(rarity[:, None], freeze=False)
        self.factor = torch.nn.Linear(DIMENSIONS, 1)
        self.dense = torch.nn.Linear(DIMENSIONS, DIMENSIONS)
        self.score = torch.nn.Linear(DIMENSIONS, 1)
        for last in (self.factor, self.score):
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Return logits, float32 of shape (pairs, 1)."""
        states = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state.float()
        text = (token_type_ids * attention_mask).float()
        unit = normalize(states, dim=-1)
        cosine = unit @ unit.transpose(1, 2) - _APART * (1.0 - text[:, None, :])
        best = cosine.amax(-1)
        weight = self.rarity(input_ids)[..., 0].clamp(min=0.0) * (attention_mask - text)
        weight = weight * 2.0 * torch.sigmoid(self.factor(states)[..., 0])
        matched = (best * weight).sum(1) / weight.sum(1).clamp(min=1e-6)
        logits: Tensor = SCALE * matched[:, None] + self.score(torch.tanh(self.dense(states[:, 0])))
        return logits


def train_cross(
    base: Path,
    encoder: Path,
    mined: dict[str, list[Record]],
    sources: dict[str, list[Record]],
    out: Path,
    options: CrossOptions,
) -> None:
    """Train from an embedder's weights, or go on where the run in `out` stopped.

    `out` gets what the embedder's run writes, but no rarity weights.

    Parameters
    ----------
    base
        Folder of the published weights.
    encoder
        A `step-N.pt` of the embedder's training to start from, beside its `weights.pt`.
    mined
        Records with hard negatives.
    sources
        All records, for judging.
    """
    torch.manual_seed(options.seed)
    log, tokenizer = Log(out), load_tokenizer(base)
    model = _begin(base, encoder, options)
    optimizer = _optimizer(model, options)
    done = resume(out, model, optimizer, asdict(options))
    held_out = judges(sources, options.seed)
    started, total = time.monotonic(), 0.0
    grouped = by_source(row for rows in mined.values() for row in rows if row.negatives)
    for step in range(done, options.steps):
        share = options.rate * rate_at(step, options.warm_up, options.steps)
        for group in optimizer.param_groups:
            group["lr"] = share * group["times"]
        total += _step(model, tokenizer, grouped, options, step) / options.save_every
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % options.save_every == 0:
            seconds = (time.monotonic() - started) / (step + 1 - done)
            log.add({"step": step + 1, "seconds_a_step": seconds, "loss": total})
            total = 0.0
            save_state(out, model, optimizer, step + 1, asdict(options))
        if (step + 1) % options.judge_every == 0 or step + 1 == options.steps:
            log.add({"judged": step + 1, "sets": _judge_all(model, tokenizer, held_out, options)})
            torch.save(model.state_dict(), out / f"step-{step + 1}.pt")


def load_cross(base: Path, state: Path, layers: int) -> CrossEncoder:
    """Return a trained cross-encoder."""
    weights = torch.load(state)
    model = CrossEncoder(load_encoder(base), layers, weights["rarity.weight"][:, 0])
    model.load_state_dict(weights)
    model.eval()
    return model


def _begin(base: Path, encoder: Path, options: CrossOptions) -> CrossEncoder:
    start, state = load_encoder(base), torch.load(encoder)
    for module in start.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # half of a step's time, for a run that sees no question twice
    TwoHeads(start, torch.zeros_like(state["projection"])).load_state_dict(state)
    return CrossEncoder(start, options.layers, torch.load(encoder.with_name("weights.pt")))


def _optimizer(model: CrossEncoder, options: CrossOptions) -> torch.optim.Optimizer:
    head = [value for name, value in model.named_parameters() if not name.startswith("encoder.")]
    groups = [
        {"params": model.encoder.parameters(), "times": 1.0},
        {"params": head, "times": _HEAD_TIMES},
    ]
    return torch.optim.AdamW(groups, lr=options.rate, weight_decay=0.01, fused=True)


def _step(
    model: CrossEncoder,
    tokenizer: Tokenizer,
    grouped: dict[str, list[Record]],
    options: CrossOptions,
    step: int,
) -> float:
    chance = random.Random(f"{options.seed}/cross/{step}")
    names = sorted(grouped)
    shares = [len(grouped[name]) ** 0.5 for name in names]
    rows = [chance.choice(grouped[n]) for n in chance.choices(names, shares, k=options.size)]
    width = options.rivals + 1
    pairs: list[tuple[str, str]] = []
    present = torch.zeros(len(rows), width, dtype=torch.bool)
    for place, row in enumerate(rows):
        rivals = chance.sample(row.negatives, min(options.rivals, len(row.negatives)))
        pairs += [(row.query, text) for text in (chance.choice(row.positives), *rivals)]
        present[place, : len(rivals) + 1] = True
    table = torch.full((len(rows), width), _FAR)
    table[present] = _logits(model, tokenizer, pairs, options.pair_tokens)
    loss = cross_entropy(table, torch.zeros(len(rows), dtype=torch.int64))
    loss.backward()
    return float(loss.item())


def _logits(
    model: CrossEncoder, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], longest: int
) -> Tensor:
    """Return the logit of each pair; those of like length are padded together."""
    order = sorted(range(len(pairs)), key=lambda place: sum(map(len, pairs[place])))
    parts = [order[start : start + _TOGETHER] for start in range(0, len(order), _TOGETHER)]
    logits = torch.empty(len(pairs))
    with torch.autocast("cpu", torch.bfloat16):
        for part in parts:
            some = model(*pair_batch(tokenizer, [pairs[place] for place in part], longest))
            logits[part] = some[:, 0].float()
    return logits


def pair_batch(
    tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], longest: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, mask and segment ids of pairs, each int64 of shape (pairs, tokens)."""
    encoded = tokenizer.encode_batch(list(pairs))
    width = min(longest, max(len(row.ids) for row in encoded))
    ids = torch.zeros(len(encoded), width, dtype=torch.int64)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for place, row in enumerate(encoded):
        kept = row.ids if len(row.ids) <= width else [*row.ids[: width - 1], row.ids[-1]]
        ids[place, : len(kept)] = torch.tensor(kept)
        types[place, : len(kept)] = torch.tensor(row.type_ids[: len(kept)])
        mask[place, : len(kept)] = 1
    return ids, mask, types


def _judge_all(
    model: CrossEncoder, tokenizer: Tokenizer, held_out: Sequence[Judge], options: CrossOptions
) -> dict[str, float]:
    """Return nDCG@10 over the marked texts and some of the others of each set."""
    with torch.no_grad():
        return {judge.name: _measure(model, tokenizer, judge, options) for judge in held_out}


def _measure(
    model: CrossEncoder, tokenizer: Tokenizer, judge: Judge, options: CrossOptions
) -> float:
    found = []
    for question, answers in list(zip(judge.questions, judge.answers, strict=True))[:_JUDGED]:
        places = [*answers, *(p for p in judge.rivals(question) if p not in answers)][:_CANDIDATES]
        pairs = [(question, judge.passages[place]) for place in places]
        logits = _logits(model, tokenizer, pairs, options.pair_tokens)
        found.append(ndcg(logits.numpy(), set(range(len(answers)))))
    return float(np.mean(found))
