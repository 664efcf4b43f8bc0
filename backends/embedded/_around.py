"""Where what stands around a chunk is (`agentmem.backends._context`), by place in a snapshot."""

from __future__ import annotations

import numpy as np

from agentmem.backends._context import PAUSE, REACH
from agentmem.backends.embedded._resident import Mask, Snapshot
from agentmem.backends.embedded._vectors import Places


def around(snapshot: Snapshot, visible: Mask, places: Places) -> tuple[Places, Places]:
    """Return where those stand that were written before each chunk, and behind it.

    Parameters
    ----------
    visible
        What may stand around a chunk, itself among it.
    places
        Of the chunks.

    Returns
    -------
    tuple
        Two int64 arrays of shape (places, `REACH`), the nearest first; a chunk with fewer others
        stands beside itself.
    """
    before = np.repeat(places[:, None], REACH, axis=1)
    behind = before.copy()
    scopes = snapshot.column("scope_id")
    begins = snapshot.column("as_of_from")
    of_each = scopes[places]
    for scope_id in np.unique(of_each):
        numbers = np.flatnonzero(of_each == scope_id)
        same = np.flatnonzero(visible & (scopes == scope_id))
        at = np.searchsorted(same, places[numbers])
        for side, direction in ((before, -1), (behind, 1)):
            last, together = places[numbers], np.ones(len(numbers), dtype=np.bool_)
            for step in range(REACH):
                there = at + direction * (step + 1)
                together &= (there >= 0) & (there < len(same))
                other = same[there.clip(0, len(same) - 1)]
                together &= np.abs(begins[other] - begins[last]) <= PAUSE
                side[numbers[together], step] = other[together]
                last = other
    return before, behind
