"""ServingStack: what serving needs on a workload cluster, through provider-kubernetes.

Modelplane installs eight Helm charts. Here Objects bring what later parts of this stack meet of them: CRDs, namespaces
and what the NVIDIA DRA driver publishes, a DeviceClass and a ResourceSlice with one L4. As with the real driver,
whether a slice appears has no part in the stack's readiness, and none appears when `nvidiaDriverRoot` is not where the
node has its driver.
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
    desired = Desired()
    name = stack_provider_config_name(observed.name)
    kubeconfig = next(secret for secret in observed.spec["secrets"] if secret["type"] == "Kubeconfig")
    secret = {"namespace": observed.namespace, "name": kubeconfig["name"], "key": kubeconfig["key"]}
    config = provider_config("ProviderConfig", name, secret, observed.namespace)
    desired.add(PROVIDER_CONFIG, config, ready=PROVIDER_CONFIG in observed.resources)

    objects = {**_gateway_objects(), **_inference_extension(), **_chart_objects(observed, settings)}
    for key, (manifest, ready_when) in objects.items():
        if _too_early(key, observed):
            continue
        labels = {CONSUMER: key}
        if key in ("gateway", "gateway-class", "gateway-proxy"):
            labels[RESOURCE] = key
        wrapped = remote(manifest, name, provider_config_kind="ProviderConfig", ready_when=ready_when, labels=labels)
        desired.add(key, wrapped, ready=key == SLICE or observed.is_true(key))
    _add_usages(desired, observed, name)

    gateway = dig(observed.resources.get("gateway"), "status", "atProvider", "manifest", "status", "addresses")
    if gateway:
        desired.status = {"gateway": {"address": gateway[0]["value"]}}
    return desired


def _too_early(key: str, observed: Observed) -> bool:
    """Whether an Object would only fail now and then wait for its next try."""
    if key in observed.resources:
        return False
    return PROVIDER_CONFIG not in observed.resources or not all(observed.is_true(need) for need in _NEEDS.get(key, ()))


def _add_usages(desired: Desired, observed: Observed, provider_config_name: str) -> None:
    """Usages of what exists: a Usage that finds neither side tries again with growing pauses."""
    of = {"apiVersion": OBJECT_API, "kind": "ProviderConfig", "resourceRef": {"name": provider_config_name}}
    for key, manifest in list(desired.resources.items()):
        if manifest["kind"] == "Object" and key in observed.resources:
            desired.add(f"usage-pc-{key}", usage(of, object_with(CONSUMER, key)), ready=True)
    for key, (used, of_label), (user, by_label) in _ORDER:
        if used in observed.resources and user in observed.resources:
            order = usage(object_with(of_label, used), object_with(by_label, user))
            desired.add(f"usage-{key}", order, ready=True)


def _crd_key(name: str) -> str:
    return f"{CHART}crd-{name}"


_CLASSES = _crd_key(f"gatewayclasses.{crds.GATEWAY_GROUP}")
_GATEWAYS = _crd_key(f"gateways.{crds.GATEWAY_GROUP}")
_PROXIES = _crd_key("envoyproxies.gateway.envoyproxy.io")
_DRA_NAMESPACE_KEY = f"{CHART}namespace-dra-driver"
# What has to be there before it: on a real cluster the charts race, and Objects fail until they have won.
_NEEDS = {
    "gateway-class": (_CLASSES,),
    "gateway-proxy": (_PROXIES, "gateway-namespace"),
    "gateway": (_GATEWAYS, "gateway-namespace"),
    "dra-driver-critical-pods-quota": (_DRA_NAMESPACE_KEY,),
}
# What is deleted after what: (name, (what stays, its label), (until this is gone, its label)). The last three stand for
# the order of the charts.
_ORDER = (
    ("gateway-class-by-gateway", ("gateway-class", RESOURCE), ("gateway", RESOURCE)),
    (f"{_CLASSES}-by-gateway-class", (_CLASSES, CONSUMER), ("gateway-class", RESOURCE)),
    (f"{_GATEWAYS}-by-gateway", (_GATEWAYS, CONSUMER), ("gateway", RESOURCE)),
    (f"{_PROXIES}-by-gateway-proxy", (_PROXIES, CONSUMER), ("gateway-proxy", RESOURCE)),
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
        _crd_key(name): (crd, None) for name, crd in crds.from_charts().items()
    }
    objects[_DRA_NAMESPACE_KEY] = (_namespace(DRA_NAMESPACE), None)
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
