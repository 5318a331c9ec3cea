"""What both clusters hold, seen with kubectl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sandbox.layout import CLUSTERS, ClusterName, Layout
from tests.sandbox.kubectl import Kubectl

# Kinds that come and go by themselves: heartbeats, what is derived from others, and the sandbox's own log files.
PASSING = {
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "logs.kwok.x-k8s.io",
    "componentstatuses",
}


def inventory(layout: Layout) -> set[str]:
    """Every object of both clusters: `<cluster> <kind>/<name>` or `<cluster> <namespace> <kind>/<name>`."""
    return {f"{cluster} {found}" for cluster in CLUSTERS for found in _objects(Kubectl(layout, cluster))}


def _objects(kubectl: Kubectl) -> Iterator[str]:
    kinds = set(kubectl("api-resources", "--verbs=list", "-o", "name").split()) - PASSING
    for item in kubectl.get(",".join(sorted(kinds)), "--all-namespaces", "--ignore-not-found")["items"]:
        namespace = item["metadata"].get("namespace")
        yield f"{namespace + ' ' if namespace else ''}{item['kind']}/{item['metadata']['name']}"


@dataclass
class Changes:
    """What happened to objects of one kind while it was watched: (ADDED | DELETED, name), in order."""

    seen: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def watched(layout: Layout, cluster: ClusterName, *what: str) -> Iterator[Changes]:
    """Changes of objects while the block runs, beginning with those that are there (as ADDED)."""
    kubectl = [str(layout.bin / "kubectl"), f"--kubeconfig={layout.kubeconfig}", f"--context={cluster}"]
    argv = [*kubectl, "get", *what, "--watch", "--output-watch-events", "-o", "json"]
    changes = Changes()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        try:
            yield changes
        finally:
            child.terminate()
            changes.seen += _events(child.stdout.read())


def _events(text: str) -> Iterator[tuple[str, str]]:
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            return  # cut off by the end of the watch
        if event["type"] in ("ADDED", "DELETED"):
            yield event["type"], event["object"]["metadata"]["name"]


def engine_pods(layout: Layout) -> list[dict[str, Any]]:
    """The engines' pods on the workload cluster."""
    found: list[dict[str, Any]] = Kubectl(layout).get("pods", "-l", "modelplane.ai/serving")["items"]
    return found
