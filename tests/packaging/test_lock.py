"""The lock file pins everything that development and CI install, by hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
ENTRIES = [entry for entry in re.split(r"\n(?=\S)", LOCK) if not entry.startswith("#")]
PINNED = {re.split(r"[=\[ ;]", entry, maxsplit=1)[0] for entry in ENTRIES}


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_every_requirement_is_pinned_with_a_hash() -> None:
    for entry in ENTRIES:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_the_lock_names_no_host() -> None:
    assert "://" not in LOCK
    assert "index-url" not in LOCK


def test_the_lock_holds_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(
            requirement
            for extra, asked in project["project"]["optional-dependencies"].items()
            # Other stores, which only benchmarks compare with, and what trains models.
            if extra not in ("peers", "train")
            for requirement in asked
        ),
        *(
            requirement
            for group in project["dependency-groups"].values()
            for requirement in group
            if isinstance(requirement, str)  # the others include another group
        ),
    ]
    assert {_name(requirement) for requirement in wanted} <= PINNED


def test_no_training_framework_is_installed() -> None:
    assert not PINNED & {"torch", "tensorflow", "jax", "transformers", "sentence-transformers"}


def test_every_dependency_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    for requirement in [*project["dependencies"], *(name for extra in extras for name in extra)]:
        assert ">=" in requirement, requirement
