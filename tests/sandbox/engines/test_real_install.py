"""Installing the real engine: once, as a whole or not at all; each failure is one line. uv is a script of ours here."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.findings import Problems
from sandbox import state
from sandbox.engines import real
from sandbox.layout import Layout

pytestmark = pytest.mark.process

PYTHON = """#!/bin/sh
echo "python $1" >> "{log}"
case "$1" in
  -c) exit 0;;
  *) mkdir -p "$3"; echo weights > "$3/model.safetensors";;
esac
"""
UV = """#!/bin/sh
echo "uv $1" >> "{log}"
if [ "$1" = venv ]; then
  for last; do :; done
  mkdir -p "$last/bin" "$last/lib/python3.11/site-packages"
  cp "{python}" "$last/bin/python"
fi
{then}
"""


class Cache:
    """A layout with a cache of its own, and what was called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layout = Layout(home=folder / "home", cache=folder / "cache", repository=folder)
        self.log = folder / "calls"
        self._python, self._uv = folder / "python", folder / "uv"
        self._python.write_text(PYTHON.format(log=self.log))
        self._python.chmod(0o755)
        self.said: list[str] = []
        self.uv("")
        monkeypatch.setattr(real, "_uv", lambda: str(self._uv))
        monkeypatch.setattr(state, "need_space", lambda *_: None)

    def uv(self, then: str) -> None:
        """What uv does in the end."""
        self._uv.write_text(UV.format(log=self.log, python=self._python, then=then))
        self._uv.chmod(0o755)

    def ensure(self) -> None:
        real.ensure(self.layout, self.said.append)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def left(self) -> list[str]:
        return sorted(path.name for path in self.layout.cache.iterdir() if path.is_dir())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    return Cache(tmp_path, monkeypatch)


ALL = ["uv venv", "uv pip", "python -c", f"python {Path(real.__file__).with_name('model.py')}"]
WHOLE = ["models", f"vllm-{real.VERSION}"]


def test_environment_and_model_are_made_once(cache: Cache) -> None:
    assert not real.ready(cache.layout)
    cache.ensure()
    assert (real.ready(cache.layout), cache.calls(), cache.left()) == (True, ALL, WHOLE)
    hub = cache.layout.models / "hub" / "models--HuggingFaceTB--SmolLM2-135M-Instruct"
    revision = (hub / "refs" / "main").read_text()
    assert (hub / "snapshots" / revision / "model.safetensors").read_text() == "weights\n"
    assert len(revision) == 40
    cache.ensure()
    assert cache.calls() == ALL


def test_changed_sources_make_both_anew(cache: Cache) -> None:
    cache.ensure()
    (cache.layout.models / ".address").write_text("of other sources")
    cache.ensure()
    assert cache.calls() == [*ALL, ALL[-1]], "the environment is still good"


@pytest.mark.parametrize(
    ("then", "line"),
    [
        (
            "echo 'error: Failed to fetch' >&2; exit 2",
            "error: engine: making the environment: error: Failed to fetch; "
            "run the same command again, or use --engine fake",
        ),
        (
            "echo 'write: No space left on device (os error 28)' >&2; exit 2",
            "error: engine: making the environment: no space left on this file system; "
            "free some space, or set SPECULATION_CACHE and UV_CACHE_DIR",
        ),
        (
            "echo 'error sending request for url' >&2; exit 2",
            "error: engine: making the environment: error sending request for url; "
            "the Python package index must be reachable once; then run the same command again",
        ),
        (
            "exit 3",
            "error: engine: making the environment: it ended with status 3 and no message; "
            "run the same command again, or use --engine fake",
        ),
    ],
)
def test_a_failure_is_one_line_and_leaves_nothing(cache: Cache, then: str, line: str) -> None:
    cache.uv(then)
    with pytest.raises(Problems) as caught:
        cache.ensure()
    assert (str(caught.value), cache.left()) == (line, [])
    cache.uv("")
    cache.ensure()
    assert real.ready(cache.layout)


def test_ctrl_c_ends_the_step_and_leaves_nothing(cache: Cache) -> None:
    cache.uv('[ "$1" = venv ] || { kill -INT $PPID; exec sleep 60; }')
    with pytest.raises(KeyboardInterrupt):
        cache.ensure()
    assert cache.left() == []
    cache.uv("")
    cache.ensure()
    assert real.ready(cache.layout)


def test_a_killed_installation_is_cleared_away(cache: Cache) -> None:
    (cache.layout.cache / f".making-vllm-{real.VERSION}" / "half").mkdir(parents=True)
    cache.ensure()
    assert cache.left() == WHOLE


def test_of_two_at_once_one_installs_and_the_other_waits(cache: Cache) -> None:
    cache.uv("sleep 0.3")
    threads = [threading.Thread(target=cache.ensure) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert cache.calls() == ALL
    assert "engine: another command is installing it: waiting" in cache.said


def test_a_machine_without_the_packages_is_told_so(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(Problems) as caught:
        cache.ensure()
    assert str(caught.value) == "error: engine: riscv64: the pinned packages are for x86_64; use --engine fake"


def test_the_engine_gets_its_environment_and_stays_on_loopback(cache: Cache) -> None:
    folder = cache.layout.vllm(real.VERSION)
    given = {"PYTHONPATH": f"/loopback:{cache.layout.repository}", "HF_TOKEN": "t", "VLLM_CPU_KVCACHE_SPACE": "2"}
    start = real.command(cache.layout, ["--model=m", "--host", "127.1.0.5"], given)
    assert start.argv == (
        f"{folder}/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model=m",
        "--host",
        "127.1.0.5",
    )
    assert start.env == {
        "LD_PRELOAD": f"{folder}/lib/libiomp5.so",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": f"{folder}/cache",
        "HF_HOME": str(cache.layout.models),
        "HF_HUB_OFFLINE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOOPBACK_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": "/loopback",
        "HF_TOKEN": "t",
    }


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("0.31.0", "error: engine: v0.31.0: only 0.32.0 is real here; use its tag, or --engine fake"),
        ("0.32.0", "error: engine: 0.32.0: it is not installed; run `python -m sandbox up --engine real`"),
    ],
)
def test_a_container_that_cannot_have_it_ends_with_one_line(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, version: str, says: str
) -> None:
    monkeypatch.setenv("ENGINE_VERSION", version)
    monkeypatch.setenv("SPECULATION_CACHE", str(cache.layout.cache))
    with pytest.raises(SystemExit, match=r"^error: engine") as caught:
        real.main()
    assert str(caught.value) == says
