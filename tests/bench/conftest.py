from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def counters_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up pages of these tests do not grow: nothing to wait for."""
    monkeypatch.setattr("bench.scrape._SETTLE_S", 0.0)
