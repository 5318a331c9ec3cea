"""The proof that the model serves as its recipe declares: a Job in the workload cluster, its verdict, and the
resource that fails on a wrong one.

The program travels with the stack as one file in a ConfigMap, so there is no image to build; the Job may read engine
pods and their logs in `default` and write its verdict in its own namespace, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from components import schedule
from components.cluster import Cluster
from components.encoding import base64_text
from components.gates import resources as gates
from components.manifest import KubernetesObject
from modelplane.names import ENGINE_NAMESPACE
from validation.package import build_zipapp, content_hash
from validation.settings import PROGRAM_PATH, SCHEMA

NAMESPACE = "speculation-validation"
NAME = "speculation-validation"


@dataclass(frozen=True)
class ValidationArgs:
    """address, replicas, spec: of the model; engines: [{name, image, args}] as the recipe declares them; image: a stock
    Python, 3.11 or newer; schedule: when a CronJob validates again, None for never; seconds: for each of its runs.
    """

    workload: Cluster
    address: Output[str]
    model: str
    replicas: Output[list[str]]
    spec: Output[str]
    engines: Sequence[Mapping[str, Any]]
    image: str
    timeout: str
    destroy_timeout: str
    schedule: str | None
    seconds: int
    depends_on: tuple[pulumi.Resource, ...] = ()


class Validation(pulumi.ComponentResource):
    """verdict: the JSON document; ok: it is what the recipe declares. A wrong one fails `up` once both are there.

    job: what another run needs to know (gates/validation_job.py), secret since it would only be noise in `up`.
    """

    verdict: Output[str]
    ok: Output[bool]
    job: Output[dict[str, str]]

    def __init__(self, name: str, args: ValidationArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("speculation:components:Validation", name, {}, opts)
        namespace = gates.Namespace(
            f"{name}-namespace",
            kubeconfig=args.workload.kubeconfig,
            namespace=NAMESPACE,
            timeout=args.destroy_timeout,
            opts=ResourceOptions(parent=self, depends_on=list(args.workload.ready)),
        )
        opts_object = ResourceOptions(parent=self, provider=args.workload.provider, depends_on=[namespace])
        objects = [
            KubernetesObject(f"{name}-{suffix}", manifest, opts_object)
            for suffix, manifest in {**rights(), "program": program_manifest()}.items()
        ]
        job = Output.all(args.address, args.replicas).apply(lambda known: job_input(args, known[0], known[1]))
        names = {
            "namespace": NAMESPACE,
            "service_account": NAME,
            "image": args.image,
            "program": NAME,
            "program_hash": content_hash(),
        }
        run = gates.ValidationRun(
            f"{name}-run",
            kubeconfig=args.workload.kubeconfig,
            **names,
            spec=args.spec,
            job=job,
            timeout=args.timeout,
            opts=ResourceOptions(parent=self, depends_on=[*objects, *args.depends_on]),
        )
        gates.Verdict(f"{name}-verdict", ok=run.ok, sentence=run.sentence, opts=ResourceOptions(parent=self))
        if args.schedule is not None:
            # After the first run: two probes at once would count each other's tokens.
            later = ResourceOptions.merge(opts_object, ResourceOptions(depends_on=[run]))
            every = schedule.manifests(
                args.schedule, NAMESPACE, account=NAME, image=args.image, program=NAME, seconds=args.seconds, job=job
            )
            for suffix, manifest in every.items():
                KubernetesObject(f"{name}-{suffix}", manifest, later)
        self.verdict, self.ok = run.verdict, run.ok
        self.job = Output.secret(Output.all(**names, job=job))
        self.register_outputs({"verdict": self.verdict, "ok": self.ok})


def job_input(args: ValidationArgs, address: str, replicas: Sequence[str]) -> str:
    """The Job's input without what belongs to one run (validation/settings.py), with the same text for the same
    stack.
    """
    return json.dumps(
        {
            "schema": SCHEMA,
            "service_address": address,
            "model": args.model,
            "namespace": ENGINE_NAMESPACE,
            "replicas": sorted(replicas),
            "declared": {"engines": [dict(engine) for engine in args.engines]},
        },
        sort_keys=True,
    )


def program_manifest() -> dict[str, Any]:
    """The ConfigMap with the program, under the file name that the Job mounts."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "binaryData": {PROGRAM_PATH.rsplit("/", 1)[1]: base64_text(build_zipapp())},
    }


def rights() -> dict[str, dict[str, Any]]:
    """Resource name suffix -> manifest: the Job's account and what it may do."""
    rbac = "rbac.authorization.k8s.io"
    reads = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    writes = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "patch"]}]
    manifests: dict[str, dict[str, Any]] = {
        "account": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
        }
    }
    for suffix, namespace, rules in (("reader", ENGINE_NAMESPACE, reads), ("writer", NAMESPACE, writes)):
        metadata = {"name": f"{NAME}-{suffix}", "namespace": namespace}
        manifests[suffix] = {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        }
        manifests[f"{suffix}-binding"] = {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        }
    return manifests
