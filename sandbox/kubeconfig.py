"""Kubeconfig files: self-contained (certificates as data), one context for each cluster."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from sandbox.layout import ClusterLayout


def kubeconfig(clusters: Iterable[ClusterLayout], identity: str = "admin") -> str:
    """YAML with a context named like each cluster; the first one is current. identity: stem of a certificate in pki."""
    entries = list(clusters)
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": entries[0].name,
        "clusters": [
            {
                "name": cluster.name,
                "cluster": {"server": cluster.server, "certificate-authority-data": _data(cluster.pki / "ca.crt")},
            }
            for cluster in entries
        ],
        "users": [
            {
                "name": f"{identity}@{cluster.name}",
                "user": {
                    "client-certificate-data": _data(cluster.pki / f"{identity}.crt"),
                    "client-key-data": _data(cluster.pki / f"{identity}.key"),
                },
            }
            for cluster in entries
        ],
        "contexts": [
            {"name": cluster.name, "context": {"cluster": cluster.name, "user": f"{identity}@{cluster.name}"}}
            for cluster in entries
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
