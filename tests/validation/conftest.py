from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.validation.kube_server import KubeServer, serve


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[KubeServer]:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    with serve(folder) as state:
        yield state
