"""Every example in the library's texts is run, and every module can be imported by itself."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import agentmem

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(agentmem.__path__, prefix="agentmem.")
)


def test_the_modules_of_all_three_folders_are_found() -> None:
    assert {"agentmem.errors", "agentmem.backends.base", "agentmem.models.base"} <= {*MODULES}


@pytest.mark.parametrize("name", ["agentmem", *MODULES])
def test_the_examples_of_a_module_are_true(name: str) -> None:
    if name.startswith("agentmem.models.training."):
        pytest.importorskip("torch", reason="the training itself needs agentmem[train]")
    assert doctest.testmod(importlib.import_module(name)).failed == 0
