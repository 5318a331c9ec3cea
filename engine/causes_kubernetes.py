"""Causes that Kubernetes and the clouds show. The first that matches is taken, so the special come first."""

from __future__ import annotations

from engine.cause import Cause, Where

# A claim is not allocatable for a moment while the driver's kubelet plugin restarts or publishes its slice.
_SLICE_GRACE_S = 30
# A DaemonSet or an autoscaler tries again after at most a minute or so.
_RETRY_GRACE_S = 90
# A registry that fails once is tried again after 10 and 20 seconds.
_PULL_GRACE_S = 45


def _row(
    id_: str, pattern: str, cause: str, remedy: str, source: str, *, where: Where, terminal: bool, grace_s: int = 0
) -> Cause:
    return Cause(id_, where, pattern, cause, remedy, terminal, source, grace_s)


POD_CAUSES: tuple[Cause, ...] = (
    _row(
        "image-not-found",
        r"(?:manifest unknown|manifest for \S+ not found|failed to resolve reference \"?(?P<image>[^\"\s]+)\"?: "
        r"[^\n]{0,200}not found|InvalidImageName|ErrImageNeverPull)",
        "the registry has no such image",
        "correct the image's name and tag",
        "kubelet, containerd",
        where="pod",
        terminal=True,
    ),
    _row(
        "image-unauthorized",
        r"(?:ErrImagePull|ImagePullBackOff|Failed|pull)[^\n]{0,400}(?:unauthorized|authentication required|"
        r"pull access denied|403 Forbidden|401 Unauthorized|denied:)",
        "the registry refuses to hand out the image: it needs a login, or has no such repository",
        "check the name, and give an image pull Secret in the namespace of the engine pods",
        "kubelet, containerd",
        where="pod",
        terminal=True,
    ),
    _row(
        "image-registry-busy",
        r"(?:ErrImagePull|ImagePullBackOff|Failed|pull)[^\n]{0,400}(?:toomanyrequests|429 Too Many Requests|"
        r"no such host|i/o timeout|connection refused|TLS handshake timeout|unexpected EOF|50[0234] )",
        "the registry does not answer, or too many pulls were made",
        "wait, or pull from a mirror of your own",
        "kubelet, containerd",
        where="pod",
        terminal=False,
    ),
    _row(
        "image-pull-back-off",
        r"ImagePullBackOff|Back-off pulling image",
        "the image cannot be pulled",
        "check its name, tag and pull Secret",
        "kubelet",
        where="pod",
        terminal=True,
        grace_s=_PULL_GRACE_S,
    ),
    _row(
        "image-pull",
        r"ErrImagePull",
        "the image could not be pulled yet",
        "check its name, tag and pull Secret",
        "kubelet",
        where="pod",
        terminal=False,
    ),
    _row(
        "killed-while-loading-weights",
        r"(?:OOMKilled|exit code 137)[^\n]{0,80}last line: Loading safetensors checkpoint shards",
        "the engine was killed while the weights were loading: the node's memory does not hold them",
        "take nodes with more memory than the weights take",
        "kubelet, kernel out-of-memory killer",
        where="pod",
        terminal=True,
    ),
    _row(
        "out-of-memory",
        r"OOMKilled",
        "the container was killed because the node ran out of memory",
        "take nodes with more memory",
        "kubelet",
        where="pod",
        terminal=True,
    ),
    _row(
        "killed",
        r"exit code 137|exitCode[\"']?: 137",
        "the container was killed from outside (SIGKILL): mostly by the kernel, because the node ran out of memory",
        "look at the node's events (kubectl get events -A --field-selector reason=OOMKilling), and take larger nodes",
        "kubelet; also after a restart of the node",
        where="pod",
        terminal=False,
    ),
    _row(
        "secret-or-config-map-missing",
        r"(?:CreateContainerConfigError|FailedMount|MountVolume\.SetUp failed|couldn't find key)[^\n]{0,300}?"
        r"(?P<kind>secret|configmap|Secret|ConfigMap) \"?(?P<name>[^\"\s]+)\"? not found"
        r"|couldn't find key (?P<key>\S+)",
        "a Secret or ConfigMap that the container needs is missing in its namespace ({name})",
        "create it in the namespace of the pod: the workload cluster's namespace default for engines",
        "kubelet",
        where="pod",
        terminal=True,
        grace_s=_SLICE_GRACE_S,
    ),
    _row(
        "command-not-found",
        r"exec: \"(?P<command>[^\"]{1,200})\": (?:executable file not found|stat [^\n]{1,200}no such file)",
        "the image has no program {command}",
        "leave command out, or correct it",
        "container runtime",
        where="pod",
        terminal=True,
    ),
    _row(
        "crash-loop",
        r"CrashLoopBackOff|Back-off restarting failed container|back-off \S+ restarting failed container",
        "the container ends again and again after its start",
        "read the last error of its log",
        "kubelet",
        where="pod",
        terminal=True,
    ),
    _row(
        "evicted",
        r"Evicted|The node was low on resource: (?P<resource>[\w./-]+)",
        "the node ran low on a resource and evicted the pod ({resource})",
        "take larger nodes or disks",
        "kubelet",
        where="pod",
        terminal=False,
    ),
    _row(
        "driver-root",
        r"Has the NVIDIA GPU driver been set up\?.{0,200}?NVIDIA_DRIVER_ROOT "
        r"\(currently set to '(?P<root>[^']{1,200})'",
        "the DRA driver finds no NVIDIA driver under {root} of the node",
        "install the NVIDIA driver on the GPU nodes, or set nvidiaDriverRoot of the ServingStack to where it is "
        "(/home/kubernetes/bin/nvidia on GKE)",
        "dra-driver-nvidia-gpu 0.4 (init container of the plugin); its issue 1008",
        where="pod",
        terminal=False,
    ),
    _row(
        "not-answering-yet",
        r"Readiness probe failed|ContainersNotReady",
        "the engine does not answer yet: it loads the model",
        "wait; the log shows how far it is",
        "kubelet",
        where="pod",
        terminal=False,
    ),
)

