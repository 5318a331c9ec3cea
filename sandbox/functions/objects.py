"""provider-kubernetes Objects and Crossplane Usages, as Modelplane composes them."""

from __future__ import annotations

from sandbox.functions.model import Manifest

OBJECT_API = "kubernetes.m.crossplane.io/v1alpha1"

# Readiness queries on the object that lives on the workload cluster.
AVAILABLE = (
    'has(object.status.conditions) && object.status.conditions.exists(c, c.type == "Available" && c.status == "True")'
)
HAS_ADDRESS = "has(object.status.addresses) && object.status.addresses.size() > 0"


def remote(
    manifest: Manifest,
    provider_config: str,
    *,
    provider_config_kind: str = "ClusterProviderConfig",
    ready_when: str | None = None,
    labels: dict[str, str] | None = None,
    metadata: Manifest | None = None,
) -> Manifest:
    """An Object that keeps `manifest` on the workload cluster. ready_when: CEL query; None: ready once created."""
    readiness: Manifest = {"policy": "SuccessfulCreate"}
    if ready_when is not None:
        readiness = {"policy": "DeriveFromCelQuery", "celQuery": ready_when}
    meta = dict(metadata or {})
    if labels:
        meta["labels"] = labels
    return {
        "apiVersion": OBJECT_API,
        "kind": "Object",
        **({"metadata": meta} if meta else {}),
        "spec": {
            "forProvider": {"manifest": manifest},
            "providerConfigRef": {"kind": provider_config_kind, "name": provider_config},
            "readiness": readiness,
            # Modelplane leaves it to polling (every 30 s until ready); here a person waits for each state.
            "watch": ready_when is not None,
        },
    }


def provider_config(kind: str, name: str, secret: Manifest, namespace: str | None = None) -> Manifest:
    """A (Cluster)ProviderConfig of provider-kubernetes that reads a kubeconfig. secret: {namespace, name, key}."""
    return {
        "apiVersion": OBJECT_API,
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"credentials": {"source": "Secret", "secretRef": secret}},
    }


def usage(of: Manifest, by: Manifest) -> Manifest:
    """A Usage: `of` cannot be deleted while `by` exists, and a refused deletion is repeated afterwards."""
    return {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "spec": {"of": of, "by": by, "replayDeletion": True},
    }


def object_with(label: str, value: str) -> Manifest:
    """One side of a Usage: the Object of the same composite that carries this label."""
    return {
        "apiVersion": OBJECT_API,
        "kind": "Object",
        "resourceSelector": {"matchControllerRef": True, "matchLabels": {label: value}},
    }
