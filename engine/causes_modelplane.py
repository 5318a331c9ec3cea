"""Causes that the conditions of Modelplane's and Crossplane's objects show (type, reason and message)."""

from __future__ import annotations

from engine.cause import Cause

# Modelplane looks at a deployment again after at most a minute.
_RECONCILE_GRACE_S = 90


def _row(id_: str, pattern: str, cause: str, remedy: str, source: str, *, terminal: bool, grace_s: int = 0) -> Cause:
    return Cause(id_, "condition", pattern, cause, remedy, terminal, source, grace_s)


CONDITION_CAUSES: tuple[Cause, ...] = (
    _row(
        "no-clusters",
        r"\bNoClusters\b",
        "no InferenceCluster matches the deployment's clusterSelector",
        "compare its labels with the InferenceCluster's",
        "Modelplane ModelDeployment",
        terminal=True,
        grace_s=_RECONCILE_GRACE_S,
    ),
    _row(
        "insufficient-capacity",
        r"\bInsufficientCapacity\b",
        "no cluster has a ready pool with a free device that satisfies the selector",
        "compare the recipe's selector with the InferenceClass, and see whether other replicas hold the nodes",
        "Modelplane ModelDeployment",
        terminal=True,
        grace_s=_RECONCILE_GRACE_S,
    ),
    _row(
        "invalid-node-selector",
        r"\bInvalidNodeSelector\b",
        "the deployment's device selector is not valid CEL",
        "correct it: the condition's message has the compiler's error",
        "Modelplane ModelDeployment",
        terminal=True,
    ),
    _row(
        "invalid-node-pool",
        r"\bInvalidNodePool\b",
        "a node pool of the InferenceCluster contradicts its InferenceClass",
        "correct the pool: the condition's message says what",
        "Modelplane InferenceCluster",
        terminal=True,
    ),
    _row(
        "waiting-for-classes",
        r"\bWaitingForClasses\b",
        "an InferenceClass that a node pool names does not exist",
        "create it, or correct className",
        "Modelplane InferenceCluster",
        terminal=False,
    ),
    _row(
        "installing",
        r"\b(?:Installing|WaitingForCluster|Provisioning)\b",
        "Modelplane still installs its serving stack",
        "wait; if it lasts, look at the Releases and Objects of the InferenceCluster that are not Ready",
        "Modelplane InferenceCluster",
        terminal=False,
    ),
    _row(
        "model-cache",
        r"\b(?:ModelCacheUnresolved|ModelCacheNotFound|AuthSecretMissing)\b",
        "the deployment's ModelCache, or its Secret, is missing",
        "create it in the same namespace, or remove modelCacheRef",
        "Modelplane ModelDeployment",
        terminal=True,
        grace_s=_RECONCILE_GRACE_S,
    ),
    _row(
        "model-starting",
        r"\b(?:ModelStarting|WaitingForModel|NoReplicasScheduled|Scheduling|Deploying)\b",
        "the replica is not serving yet; Modelplane does not say why",
        "look at the engine's pod and its events on the workload cluster, namespace default",
        "Modelplane ModelDeployment, ModelReplica",
        terminal=False,
    ),
    _row(
        "no-endpoints",
        r"\bNoEndpoints\b",
        "no ready replica has the labels that the ModelService selects",
        "compare the service's selector with the deployment's name, and look at the replicas",
        "Modelplane ModelService",
        terminal=False,
    ),
    _row(
        "routing",
        r"\b(?:WaitingForGateway|WaitingForBackend|Configuring)\b",
        "the route to the service is not configured yet",
        "wait; the InferenceGateway must be named default and have an address",
        "Modelplane ModelService, ModelEndpoint",
        terminal=False,
    ),
    _row(
        "loopback-endpoint",
        r"may not be (?:in the )?loopback|Unsynced resources: endpointslice",
        "the workload gateway's address is not one that an EndpointSlice may hold",
        "give the gateway an address that is not loopback, or a host name",
        "kube-apiserver; Modelplane ModelEndpoint",
        terminal=True,
        grace_s=_RECONCILE_GRACE_S,
    ),
    _row(
        "unknown-field",
        r"strict decoding error: unknown field \"(?P<field>[^\"]+)\"",
        "this release of Modelplane has no field {field}",
        "write the manifest for this release, or let the recipe's reader translate it",
        "kube-apiserver",
        terminal=True,
    ),
)