EVENT_CAUSES: tuple[Cause, ...] = (
    _row(
        "selector-fails",
        r"CEL (?:runtime|compile) error[^\n]{0,200}",
        "the claim's device selector cannot be evaluated on the published devices",
        "correct the selector: the capacity and attributes are in the ResourceSlice",
        "kube-scheduler",
        where="event",
        terminal=True,
    ),
    _row(
        "device-class-missing",
        r"[Dd]evice class (?P<name>\S+) does not exist|deviceclass\S* \"(?P<quoted>[^\"]+)\" not found",
        "the DeviceClass of the claim does not exist: the DRA driver is not installed yet",
        "wait for Modelplane's serving stack; look at its dra-driver release",
        "kube-scheduler",
        where="event",
        terminal=False,
    ),
    _row(
        "claims",
        r"cannot allocate all claims",
        "no free device on any node satisfies the claim's selector",
        "compare the recipe's selector with the ResourceSlices (kubectl get resourceslices -o yaml), and see whether "
        "another pod holds the device",
        "kube-scheduler; modelplane issue 202",
        where="event",
        terminal=True,
        grace_s=_SLICE_GRACE_S,
    ),
    _row(
        "claim-pending",
        r"waiting for (?:the )?(?:resource ?claim|dynamic resource) controller|resourceclaim \S+ (?:not found|is being)"
        r"|does not exist yet|FailedPrepareDynamicResources|NodePrepareResources failed",
        "the pod's resource claim is not ready",
        "wait; if it lasts, look at the DRA driver's kubelet plugin on the node",
        "kube-scheduler, kubelet",
        where="event",
        terminal=False,
    ),
    _row(
        "critical-pods-quota",
        r"insufficient quota to match these scopes",
        "pods of a critical priority are refused outside kube-system without a ResourceQuota for them",
        "create a ResourceQuota with scopeSelector PriorityClass In [system-node-critical, system-cluster-critical] in "
        "that namespace",
        "GKE; modelplane issue 202",
        where="event",
        terminal=True,
        grace_s=_RETRY_GRACE_S,
    ),
    _row(
        "quota-exceeded",
        r"exceeded quota: (?P<quota>[^,\n]+)",
        "the namespace's ResourceQuota {quota} is used up",
        "raise it, or delete other pods",
        "kube-apiserver",
        where="event",
        terminal=True,
        # A pod of before that is still ending gives its share back.
        grace_s=_RETRY_GRACE_S,
    ),
    _row(
        "quota-unsaid",
        r"[Ff]ailed quota: (?P<quota>[^:\n]{1,253}): must specify (?P<unsaid>[^\n]{1,200})",
        "the namespace's ResourceQuota {quota} refuses pods that do not say {unsaid}",
        "fill them in with a LimitRange, or remove the quota: Modelplane gives engine pods no requests or limits",
        "kube-apiserver",
        where="event",
        terminal=True,
        grace_s=_RETRY_GRACE_S,
    ),
    _row(
        "node-not-ready",
        r"untolerated taint \{node\.kubernetes\.io/(?P<taint>[\w-]+)|NodeNotReady",
        "a node is not ready yet ({taint})",
        "wait for the node",
        "kube-scheduler",
        where="event",
        terminal=False,
    ),
    _row(
        "untolerated-taint",
        r"had untolerated taint(?:\(s\)|s)? ?(?P<taint>\{[^}]*\})?",
        "the nodes have a taint that the pod does not tolerate ({taint})",
        "keep only the taint nvidia.com/gpu on GPU nodes, and one pool without it",
        "kube-scheduler",
        where="event",
        terminal=False,
    ),
    _row(
        "node-affinity",
        r"didn't match Pod's node affinity/selector",
        "no node has the labels that the pod asks for",
        "label the GPU pool modelplane.ai/pool=<pool> and nvidia.com/gpu.present=true",
        "kube-scheduler; modelplane issue 229",
        where="event",
        terminal=False,
    ),
    _row(
        "insufficient",
        r"Insufficient (?P<resource>[\w./-]+)",
        "the nodes have too little {resource} free",
        "add nodes, or delete other pods",
        "kube-scheduler",
        where="event",
        terminal=False,
    ),
    _row(
        "no-nodes",
        r"no nodes available to schedule pods|0/0 nodes are available",
        "the cluster has no nodes",
        "wait for the node pool, or look at its errors",
        "kube-scheduler",
        where="event",
        terminal=False,
    ),
    _row(
        "no-scale-up",
        r"NotTriggerScaleUp|didn't trigger scale-up",
        "the autoscaler sees no pool that would help",
        "raise the pool's maximum, or check its labels and taints",
        "cluster-autoscaler",
        where="event",
        terminal=False,
    ),
    _row(
        "schema-refused",
        r"EstablishComposite[^\n]{0,100}cannot ",  # notes of success carry the same reason
        "the API server refuses the schema of a Modelplane kind",
        "use Modelplane v0.3.1: v0.3.0 has a schema that no API server accepts",
        "Crossplane; modelplane issue 399",
        where="event",
        terminal=True,
    ),
)

