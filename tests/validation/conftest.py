from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.validation.engines import Pool
from tests.validation.kube_server import KubeServer, serve


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    engines = Pool(tmp_path_factory.mktemp("engines"))
    yield engines
    engines.close()


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[KubeServer]:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    with serve(folder) as state:
        yield state
