"""A few requests to the control plane's API server: server-side apply of any manifest, status included."""

from __future__ import annotations

import json
import ssl
from typing import Any

import httpx

from sandbox.layout import ClusterLayout

Manifest = dict[str, Any]
FIELD_MANAGER = "sandbox"
# kind: (path of its API group and version, plural, namespaced)
_PLURALS: dict[str, tuple[str, bool]] = {
    "Namespace": ("namespaces", False),
    "Secret": ("secrets", True),
    "Deployment": ("deployments", True),
    "CustomResourceDefinition": ("customresourcedefinitions", False),
    "ValidatingWebhookConfiguration": ("validatingwebhookconfigurations", False),
    "CompositeResourceDefinition": ("compositeresourcedefinitions", False),
    "Composition": ("compositions", False),
    "Configuration": ("configurations", False),
    "Function": ("functions", False),
    "FunctionRevision": ("functionrevisions", False),
}


class ApiError(RuntimeError):
    """The API server refused a request; the text is its own."""


class Api:
    """The API server of a cluster, as its admin. A context manager."""

    def __init__(self, cluster: ClusterLayout) -> None:
        context = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
        context.load_cert_chain(cluster.pki / "admin.crt", cluster.pki / "admin.key")
        self._client = httpx.Client(base_url=cluster.server, verify=context, timeout=30, trust_env=False)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def apply(self, manifest: Manifest, *, status: bool = False) -> Manifest:
        """Server-side apply, taking over fields of others. status: apply the status instead of the rest."""
        path = _path(manifest) + ("/status" if status else "")
        response = self._client.patch(
            path,
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            headers={"Content-Type": "application/apply-patch+yaml"},
            content=json.dumps(manifest),
        )
        return _checked(response)

    def get(self, kind: str, api_version: str, name: str, namespace: str = "") -> Manifest | None:
        """The object, or None."""
        meta = {"name": name, "namespace": namespace}
        response = self._client.get(_path({"apiVersion": api_version, "kind": kind, "metadata": meta}))
        return None if response.status_code == httpx.codes.NOT_FOUND else _checked(response)

    def all_true(self, kind: str, api_version: str, condition: str) -> bool:
        """Whether there are objects of a cluster-scoped kind and each has the condition True for its generation."""
        items = _checked(self._client.get(f"{_prefix(api_version)}/{_PLURALS[kind][0]}"))["items"]
        return bool(items) and all(_is_true(item, condition) for item in items)


def _is_true(item: Manifest, condition: str) -> bool:
    generation = item["metadata"]["generation"]
    return any(
        found["type"] == condition
        and found["status"] == "True"
        and found.get("observedGeneration", generation) == generation
        for found in item.get("status", {}).get("conditions", [])
    )


def _prefix(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _path(manifest: Manifest) -> str:
    plural, namespaced = _PLURALS[manifest["kind"]]
    meta = manifest["metadata"]
    scope = f"/namespaces/{meta['namespace']}" if namespaced else ""
    return f"{_prefix(manifest['apiVersion'])}{scope}/{plural}/{meta['name']}"


def _checked(response: httpx.Response) -> Manifest:
    if response.is_success:
        document: Manifest = response.json()
        return document
    try:
        message = response.json()["message"]
    except (ValueError, KeyError):
        message = response.text
    raise ApiError(f"{response.request.method} {response.request.url.path}: {response.status_code}: {message}")