CLOUD_CAUSES: tuple[Cause, ...] = (
    _row(
        "stock-out",
        r"GCE_STOCKOUT|ZONE_RESOURCE_POOL_EXHAUSTED|InsufficientInstanceCapacity"
        r"|does not have enough resources available",
        "the cloud has no such machine free in this zone right now (this is not your quota)",
        "wait, or list more zones",
        "cluster-autoscaler, GCE, EC2",
        where="cloud",
        terminal=False,
    ),
    _row(
        "vcpu-quota",
        r"VcpuLimitExceeded(?:.{0,300}?limit of (?P<limit>\d+))?",
        "the account's vCPU quota for this machine family is {limit}",
        "ask for more (EC2 quota L-DB2E81BA, or L-3819A6DF for Spot)",
        "EC2",
        where="cloud",
        terminal=True,
    ),
    _row(
        "cloud-quota",
        r"Quota '?(?P<quota>[\w-]+)'? exceeded|QUOTA_EXCEEDED",
        "a quota of the project is used up ({quota}); GCE also says so when a zone has no machines",
        "read the quota GPUS_ALL_REGIONS and the one of the region; if both have room, it is a stock-out",
        "GCE",
        where="cloud",
        terminal=True,
        grace_s=_RETRY_GRACE_S,
    ),
)
