"""Stand-ins for the composition functions of Modelplane v0.3.1, run by real Crossplane as one gRPC process.

Claimed: for what this stack uses, they compose the same objects (names, labels, engine pod, claim, routes, picker,
readiness policies) and report the same statuses and conditions, the misleading ones included. Held against what v0.3.1
itself composed; ``DIFFERENCES`` lists every intended difference, and tests allow exactly these.

Not claimed: anything about Modelplane's code, timing, or the kinds and shapes that ``DIFFERENCES`` leaves out.
"""

from __future__ import annotations

DIFFERENCES = (
    "No Helm Release and no provider-helm ProviderConfig: Objects named chart-* bring what the charts would have "
    "brought and others need (CRDs, the DRA driver's namespace, DeviceClass, ResourceSlice). No controller of those "
    "charts runs.",
    "Usages that name a Release are left out; Usages of the ProviderConfig by chart-* Objects, and of chart-* CRDs by "
    "the objects of their kinds, take their place. Helm leaves CRDs of a chart's crds/ folder behind; these go.",
    "CRDs of the Gateway API, its inference extension, Envoy Gateway, cert-manager and the Prometheus operator are "
    "minimal: they check hardly any field.",
    "ServingStack holds an Object back until what it needs is there, and a Usage until both sides are; Modelplane "
    "applies all at once and lets them fail until then. The end is the same.",
    "A ModelService's status.address has a port: the control-plane gateway does not listen on port 80.",
    "InferenceGateway reports ControllerReady from its GatewayClass (there is no Traefik Release), and ignores "
    "loadBalancer MetalLB.",
    "InferenceCluster plays source Existing only; identitySecretRef and cache are ignored.",
    "ModelReplica composes Standalone engines in Unified serving; Leader/Worker, PrefillDecode and ModelCache stay at "
    "ModelAccepted=False with a message.",
    "No engine is split over node pools.",
    "Objects whose readiness is a query have watch: true (provider-kubernetes' watches are on), where Modelplane waits "
    "for the next poll.",
    "Functions that read what Crossplane does not watch are called again after 2 to 5 s instead of 60 s.",
    'Normal events ("Composing ... on ...") are left out; warnings are kept.',
)
