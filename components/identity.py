"""Which clusters two kubeconfigs lead to, asked before anything is declared.

It comes first, and from the program itself, so that a wrong kubeconfig ends like any other wrong value: in one line
each, before a provider tries it for minutes. What the clusters must hold is the Clusters gate's to judge.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from components.gates.errors import KubeError
from components.gates.kube import Kube, path
from engine.findings import Finding, Problems
from stacks.kubeconfig import Kubeconfig

# Made with the cluster and never again: its uid is the cluster's.
NAMESPACE = "kube-system"


@dataclass(frozen=True)
class Identities:
    """What stays the same while addresses and credentials change."""

    control_plane: str
    workload: str


def identify(control_plane: Kubeconfig, workload: Kubeconfig) -> Identities:
    """Ask both clusters at once. Raises Problems when one does not answer, or both are the same."""
    given = {"speculation:existing.controlPlane": control_plane, "speculation:existing.workload": workload}
    with ThreadPoolExecutor(len(given)) as pool:
        answers = dict(zip(given, pool.map(_identity, given.values()), strict=True))
    wrong = [
        Finding.error(key, None, str(answer), "check the kubeconfig with `kubectl --kubeconfig FILE get nodes`")
        for key, answer in answers.items()
        if isinstance(answer, KubeError)
    ]
    if wrong:
        raise Problems(wrong)
    identities = Identities(*(str(answer) for answer in answers.values()))
    if identities.control_plane == identities.workload:
        why = (
            f"{control_plane.server} and {workload.server} are the same cluster (one {NAMESPACE} namespace), and "
            "Modelplane's gateway and serving stack would fight over it"
        )
        raise Problems(
            [
                Finding.error(
                    "speculation:existing",
                    None,
                    why,
                    "give the control plane and the workload two clusters",
                )
            ]
        )
    return identities


def _identity(kubeconfig: Kubeconfig) -> str | KubeError:
    kube = Kube(kubeconfig.text)
    try:
        return str(kube.get(path("v1", "namespaces", name=NAMESPACE))["metadata"]["uid"])
    except KubeError as error:
        return error
    finally:
        kube.close()
