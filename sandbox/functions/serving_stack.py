"""ServingStack: what serving needs on a workload cluster, through provider-kubernetes.

Modelplane installs eight Helm charts. Here Objects bring what later parts of this stack meet of them: CRDs, namespaces and what the
NVIDIA DRA driver publishes, a DeviceClass and a ResourceSlice with one L4. As with the real driver, whether a slice appears has no part
in the stack's readiness, and none appears when `nvidiaDriverRoot` is not where the node has its driver.
"""

from __future__ import annotations

from modelplane.names import SYSTEM_NAMESPACE, stack_provider_config_name
from sandbox.functions import crds
from sandbox.functions.dra import device_class, resource_slice
from sandbox.functions.model import Desired, Manifest, Observed, Settings, dig
from sandbox.functions.objects import HAS_ADDRESS, OBJECT_API, object_with, provider_config, remote, usage

PROVIDER_CONFIG = "provider-config-kubernetes"
DRA_NAMESPACE = "dra-driver-nvidia-gpu"
CONSUMER = "modelplane.ai/usage-consumer"
RESOURCE = "modelplane.ai/resource"
# The stand-ins for charts carry this prefix in their composed names, which Modelplane's own never have.
CHART = "chart-"
SLICE = f"{CHART}resource-slice"


def compose(observed: Observed, settings: Settings) -> Desired:
    desired = Desired(ttl=2.0)
    name = stack_provider_config_name(observed.name)
    kubeconfig = next(secret for secret in observed.spec["secrets"] if secret["type"] == "Kubeconfig")
    secret = {"namespace": observed.namespace, "name": kubeconfig["name"], "key": kubeconfig["key"]}
    config = provider_config("ProviderConfig", name, secret, observed.namespace)
    desired.add(PROVIDER_CONFIG, config, ready=PROVIDER_CONFIG in observed.resources)

    objects = {**_gateway_objects(), **_inference_extension(), **_chart_objects(observed, settings)}
    for key, (manifest, ready_when) in objects.items():
        labels = {CONSUMER: key}
        if key in ("gateway", "gateway-class", "gateway-proxy"):
            labels[RESOURCE] = key
        wrapped = remote(manifest, name, provider_config_kind="ProviderConfig", ready_when=ready_when, labels=labels)
        desired.add(key, wrapped, ready=key == SLICE or observed.is_true(key))
        by = object_with(CONSUMER, key)
        of = {"apiVersion": OBJECT_API, "kind": "ProviderConfig", "resourceRef": {"name": name}}
        desired.add(f"usage-pc-{key}", usage(of, by), ready=True)
    for key, of_label, by_label in _ORDER:
        desired.add(f"usage-{key}", usage(object_with(*of_label), object_with(*by_label)), ready=True)

    gateway = dig(observed.resources.get("gateway"), "status", "atProvider", "manifest", "status", "addresses")
    if gateway:
        desired.status = {"gateway": {"address": gateway[0]["value"]}}
    return desired


def crd_key(name: str) -> str:
    return f"{CHART}crd-{name}"


# What is deleted after what: (key, what stays, until what is gone). The last three stand for the order of the charts.
_ORDER = (
    ("gateway-class-by-gateway", (RESOURCE, "gateway-class"), (RESOURCE, "gateway")),
    *(
        (f"{CHART}{plural}-by-{key}", (CONSUMER, f"{CHART}crd-{plural}.{group}"), (RESOURCE, key))
        for plural, group, key in (
            ("gatewayclasses", crds.GATEWAY_GROUP, "gateway-class"),
            ("gateways", crds.GATEWAY_GROUP, "gateway"),
            ("envoyproxies", "gateway.envoyproxy.io", "gateway-proxy"),
        )
    ),
)


def _gateway_objects() -> dict[str, tuple[Manifest, str | None]]:
    parameters = {
        "group": "gateway.envoyproxy.io",
        "kind": "EnvoyProxy",
        "name": "inference-gateway",
        "namespace": SYSTEM_NAMESPACE,
    }
    gateway_class = {
        "apiVersion": f"{crds.GATEWAY_GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "envoy"},
        "spec": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller", "parametersRef": parameters},
    }
    meta = {"name": "inference-gateway", "namespace": SYSTEM_NAMESPACE}
    service = {"type": "Kubernetes", "kubernetes": {"envoyService": {"externalTrafficPolicy": "Cluster"}}}
    proxy = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyProxy",
        "metadata": meta,
        "spec": {"provider": service},
    }
    listener = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    gateway = {
        "apiVersion": f"{crds.GATEWAY_GROUP}/v1",
        "kind": "Gateway",
        "metadata": meta,
        "spec": {"gatewayClassName": "envoy", "listeners": [listener]},
    }
    return {
        "gateway-namespace": (_namespace(SYSTEM_NAMESPACE), None),
        "gateway-class": (gateway_class, None),
        "gateway-proxy": (proxy, None),
        "gateway": (gateway, HAS_ADDRESS),
        "dra-driver-critical-pods-quota": (_quota(), None),
    }


def _inference_extension() -> dict[str, tuple[Manifest, str | None]]:
    return {f"gaie-crd-{name}": (crd, None) for name, crd in crds.inference_extension().items()}


def _chart_objects(observed: Observed, settings: Settings) -> dict[str, tuple[Manifest, str | None]]:
    objects: dict[str, tuple[Manifest, str | None]] = {
        crd_key(name): (crd, None) for name, crd in {**crds.gateway_api(), **crds.from_charts()}.items()
    }
    objects[f"{CHART}namespace-dra-driver"] = (_namespace(DRA_NAMESPACE), None)
    objects[f"{CHART}device-class"] = (device_class(), None)
    if observed.spec.get("nvidiaDriverRoot", "/") == settings.driver_root:
        objects[SLICE] = (resource_slice(settings.gpu_node), None)
    return objects


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _quota() -> Manifest:
    classes = ["system-node-critical", "system-cluster-critical"]
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": classes}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "allow-critical-pods", "namespace": DRA_NAMESPACE},
        "spec": {"hard": {"pods": "1000"}, "scopeSelector": {"matchExpressions": [scope]}},
    }
