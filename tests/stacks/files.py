"""Kubeconfigs and configs for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

# Base64 of "certificate"; no test connects with it.
DATA = "Y2VydGlmaWNhdGU="


def kubeconfig(server: str = "https://203.0.113.1:6443", /, **user: Any) -> dict[str, Any]:
    """A kubeconfig with one context `admin`; user: its user's fields, a token without any."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": DATA}}],
        "users": [{"name": "u", "user": user or {"token": "secret-token"}}],
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "admin",
    }


def project(folder: Path) -> Path:
    """A project folder with two kubeconfig files."""
    for name, address in (("control-plane", 1), ("workload", 2)):
        text = yaml.safe_dump(kubeconfig(f"https://203.0.113.{address}:6443"))
        (folder / f"{name}.kubeconfig").write_text(text)
    return folder


def config(**keys: Any) -> dict[str, str]:
    """Config of a stack as Pulumi hands it over: objects as JSON. A key that is not given has a default here; None
    leaves it out.
    """
    existing = {
        "controlPlane": {"kubeconfigFile": "control-plane.kubeconfig"},
        "workload": {"kubeconfigFile": "workload.kubeconfig"},
    }
    given = {"target": "existing", "existing": existing, "recipe": "qwen3-8b-spec", **keys}
    texts = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items() if value is not None
    }
    return {f"speculation:{key}": text for key, text in texts.items()}
