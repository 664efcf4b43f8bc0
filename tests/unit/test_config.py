"""Settings: sources, order, secrets, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import ConfigurationError, Memory, Settings
from agentmem.config import without_password


def test_the_order_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentmem.toml").write_text('pool = 10\nfused = 20\nreranker = "none"\n')
    monkeypatch.setenv("AGENTMEM_FUSED", "30")
    settings = Settings(reranker="late")
    assert (settings.pool, settings.fused, settings.reranker) == (10, 30, "late")
    assert settings.url == "./agentmem"


def test_a_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text("pool = 7\n")
    monkeypatch.setenv("AGENTMEM_CONFIG", str(tmp_path / "other.toml"))
    assert Settings().pool == 7
    monkeypatch.setenv("AGENTMEM_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigurationError, match=r"missing\.toml"):
        Settings()


def test_values_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="pool"):
        Settings(pool=0)
    with pytest.raises(ConfigurationError, match="tenant"):
        Settings(tenant=" ")
    with pytest.raises(ConfigurationError, match="colour"):
        Settings(colour="blue")
    monkeypatch.setenv("AGENTMEM_DURABILITY", "perhaps")
    with pytest.raises(ConfigurationError, match="durability"):
        Settings()


def test_a_password_in_a_url_does_not_show() -> None:
    assert without_password("oracle://scott:lion@host/s") == "oracle://scott:********@host/s"
    assert without_password("./memory") == "./memory"


async def test_an_unknown_engine_is_refused_without_the_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        await Memory("postgres://scott:lion@host/service").open()
    assert "lion" not in str(caught.value)


def test_no_limit_for_the_token_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_TOKEN_BUDGET", "")
    assert Settings().token_budget is None
