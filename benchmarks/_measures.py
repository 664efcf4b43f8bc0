"""Quality measures, by ir-measures, and percentiles of times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import ir_measures
import numpy as np
from ir_measures import RR, R, nDCG

MEASURES = (R @ 1, R @ 5, R @ 10, R @ 40, RR, nDCG @ 10)
HEADERS = ("recall@1", "recall@5", "recall@10", "recall@40", "MRR", "nDCG@10")
RANKINGS = ("vector", "lexical", "fused", "full")


def measure(
    relevant: Mapping[str, Iterable[str]], ranked: Mapping[str, Sequence[str]]
) -> tuple[float, ...]:
    """Return the mean of each of `MEASURES` over the queries in `relevant`.

    A query without a ranking counts as one that found nothing.
    """
    judgements = [
        ir_measures.Qrel(query, document, 1)
        for query, documents in relevant.items()
        for document in documents
    ]
    run = [
        ir_measures.ScoredDoc(query, document, float(-place))
        for query, documents in ranked.items()
        for place, document in enumerate(documents)
    ]
    values = ir_measures.calc_aggregate(MEASURES, judgements, run)
    return tuple(float(values[name]) for name in MEASURES)


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return median and 95th percentile."""
    median, high = np.percentile(values, [50, 95])
    return float(median), float(high)
