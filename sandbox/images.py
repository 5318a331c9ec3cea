"""Which process stands for which container image.

No image is pulled: a reference is matched by its repository, and its tag says the engine's version. What is known:

* `vllm/vllm-openai:vX.Y.Z` (GPU): the fake engine (`python -m sandbox.engines.fake`), since there is no GPU here;
* `vllm/vllm-openai-cpu:vX.Y.Z`: the real engine (`python -m sandbox.engines.real`) when the sandbox's engine file says
  `real`, else the fake one;
* `ghcr.io/llm-d/llm-d-router-endpoint-picker`: a process that waits for its end; it picks nothing and answers nothing;
* `python`: the project's own base interpreter, whatever the tag says, without the project's packages.

Everything else is unknown, which the runner reports as a failed pull.

An engine is told its version (X.Y.Z) in ENGINE_VERSION and its build (cuda or cpu) in ENGINE_DEVICE. It gets
`--host <pod address>` as its last arguments, so that it listens there whatever its defaults are: vLLM binds every
address without it. For code in Python, `runner/loopback/sitecustomize.py` sends what binds to the wildcard address to
the pod's address.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.layout import Layout
from sandbox.runner.references import canonical_reference

# In a container: the directory of the programs that an image brings; /run is fresh in each.
PROGRAMS = Path("/run/image/bin")
# As in the stock images; PROGRAMS stands for what they have in /usr/local/bin.
_PATH = f"{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The address that a Python process of the container binds instead of the wildcard address.
POD_ADDRESS = "SANDBOX_POD_ADDRESS"
_LOOPBACK_ONLY = Path(__file__).with_name("runner") / "loopback"
_ENGINE_MODULE = "vllm.entrypoints.openai.api_server"

_GPU_ENGINE = "docker.io/vllm/vllm-openai"
_CPU_ENGINE = "docker.io/vllm/vllm-openai-cpu"
_PICKER = "ghcr.io/llm-d/llm-d-router-endpoint-picker"
_PYTHON = "docker.io/library/python"


@dataclass(frozen=True)
class Image:
    """What an image brings: entrypoint, default arguments, environment, and programs on PATH (name to shell script)."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = "/"


def find(reference: str, layout: Layout, pod_ip: str) -> Image | None:
    """The image of a reference for a pod with this address; None when nothing here can stand for it."""
    repository, tag = _split(reference)
    if repository == _PYTHON:
        python = _script(_python(), _python_variables(pod_ip))
        return Image(command=("python3",), env=_env(), programs={"python": python, "python3": python})
    if repository == _PICKER:
        wait = _script([_base_interpreter(), "-c", "import signal; signal.pause()"], {})
        return Image(entrypoint=("epp",), env=_env(), programs={"epp": wait})
    if repository in (_GPU_ENGINE, _CPU_ENGINE):
        real = repository == _CPU_ENGINE and engine_kind(layout) == "real"
        device = "cpu" if repository == _CPU_ENGINE else "cuda"
        return _engine("real" if real else "fake", tag, device, layout, pod_ip)
    return None


def engine_kind(layout: Layout) -> str:
    """`real` or `fake`: what vLLM's CPU image is in this sandbox."""
    try:
        return layout.engine_file.read_text().strip() or "real"
    except OSError:
        return "real"


def _engine(module: str, tag: str, device: str, layout: Layout, pod_ip: str) -> Image:
    """vLLM's image: its entrypoint is `vllm serve`; as a command, `python3 -m <its module>` works too."""
    variables = {
        **_python_variables(pod_ip, layout.repository),
        "ENGINE_VERSION": tag.removeprefix("v").partition("-")[0],
        # Which of the two builds the fake one plays: they differ in model runner, log and KV cache.
        "ENGINE_DEVICE": device,
        # The real one finds its environment and model through the layout.
        **layout.env(),
    }
    serve = _script([sys.executable, "-m", f"sandbox.engines.{module}"], variables, after=("--host", pod_ip))
    python = _script(_python(), _python_variables(pod_ip))
    refusal = 'echo "vllm: the sandbox only knows vllm serve" >&2; exit 2'
    vllm = f'#!/bin/sh\n[ "$1" = serve ] || {{ {refusal}; }}\nshift\n{_body(serve)}'
    either = f'#!/bin/sh\nif [ "$1 $2" = "-m {_ENGINE_MODULE}" ]; then\nshift 2\n{_body(serve)}fi\n{_body(python)}'
    programs = {"vllm": vllm, "python": either, "python3": either}
    return Image(("vllm", "serve"), (), _env(), programs, working_dir="/tmp")


def _python() -> Sequence[str]:
    return (_base_interpreter(),)


def _base_interpreter() -> str:
    """The interpreter that the project's environment was made from: a stock image has no packages of ours either."""
    return str(getattr(sys, "_base_executable", sys.executable))


def _python_variables(pod_ip: str, *path: Path) -> dict[str, str]:
    return {POD_ADDRESS: pod_ip, "PYTHONPATH": ":".join(map(str, (_LOOPBACK_ONLY, *path)))}


def _env() -> dict[str, str]:
    # HOME: the machine's directories are read-only in a container, /tmp is its own.
    return {"PATH": _PATH, "HOME": "/tmp", "LANG": "C.UTF-8"}


def _script(argv: Sequence[str], variables: Mapping[str, str], after: Sequence[str] = ()) -> str:
    """A shell script that becomes argv, with the caller's arguments between argv and after."""
    lines = ["#!/bin/sh"]
    for name, value in variables.items():
        if name == "PYTHONPATH":
            # Ours first: it holds the rule that keeps servers on loopback.
            lines.append(f'export PYTHONPATH={shlex.quote(value)}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        else:
            lines.append(f'[ -n "${{{name}+set}}" ] || export {name}={shlex.quote(value)}')
    lines.append(f'exec {shlex.join(argv)} "$@" {shlex.join(after)}'.rstrip())
    return "\n".join(lines) + "\n"


def _body(script: str) -> str:
    return script.partition("\n")[2]


def _split(reference: str) -> tuple[str, str]:
    """Repository and tag of a reference; the tag is "" when a digest stands in its place."""
    name, _, _ = canonical_reference(reference).partition("@")
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return head + slash + last, tag
