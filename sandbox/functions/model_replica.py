"""ModelReplica: an engine's Deployment and device claim on one cluster, and the route, pool and endpoint picker in
front of it.

Ready follows the engine's Deployment alone: a picker that never starts does not hold it back. No cause of a Pending or
crashing pod is passed on (ModelReady stays False/ModelStarting).
"""

from __future__ import annotations

from sandbox.functions.model import SOON, Desired, Observed, Selector, Settings, dig
from sandbox.functions.picker import compose_picker
from sandbox.functions.workload import compose_engine, serving_key

UNSUPPORTED = "the sandbox composes Standalone engines in Unified serving, without ModelCache"


def compose(observed: Observed, settings: Settings) -> Desired:  # noqa: ARG001
    desired = Desired()
    desired.requires["cluster"] = Selector("InferenceCluster", name=str(observed.spec["clusterName"]))
    provider_config = dig(observed.required_one("cluster"), "status", "providerConfigRef", "name")
    if not provider_config or not _supported(observed):
        message = UNSUPPORTED if provider_config else ""
        desired.lacks("ModelAccepted", "WaitingForCluster", message)
        desired.lacks("ModelReady", "WaitingForModel", message)
        # With nothing composed Crossplane would call the replica ready; Modelplane has that trap only for a moment.
        desired.composite_ready = False
        desired.ttl = SOON
        return desired

    engines = observed.spec["engines"]
    for engine in engines:
        compose_engine(desired, observed.name, engine, provider_config)
    compose_picker(desired, observed.namespace, observed.name, engines, provider_config)

    workloads = [serving_key(engine) for engine in engines]
    accepted = all(dig(observed.resources.get(key), "status", "atProvider", "manifest") for key in workloads)
    serving = all(observed.is_true(key) for key in workloads)
    desired.condition("ModelAccepted", accepted, "Accepted" if accepted else "Deploying")
    starting = "ModelStarting" if accepted else "WaitingForModel"
    desired.condition("ModelReady", serving, "Serving" if serving else starting)
    for key in desired.resources:
        if key in observed.resources and (key not in workloads or observed.is_true(key)):
            desired.ready.add(key)
    return desired


def _supported(observed: Observed) -> bool:
    standalone = all(
        member.get("role", "Standalone") == "Standalone"
        for engine in observed.spec["engines"]
        for member in engine["members"]
    )
    unified = dig(observed.spec, "serving", "mode") in (None, "Unified")
    return standalone and unified and not observed.spec.get("modelCacheRef")
