"""How long the sandbox and a preview take on this machine: `make measure`, on an idle one, with the binaries in place.

It ends the sandbox of this checkout, starts it again and leaves it up. The result is the table of docs/performance.md.
A preview is compared with one of the smallest program on the same SDKs, in turns, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from sandbox import pulumi_home
from sandbox.layout import Layout

# One object of the Kubernetes SDK, untyped: its typed classes take longer to import than all else here.
_SMALLEST = """
import pulumi, pulumi_kubernetes
provider = pulumi_kubernetes.Provider("only", kubeconfig=open(pulumi.Config().require("kubeconfig")).read())
pulumi_kubernetes.apiextensions.CustomResource(
    "only", api_version="apps/v1", kind="ControllerRevision", metadata={"name": "only"}, others={"revision": 1},
    opts=pulumi.ResourceOptions(provider=provider),
)
"""
_PROJECT = """
name: smallest
runtime: {{name: python, options: {{virtualenv: {virtualenv}}}}}
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.sandbox", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="previews of each program (default 7)")
    rounds = parser.parse_args(argv).rounds
    layout = Layout.from_env()
    rows = [
        *_starts(layout),
        *_previews(layout, rounds),
        ("`make down` (stack destroyed, all ended)", _sandbox("down")),
    ]
    print(f"\n{_machine()}\n\n| what | time |\n|---|---|")
    for what, value in rows:
        print(f"| {what} | {value if isinstance(value, str) else f'{value:.1f} s'} |")
    return 0


def _starts(layout: Layout) -> Iterator[tuple[str, float | str]]:
    _sandbox("down")
    yield "both clusters answer, nodes ready (`sandbox up --only clusters`)", _sandbox("up", "--only", "clusters")
    _sandbox("down")
    total = _sandbox("local")
    engine = _engine_load(layout)
    yield "`make local` from a stopped sandbox", total
    yield "of this, the engine loads itself", engine
    yield "everything else", total - engine
    yield "`make local` again, nothing changed", _sandbox("local")


def _previews(layout: Layout, rounds: int) -> Iterator[tuple[str, float | str]]:
    env = pulumi_home.environment(layout)
    with tempfile.TemporaryDirectory(dir=layout.home) as made:
        smallest = Path(made)
        (smallest / "__main__.py").write_text(_SMALLEST)
        (smallest / "Pulumi.yaml").write_text(_PROJECT.format(virtualenv=layout.repository / ".venv"))
        env_smallest = {**env, "PULUMI_BACKEND_URL": smallest.as_uri()}
        _pulumi(["stack", "init", "only"], smallest, env_smallest)
        kubeconfig = str(layout.workload.kubeconfig)
        _pulumi(["config", "set", "kubeconfig", kubeconfig, "--stack", "only"], smallest, env_smallest)
        ours, theirs = [], []
        for number in range(rounds + 1):
            pair = (
                _pulumi(["preview", "--stack", "local"], layout.repository, env),
                _pulumi(["preview", "--stack", "only"], smallest, env_smallest),
            )
            if number:  # the first pair fills the caches
                ours.append(pair[0])
                theirs.append(pair[1])
            print(f"preview {number}/{rounds}: {pair[0]:.2f} s, smallest program {pair[1]:.2f} s", flush=True)
    yield "`pulumi preview --stack local`, nothing changed (median)", statistics.median(ours)
    yield "preview of a program with one resource (median)", statistics.median(theirs)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {rounds} pairs)"
    yield "ratio of the two, pair by pair", shown


def _sandbox(*arguments: str) -> float:
    """A command of the sandbox, shown as it runs; its seconds."""
    return _timed([sys.executable, "-m", "sandbox", *arguments], Path.cwd(), os.environ, shown=True)


def _pulumi(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> float:
    return _timed(["pulumi", *arguments, "--non-interactive"], folder, env, shown=False)


def _timed(argv: Sequence[str], folder: Path, env: Mapping[str, str], *, shown: bool) -> float:
    output = None if shown else subprocess.PIPE
    begun = time.monotonic()
    done = subprocess.run(argv, cwd=folder, env=dict(env), stdout=output, stderr=output, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
    return seconds


def _engine_load(layout: Layout) -> float:
    """Seconds from the start of the engine's container until its pod was ready (the API gives whole seconds)."""
    command = ["kubectl", "get", "pods", "-n", "default", "-l", "modelplane.ai/serving", "-o", "json"]
    env = {**pulumi_home.environment(layout), "KUBECONFIG": str(layout.workload.kubeconfig)}
    pods = json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)["items"]
    (pod,) = (pod for pod in pods if any(c["name"] == "engine" for c in pod["spec"]["containers"]))
    (engine,) = (status for status in pod["status"]["containerStatuses"] if status["name"] == "engine")
    (ready,) = (found for found in pod["status"]["conditions"] if found["type"] == "Ready")
    began = datetime.fromisoformat(engine["state"]["running"]["startedAt"])
    return (datetime.fromisoformat(ready["lastTransitionTime"]) - began).total_seconds()


def _machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
