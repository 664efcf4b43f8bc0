"""Training records: reading, what is held out for judging, and the mixture."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Large or repetitive sets are cut, so that none of them decides alone.
CAPS = {"medquad": 2500, "squad_dev": 8000, "squad_sent_test": 8000, "tweetqa": 9000}
CAP = 4000
# Never trained on: they judge how the model does on texts of another kind.
FOREIGN = ("qed_nq_dev", "covidqa")
# One question in this many judges a run and is not trained on.
HELD_OUT = 20
WORDS_OF_A_QUERY = range(2, 60)


@dataclass(frozen=True, slots=True)
class Record:
    """A query with texts that answer it and texts that do not.

    Attributes
    ----------
    query
        A question, a claim, or a sentence that sums something up.
    positives
        Texts that answer it, at least one.
    negatives
        Texts that do not, as far as is known.
    source
        Name of the file.
    """

    query: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]
    source: str


def read(folder: Path) -> dict[str, list[Record]]:
    """Return the records of each file `<source>.jsonl.gz`, in the order of the file.

    Raises
    ------
    FileNotFoundError
        The folder holds no such file.
    """
    found: dict[str, list[Record]] = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        source = path.name.removesuffix(".jsonl.gz")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [_record(json.loads(line), source) for line in lines]
        found[source] = [row for row in rows if row is not None]
    if not found:
        raise FileNotFoundError(f"no *.jsonl.gz in {str(folder)!r}; give the folder of the sets")
    return found


def split(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Return what is trained on and what is held out, parted by a digest of the query.

    A record whose positive answers a held-out query too is left out of the training.
    """
    rows = list(records)
    judged = [row for row in rows if _held_out(row)]
    known = {text for row in judged for text in row.positives}
    trained = [row for row in rows if not _held_out(row) and known.isdisjoint(row.positives)]
    return trained, judged


def mixture(sources: dict[str, list[Record]], seed: int) -> list[Record]:
    """Return the records to train on, at most a cap of each source, the same for a seed."""
    mixed = []
    for source, records in sources.items():
        if source in FOREIGN:
            continue
        trained, _ = split(records)
        random.Random(f"{seed}/{source}").shuffle(trained)
        mixed += trained[: CAPS.get(source, CAP)]
    return mixed


def with_mined(records: Sequence[Record], mined: dict[str, list[Record]]) -> list[Record]:
    """Return `records`, and the mined ones in place of those with the same query and positives."""
    known = {(row.source, row.query, row.positives): row for rows in mined.values() for row in rows}
    return [known.get((row.source, row.query, row.positives), row) for row in records]


def batch(records: dict[str, list[Record]], size: int, seed: int, step: int) -> list[Record]:
    """Return the batch of a step: one source, or one from each, in turns.

    Texts of one source are hard to tell apart, as the texts of one conversation are; batches over
    all sources keep the sources comparable. A source's chance grows with the root of its size.
    """
    chance = random.Random(f"{seed}/{step}")
    names = sorted(records)
    shares = [len(records[name]) ** 0.5 for name in names]
    if step % 2:
        drawn = chance.choices(names, shares, k=size)
    else:
        drawn = chance.choices(names, shares, k=1) * size
    chosen: dict[str, Record] = {}
    for name in drawn:
        record = chance.choice(records[name])
        chosen.setdefault(normal(record.query), record)
    return list(chosen.values())


def by_source(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of each source."""
    grouped: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        grouped[record.source].append(record)
    return dict(grouped)


def normal(text: str) -> str:
    """Return `text` without case and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _record(row: dict[str, object], source: str) -> Record | None:
    query, positives, negatives = row["query"], row["positives"], row.get("negatives") or []
    if not isinstance(query, str) or not isinstance(positives, list) or not positives:
        return None
    if not isinstance(negatives, list) or len(query.split()) not in WORDS_OF_A_QUERY:
        return None
    return Record(query, tuple(positives), tuple(negatives), source)


def _held_out(record: Record) -> bool:
    digest = hashlib.sha256(normal(record.query).encode()).digest()
    return int.from_bytes(digest[:4], "big") % HELD_OUT == 0
