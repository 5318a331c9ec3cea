"""Minimal CustomResourceDefinitions for what charts would have brought: shapes loose, defaults and status where readers
rely on them.

Fields are not checked beyond their type, so a manifest that the real schema refuses may pass here. Defaults are those
that the API server fills in with the real schema (seen in what Modelplane v0.3.1 composed).
"""

from __future__ import annotations

from typing import Any

from sandbox.functions.model import Manifest

Schema = dict[str, Any]

GATEWAY_GROUP = "gateway.networking.k8s.io"
# Resources of the Gateway API's standard channel v1.5: (plural, kind, scope, versions, stored version last).
_GATEWAY_API = (
    ("backendtlspolicies", "BackendTLSPolicy", "Namespaced", ("v1",)),
    ("gatewayclasses", "GatewayClass", "Cluster", ("v1",)),
    ("gateways", "Gateway", "Namespaced", ("v1",)),
    ("grpcroutes", "GRPCRoute", "Namespaced", ("v1",)),
    ("httproutes", "HTTPRoute", "Namespaced", ("v1",)),
    ("listenersets", "ListenerSet", "Namespaced", ("v1",)),
    ("referencegrants", "ReferenceGrant", "Namespaced", ("v1beta1",)),
    ("tlsroutes", "TLSRoute", "Namespaced", ("v1",)),
)


def gateway_api() -> dict[str, Manifest]:
    """The Gateway API's CRDs by name."""
    schemas = {"GatewayClass": _gateway_class(), "HTTPRoute": _http_route()}
    found = {}
    for plural, kind, scope, versions in _GATEWAY_API:
        crd = _crd(GATEWAY_GROUP, plural, kind, scope, versions, schemas.get(kind, _open_object()))
        # The API server demands this of every CRD in a *.k8s.io group.
        approval = "https://github.com/kubernetes-sigs/gateway-api/pull/2997"
        crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
        found[crd["metadata"]["name"]] = crd
    return found


def inference_extension() -> dict[str, Manifest]:
    """The Gateway API Inference Extension's CRDs by name, as Modelplane's serving stack composes them."""
    pool = _open_object()
    pool["properties"]["spec"] = _object(endpointPickerRef=_object(group=_default(""), kind=_default("Service")))
    crds = [
        _crd("inference.networking.k8s.io", "inferencepools", "InferencePool", "Namespaced", ("v1",), pool),
        _crd(
            "inference.networking.x-k8s.io",
            "inferencepools",
            "InferencePool",
            "Namespaced",
            ("v1alpha2",),
            _open_object(),
        ),
        _crd(
            "inference.networking.x-k8s.io",
            "inferenceobjectives",
            "InferenceObjective",
            "Namespaced",
            ("v1alpha2",),
            _open_object(),
        ),
    ]
    approval = "https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/1173"
    for crd in crds:
        if not crd["spec"]["group"].endswith("x-k8s.io"):
            crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    return {crd["metadata"]["name"]: crd for crd in crds}


def from_charts() -> dict[str, Manifest]:
    """CRDs that charts would bring, by name: those used here, and one by which readers tell that a chart is there."""
    used = {f"{plural}.{GATEWAY_GROUP}" for plural in ("gatewayclasses", "gateways", "httproutes")}
    crds = [
        _crd("gateway.envoyproxy.io", "envoyproxies", "EnvoyProxy", "Namespaced", ("v1alpha1",), _open_object()),
        _crd("cert-manager.io", "certificates", "Certificate", "Namespaced", ("v1",), _open_object()),
        _crd("monitoring.coreos.com", "podmonitors", "PodMonitor", "Namespaced", ("v1",), _open_object()),
    ]
    return {
        **{name: crd for name, crd in gateway_api().items() if name in used},
        **{c["metadata"]["name"]: c for c in crds},
    }


def _crd(group: str, plural: str, kind: str, scope: str, versions: tuple[str, ...], schema: Schema) -> Manifest:  # noqa: PLR0917
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in versions
            ],
        },
    }


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}


def _open_object() -> Schema:
    return {"type": "object", "properties": {"spec": _object(), "status": _object()}}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _default(value: str | int) -> Schema:
    return {"type": "integer" if isinstance(value, int) else "string", "default": value}


def _gateway_class() -> Schema:
    pending = {
        "type": "Accepted",
        "status": "Unknown",
        "reason": "Pending",
        "message": "Waiting for controller",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }
    schema = _open_object()
    conditions = _list({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    schema["properties"]["status"] = _object(conditions={**conditions, "default": [pending]}) | {"default": {}}
    return schema


def _http_route() -> Schema:
    parent = _object(group=_default(GATEWAY_GROUP), kind=_default("Gateway"))
    backend = _object(group=_default(""), kind=_default("Service"), weight=_default(1))
    path = _object(type=_default("PathPrefix"), value=_default("/"))
    rule = _object(backendRefs=_list(backend), matches=_list(_object(path=path)))
    schema = _open_object()
    schema["properties"]["spec"] = _object(parentRefs=_list(parent), rules=_list(rule))
    return schema
