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

# One object on a Kubernetes provider: as anybody would write it, and without the typed classes, which take longer to
# import than all else here.
_SMALLEST = {
    "typed": """
import pulumi, pulumi_kubernetes as k8s
provider = k8s.Provider("only", kubeconfig=open(pulumi.Config().require("kubeconfig")).read())
k8s.core.v1.ConfigMap("only", opts=pulumi.ResourceOptions(provider=provider))
""",
    "untyped": """
import importlib.metadata, pulumi, pulumi_kubernetes
provider = pulumi_kubernetes.Provider("only", kubeconfig=open(pulumi.Config().require("kubeconfig")).read())
manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "only"}, "data": {}}
version = importlib.metadata.version("pulumi-kubernetes")
options = pulumi.ResourceOptions(provider=provider, version=version)
pulumi.CustomResource("kubernetes:core/v1:ConfigMap", "only", manifest, options)
""",
}
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
        programs = {"ours": (layout.repository, env, "local")}
        programs |= {kind: _smallest(Path(made) / kind, layout, env) for kind in _SMALLEST}
        seconds: dict[str, list[float]] = {kind: [] for kind in programs}
        for number in range(rounds + 1):
            found = {
                kind: _pulumi(["preview", "--stack", stack], folder, own)
                for kind, (folder, own, stack) in programs.items()
            }
            if number:  # the first round fills the caches
                for kind, value in found.items():
                    seconds[kind].append(value)
            shown = ", ".join(f"{kind} {value:.2f} s" for kind, value in found.items())
            print(f"preview {number}/{rounds}: {shown}", flush=True)
    yield "`pulumi preview --stack local`, nothing changed (median)", statistics.median(seconds["ours"])
    for kind in _SMALLEST:
        ratios = [a / b for a, b in zip(seconds["ours"], seconds[kind], strict=True)]
        yield f"preview of one {kind} object (median)", statistics.median(seconds[kind])
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}, {rounds} pairs"
        yield "ratio to it, pair by pair (median)", f"{statistics.median(ratios):.2f} ({spread})"


def _smallest(folder: Path, layout: Layout, env: Mapping[str, str]) -> tuple[Path, dict[str, str], str]:
    """A project with one of the smallest programs: its folder, its environment and its stack."""
    folder.mkdir()
    (folder / "__main__.py").write_text(_SMALLEST[folder.name])
    (folder / "Pulumi.yaml").write_text(_PROJECT.format(virtualenv=layout.repository / ".venv"))
    own = {**env, "PULUMI_BACKEND_URL": folder.as_uri()}
    _pulumi(["stack", "init", "only"], folder, own)
    _pulumi(["config", "set", "kubeconfig", str(layout.workload.kubeconfig), "--stack", "only"], folder, own)
    return folder, own, "only"


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
