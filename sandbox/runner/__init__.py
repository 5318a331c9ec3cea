"""Stand-in for the kubelet of every node of both clusters: turns scheduled pods into processes on this machine.

Real: what a pod's author and its controllers see. Volumes at their paths, environment, command and args, probes,
restart policy, status, conditions, events, logs in CRI format, graceful deletion, as kubelet 1.36 does them.

Differences, all intended:

* A container is a process in its own pid, ipc, uts and mount namespace (bubblewrap, no root). The machine's file system
  is its root, read-only, with fresh /tmp, /run, /dev and /var/tmp. There are no images: `sandbox.images` says which
  process stands for which image; an imageID is a digest of the reference. Cgroups, resource limits, securityContext and
  users are not applied, so nothing is ever OOMKilled: a container that the kernel kills has reason Error, code 137.
* The network is the machine's. A pod has its own loopback address; what Python code binds to the wildcard address goes
  there instead, and containers of a pod reach each other at the pod's address, not at localhost.
  KUBERNETES_SERVICE_HOST and _PORT name the API server on loopback; no other Service address leads anywhere.
* An emptyDir of medium Memory is new memory at each start of its container, unless several containers mount it: then it
  is a directory on disk.
* A container's command is the child of a small init, so SIGTERM ends it also when it has no handler of its own.
* Faster (`timing.Timing`): initialDelaySeconds is capped, a container that is not ready yet is probed more often,
  back-offs are shorter.
* A restart of the runner ends its containers and starts them anew; those that ran count as terminated with reason
  ContainerStatusUnknown and exit code 137.
* Not supported, and said so by an event: volumes other than configMap, secret, emptyDir, projected and downwardAPI;
  resourceFieldRef. Without a word: lifecycle hooks; kubectl exec, attach and port-forward.
"""

from __future__ import annotations

import sys

from sandbox.layout import Layout
from sandbox.processes import Process


def processes(layout: Layout) -> list[Process]:
    """The runner as a supervised process."""
    package = layout.repository / "sandbox"
    return [
        Process(
            name="runner",
            argv=(sys.executable, "-m", "sandbox.runner"),
            env={"PYTHONPATH": str(layout.repository)},
            after=("control-plane-apiserver", "workload-apiserver"),
            files=(package / "runner", package / "images.py"),
            # It gives its containers 5 s and then kills them.
            stop_seconds=10,
        )
    ]
