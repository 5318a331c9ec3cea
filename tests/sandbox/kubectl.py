"""kubectl of a sandbox for tests: manifests in, documents out."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sandbox import binaries
from sandbox.layout import ClusterName, Layout

T = TypeVar("T")


@dataclass(frozen=True)
class Kubectl:
    """One cluster of a sandbox."""

    layout: Layout
    context: ClusterName = "workload"

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        argv = [binaries.installed(self.layout, "kubectl"), f"--kubeconfig={self.layout.kubeconfig}"]
        argv += [f"--context={self.context}", *arguments]
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, manifest: str) -> None:
        self("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)

    def get(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("get", *arguments, "-o", "json"))
        return found

    def names(self, *arguments: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(*arguments)["items"]]

    def set_status(self, kind: str, name: str, status: dict[str, Any], namespace: str = "default") -> None:
        patch = json.dumps({"status": status})
        self("patch", kind, name, f"--namespace={namespace}", "--subresource=status", "--type=merge", "-p", patch)


def eventually(probe: Callable[[], T], seconds: float = 60) -> T:
    """The first true answer of a probe. The limit is for a machine that is busy otherwise."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds} s; last answer: {found!r}"
        time.sleep(0.1)
    return found
