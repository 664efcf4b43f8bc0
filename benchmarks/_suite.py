"""Suites: what is measured, on which system and data, and which values are expected.

A suite is a TOML file. Each `[[case]]` is one system on one data set, measured in a process of its
own; `expect` names measures with the value that was measured before and how far it may be off.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks._datasets import DataError

FOLDER = Path(__file__).parent / "suites"
Verdict = Literal["OK", "near", "FAIL", "not measured"]
_RATIO = re.compile(r"^(?P<measure>\S+) / (?P<other>\S+)$")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Expected(_Strict):
    """What a measure should be.

    Attributes
    ----------
    value
        Measured before, or a target.
    tolerance
        How far a measurement may be off and is OK; twice as far is near.
    bound
        ``"about"`` for both directions, ``"least"`` or ``"most"`` when only one is a fault.
    """

    value: float
    tolerance: float = Field(default=0.0, ge=0)
    bound: Literal["about", "least", "most"] = "about"

    def verdict(self, measured: float | None) -> Verdict:
        """Return how a measurement compares."""
        if measured is None:
            return "not measured"
        off = abs(measured - self.value)
        if self.bound == "least" and measured >= self.value:
            off = 0.0
        if self.bound == "most" and measured <= self.value:
            off = 0.0
        if off <= self.tolerance + 1e-9:
            return "OK"
        return "near" if off <= 2 * self.tolerance else "FAIL"


class Case(_Strict):
    """One system on one data set.

    Attributes
    ----------
    id
        Name within the suite.
    system
        A module of `benchmarks.systems`.
    data
        A folder under ``--data``, one of the project's own sets (`benchmarks._household.OWN_SETS`),
        or ``scale`` (`rows` documents mixed from real texts).
    settings
        Handed to the system.
    rows
        Documents of the data ``scale``.
    users
        How many users own the rows of ``scale``; every question is asked by one of them.
    passing
        Share of the rows that the filter of a question lets through.
    questions
        Ask at most so many, spread over all.
    categories
        Ask only questions of these categories.
    k
        Hits asked for when time is measured.
    reopen
        Measure opening the store anew in a fresh process as well.
    load
        Measure single writes, many searches at a time and held-up loops as well.
    expect
        Measure to expected value. ``"p50_ms / floor-10k"`` is the ratio to another case's.
    """

    id: str
    system: str
    data: str
    settings: dict[str, Any] = Field(default_factory=dict)
    rows: int | None = Field(default=None, ge=1)
    users: int = Field(default=1, ge=1)
    passing: float = Field(default=1.0, gt=0, le=1)
    questions: int | None = Field(default=None, ge=1)
    categories: list[str] | None = None
    k: int = Field(default=10, ge=1, le=1000)
    reopen: bool = False
    load: bool = False
    expect: dict[str, Expected] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _rows_of_scale(self) -> Case:
        if (self.data == "scale") != (self.rows is not None):
            raise ValueError("'rows' belongs to the data 'scale', and only to it")
        return self


class Suite(_Strict):
    """Cases that are run and shown together."""

    title: str
    about: str
    case: list[Case] = Field(min_length=1)

    @model_validator(mode="after")
    def _names(self) -> Suite:
        names = [case.id for case in self.case]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two cases are called {name!r}")
        for case in self.case:
            for measure in case.expect:
                ratio = ratio_of(measure)
                if ratio is not None and ratio[1] not in names:
                    raise ValueError(f"{case.id}: {measure!r} names no case of this suite")
        return self


def ratio_of(measure: str) -> tuple[str, str] | None:
    """Return measure and other case of a ratio such as ``"p50_ms / floor"``, None for others."""
    found = _RATIO.match(measure)
    return (found["measure"], found["other"]) if found else None


def suite_names() -> list[str]:
    """Return the names of the suites that come with the project."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_suite(name: str) -> Suite:
    """Read a suite by name or by the path of a file.

    Raises
    ------
    DataError
        There is none of that name, or something in it cannot be used.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        return Suite.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        known = ", ".join(suite_names())
        raise DataError(f"there is no suite {name!r}; there are {known}, or give a file") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML: {error}") from None
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise DataError(f"{path} cannot be used: {faults}") from None
