"""Quality measures by ir-measures, and tests of differences by scipy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
from ir_measures import RR, R, Success, nDCG
from numpy.typing import NDArray
from scipy.stats import bootstrap, permutation_test

MEASURES = {
    "recall@1": R @ 1,
    "recall@5": R @ 5,
    "recall@10": R @ 10,
    "recall@40": R @ 40,
    "success@1": Success @ 1,
    "success@5": Success @ 5,
    "mrr": RR,
    "ndcg@10": nDCG @ 10,
}
Ranked = Sequence[tuple[str, Sequence[str], Sequence[str] | Mapping[str, int]]]
"""(query, documents best first, relevant documents, with grades where they differ)."""

_RESAMPLES = 4_999
_SEED = 1


def measures_of(rows: Ranked) -> dict[str, float]:
    """Return the mean of each measure over the queries."""
    values = ir_measures.calc_aggregate(MEASURES.values(), *_as_run(rows))
    return {name: float(values[measure]) for name, measure in MEASURES.items()}


def by_query(rows: Ranked, name: str) -> dict[str, float]:
    """Return one measure of each query."""
    found = ir_measures.iter_calc([MEASURES[name]], *_as_run(rows))
    values = {query: 0.0 for query, _, _ in rows}
    values.update((entry.query_id, float(entry.value)) for entry in found)
    return values


def _as_run(rows: Ranked) -> tuple[list[ir_measures.Qrel], list[ir_measures.ScoredDoc]]:
    judgements = [
        ir_measures.Qrel(query, document, grade)
        for query, _, relevant in rows
        for document, grade in _graded(relevant).items()
    ]
    run = [
        ir_measures.ScoredDoc(query, document, float(-place))
        for query, documents, _ in rows
        for place, document in enumerate(documents)
    ]
    return judgements, run


def _graded(relevant: Sequence[str] | Mapping[str, int]) -> Mapping[str, int]:
    return relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1)


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired comparison of two rankings over the same queries.

    Attributes
    ----------
    mean
        Of the second minus the first.
    low, high
        95 % interval of the mean (bias-corrected bootstrap).
    p
        Chance of so large a difference in either direction when there is none (sign-flip
        permutation test).
    """

    queries: int
    mean: float
    low: float
    high: float
    p: float


def compare(first: dict[str, float], second: dict[str, float]) -> Difference | None:
    """Compare two systems on the queries that both have answered; None when there are not two."""
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        return None
    gaps = np.array([second[query] - first[query] for query in shared])
    if not gaps.any():
        return Difference(len(shared), 0.0, 0.0, 0.0, 1.0)
    generator = np.random.default_rng(_SEED)
    low, high = _interval(gaps, generator)
    tested = permutation_test(
        (gaps,), np.mean, permutation_type="samples", n_resamples=_RESAMPLES, rng=generator
    )
    return Difference(
        len(shared),
        float(gaps.mean()),
        low,
        high,
        float(tested.pvalue),
    )


def _interval(gaps: NDArray[np.float64], generator: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % interval of the mean."""
    if np.allclose(gaps, gaps[0]):  # the bias correction divides by the spread of the gaps
        return float(gaps.mean()), float(gaps.mean())
    found = bootstrap((gaps,), np.mean, n_resamples=_RESAMPLES, rng=generator)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
