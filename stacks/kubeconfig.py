"""Kubeconfigs as the stack needs them: one context, files inlined, and for the workload cluster nothing that only
this machine has.

The result goes into a Secret that Modelplane's providers read inside the control plane, and into Pulumi's state, so
other contexts and their credentials are left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from engine.findings import Finding

# Inside a kubeconfig: key that names a file -> key that holds its content, and whether that is base64.
FILES = {
    "certificate-authority": ("certificate-authority-data", True),
    "client-certificate": ("client-certificate-data", True),
    "client-key": ("client-key-data", True),
    "tokenFile": ("token", False),
}
# Old forms of logging in that no current client library supports.
UNSUPPORTED_USER = ("auth-provider",)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Kubeconfig:
    """text: JSON, which is YAML too, with one context; context: its name; server: the API server's URL; file: where
    it was read from, None for config text.
    """

    text: str
    context: str
    server: str
    file: Path | None = None


class _Invalid(Exception):  # noqa: N818 - what the file is, not an event
    def __init__(self, why: str, remedy: str, value: object = None) -> None:
        super().__init__(why)
        self.why, self.remedy, self.value = why, remedy, value


def read_kubeconfig_file(name: str, root: Path, context: str | None, key: str) -> Kubeconfig | Finding:
    """The kubeconfig in a file. name: its path, relative to root; key: path of the config value that names it."""
    file = root / Path(name).expanduser()
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        return _finding(
            key,
            name,
            f"cannot be read ({reason.lower()})",
            "give the path of a kubeconfig, relative to the project",
        )
    found = read_kubeconfig(text, context, key, base=file.parent)
    return found if isinstance(found, Finding) else Kubeconfig(found.text, found.context, found.server, file)


def read_kubeconfig(text: str, context: str | None, key: str, *, base: Path | None = None) -> Kubeconfig | Finding:
    """The kubeconfig in a text; base: the directory to which its file references are relative. Its text is never
    echoed.
    """
    try:
        document = yaml.load(text, LOADER)  # a safe loader
    except yaml.YAMLError:
        return _finding(
            key, None, "is not YAML", "give the text of a kubeconfig, as `kubectl config view --raw --minify` prints it"
        )
    try:
        return _select(document, context, base)
    except _Invalid as invalid:
        return _finding(key, invalid.value, invalid.why, invalid.remedy)


def self_contained(kubeconfig: Kubeconfig, key: str) -> list[Finding]:
    """What in a workload kubeconfig works on this machine only: Modelplane's providers have no exec
    plugins.
    """
    user = json.loads(kubeconfig.text)["users"][0]["user"]
    if "exec" in user:
        why = (
            f"logs in with the plugin {user['exec'].get('command')}, which does not exist "
            "inside Modelplane's provider pods"
        )
        remedy = "make a kubeconfig with the token of a ServiceAccount bound to cluster-admin on the workload cluster"
        return [_finding(key, None, why, remedy)]
    if not {"token", "client-certificate-data", "username"} & set(user):
        return [
            _finding(key, None, "holds no credentials", "give one with a ServiceAccount token or a client certificate")
        ]
    return []


def _select(document: object, context: str | None, base: Path | None) -> Kubeconfig:
    if not isinstance(document, dict) or not isinstance(document.get("clusters"), list):
        raise _Invalid(
            "is not a kubeconfig (no clusters)", "give one as `kubectl config view --raw --minify` prints it"
        )
    name = context or document.get("current-context")
    if not name:
        raise _Invalid("names no current-context", "set `context` beside it")
    contexts = _named(document, "contexts", "context")
    if name not in contexts:
        raise _Invalid(
            f"has no such context; it has {', '.join(sorted(contexts)) or 'none'}", "correct `context`", name
        )
    chosen = contexts[name]
    cluster = _named(document, "clusters", "cluster").get(str(chosen.get("cluster")))
    if cluster is None:
        raise _Invalid(f"context {name} names a cluster that it does not hold", "correct the file")
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise _Invalid("its cluster has no server URL", "give one as `kubectl config view --raw --minify` prints it")
    users = _named(document, "users", "user")
    user = users.get(str(chosen.get("user")), {})
    for key in UNSUPPORTED_USER:
        if key in user:
            raise _Invalid(
                f"logs in with `{key}`, which Kubernetes clients no longer support",
                "use a token, a certificate or `exec`",
            )
    selected = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": _inlined(cluster, base)}],
        "users": [{"name": "user", "user": _inlined(user, base)}],
        "contexts": [{"name": str(name), "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": str(name),
    }
    return Kubeconfig(json.dumps(selected, indent=2, sort_keys=True), str(name), server)


def _named(document: Mapping[str, Any], plural: str, key: str) -> dict[str, dict[str, Any]]:
    entries = document.get(plural)
    if not isinstance(entries, list):
        return {}
    return {
        str(e["name"]): e.get(key) or {}
        for e in entries
        if isinstance(e, dict) and isinstance(e.get(key) or {}, dict) and "name" in e
    }


def _inlined(part: Mapping[str, Any], base: Path | None) -> dict[str, Any]:
    result = dict(part)
    for key, (data_key, encoded) in FILES.items():
        reference = result.pop(key, None)
        if not reference or result.get(data_key):
            continue
        file = Path(str(reference)).expanduser()
        if not file.is_absolute():
            if base is None:
                raise _Invalid(
                    f"its {key} is a relative path, and text has no folder",
                    "use kubeconfigFile, or inline it with `--flatten`",
                )
            file = base / file
        try:
            content = file.read_bytes()
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise _Invalid(
                f"its {key} cannot be read ({reason})",
                "correct it, or inline it with `kubectl config view --flatten`",
                str(file),
            ) from None
        result[data_key] = base64.b64encode(content).decode() if encoded else content.decode(errors="replace").strip()
    return result


def _finding(key: str, value: object, why: str, remedy: str) -> Finding:
    return Finding.error(key, value, why, remedy)
