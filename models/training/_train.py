"""The training loop of the embedder: resumable, logged, judged on held-out questions."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from agentmem.models.training._encoder import (
    TOKEN_DIMENSIONS,
    TwoHeads,
    load_encoder,
    load_tokenizer,
    principal_components,
    rarity_weights,
    to_batch,
)
from agentmem.models.training._judge import Judge, judge_all, judges, means
from agentmem.models.training._objective import loss
from agentmem.models.training._records import Record, batch, by_source, mixture, normal, with_mined
from agentmem.models.training._run import Log, rate_at, resume, save_state

_PROJECTION_TEXTS = 1_000
_RARITY_TEXTS = 20_000
_DROPOUT = 0.05


@dataclass(frozen=True)
class Options:
    """Settings of a run.

    Attributes
    ----------
    steps
        Updates in all; the rate falls linearly to a twentieth over them.
    size
        Queries of a batch.
    rate
        Highest learning rate of the encoder; the projection's is five times as high.
    warm_up
        Updates over which the rate grows.
    query_tokens, passage_tokens
        Where texts are cut, in tokens.
    judge_every, save_every
        In updates.
    """

    steps: int = 1200
    size: int = 24
    rate: float = 2e-5
    warm_up: int = 100
    query_tokens: int = 40
    passage_tokens: int = 112
    judge_every: int = 200
    save_every: int = 50
    seed: int = 20250101


def train(
    base: Path,
    sources: dict[str, list[Record]],
    mined: dict[str, list[Record]],
    out: Path,
    options: Options,
) -> None:
    """Train from the weights in `base`, or go on where the run in `out` stopped.

    The records in `mined` take the place of those in `sources` with the same query and source.

    `out` gets `checkpoint.pt` (the state of the run), `step-N.pt` at each judgement, and
    `log.jsonl`.
    """
    torch.manual_seed(options.seed)
    log, tokenizer = Log(out), load_tokenizer(base)
    records = with_mined(mixture(sources, options.seed), mined)
    model, weights = _begin(base, tokenizer, records, out, options)
    optimizer = torch.optim.AdamW(
        [
            {"params": model.encoder.parameters(), "times": 1.0},
            {"params": [model.projection], "times": 5.0},
        ],
        lr=options.rate,
        weight_decay=0.01,
    )
    done = resume(out, model, optimizer, asdict(options))
    held_out = judges(sources, options.seed)
    grouped = by_source(records)
    if done == 0:
        log.add(_judged(model, tokenizer, weights, held_out, 0))
    started, sums = time.monotonic(), dict[str, float]()
    for step in range(done, options.steps):
        share = options.rate * rate_at(step, options.warm_up, options.steps)
        for group in optimizer.param_groups:
            group["lr"] = share * group["times"]
        rows = batch(grouped, options.size, options.seed, step)
        terms = _step(model, tokenizer, weights, rows, options, step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value / options.save_every
        if (step + 1) % options.save_every == 0:
            seconds = (time.monotonic() - started) / (step + 1 - done)
            log.add({"step": step + 1, "seconds_a_step": seconds, **sums})
            sums = {}
            save_state(out, model, optimizer, step + 1, asdict(options))
        if (step + 1) % options.judge_every == 0 or step + 1 == options.steps:
            log.add(_judged(model, tokenizer, weights, held_out, step + 1))
            torch.save(model.state_dict(), out / f"step-{step + 1}.pt")


def _begin(
    base: Path, tokenizer: Tokenizer, records: Sequence[Record], out: Path, options: Options
) -> tuple[TwoHeads, Tensor]:
    """Return the model before training and the rarity weights, which `out` keeps."""
    encoder = load_encoder(base)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = _DROPOUT
    start, rarity = out / "step-0.pt", out / "weights.pt"
    if start.is_file() and rarity.is_file():
        state = torch.load(start)
        model = TwoHeads(encoder, state["projection"])
        model.load_state_dict(state)
        return model, torch.load(rarity)
    texts = [record.positives[0] for record in records]
    random.Random(options.seed).shuffle(texts)
    weights = torch.from_numpy(rarity_weights(tokenizer, texts[:_RARITY_TEXTS]))
    model = TwoHeads(
        encoder,
        principal_components(encoder, tokenizer, texts[:_PROJECTION_TEXTS], TOKEN_DIMENSIONS),
    )
    torch.save(weights, rarity)
    torch.save(model.state_dict(), start)
    return model, weights


def _step(
    model: TwoHeads,
    tokenizer: Tokenizer,
    weights: Tensor,
    rows: Sequence[Record],
    options: Options,
    step: int,
) -> dict[str, float]:
    """Compute the gradient of one batch and return the terms of its loss."""
    model.train()
    torch.manual_seed(options.seed + step)  # a run that goes on drops what one in a piece does
    chance = random.Random(f"{options.seed}/texts/{step}")
    passages = [chance.choice(row.positives) for row in rows]
    passages += [chance.choice(row.negatives) for row in rows if row.negatives]
    asked = to_batch(tokenizer, [row.query for row in rows], options.query_tokens)
    given = to_batch(tokenizer, passages, options.passage_tokens)
    with torch.autocast("cpu", torch.bfloat16):
        query = model(asked.ids, asked.mask)
        found = model(given.ids, given.mask)
    terms = loss(
        tuple(part.float() for part in query),
        weights[asked.ids] * asked.inner,
        tuple(part.float() for part in found),
        given.inner,
        _excluded(rows, passages),
    )
    terms["total"].backward()
    return {name: value.item() for name, value in terms.items()}


def _excluded(rows: Sequence[Record], passages: Sequence[str]) -> Tensor:
    """Return where a passage other than the target answers the query of a row as well."""
    known = [{normal(text) for text in row.positives} for row in rows]
    texts = [normal(text) for text in passages]
    excluded = torch.tensor([[text in answers for text in texts] for answers in known])
    excluded[torch.arange(len(rows)), torch.arange(len(rows))] = False
    return excluded


def _judged(
    model: TwoHeads, tokenizer: Tokenizer, weights: Tensor, held_out: Sequence[Judge], step: int
) -> dict[str, Any]:
    found = judge_all(model, tokenizer, weights, held_out)
    return {"judged": step, **means(found), "sets": found}
