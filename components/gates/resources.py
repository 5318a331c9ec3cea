"""The gates as the program declares them; the provider (provider.py) is what acts on them.

Times are Pulumi's custom timeouts, in its notation ("20m"): they are no inputs, so changing one changes nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

SECRETS = ("kubeconfig", "workload_kubeconfig", "control_plane_kubeconfig")


class _Gate(pulumi.CustomResource):
    """A resource of this project's provider: its token is the class's name."""

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Any],
        opts: ResourceOptions | None,
        *,
        outputs: Sequence[str] = (),
        timeout: str | None = None,
        destroy_timeout: str | None = None,
    ) -> None:
        secrets = [key for key in SECRETS if key in inputs]
        properties = {key: Output.secret(value) if key in secrets else value for key, value in inputs.items()}
        delete = destroy_timeout or timeout
        waits = pulumi.CustomTimeouts(create=timeout, update=timeout, delete=delete) if timeout else None
        own = ResourceOptions(additional_secret_outputs=secrets, custom_timeouts=waits)
        token = f"speculation:gates:{type(self).__name__}"
        super().__init__(token, name, {**properties, **dict.fromkeys(outputs)}, ResourceOptions.merge(opts, own))


class Clusters(_Gate):
    """Both clusters are fit for this stack, and the same as before.

    The uids are their identities; secrets: as those of Device.
    """

    def __init__(
        self,
        name: str,
        *,
        control_plane_kubeconfig: Input[str],
        workload_kubeconfig: Input[str],
        control_plane_uid: Input[str],
        workload_uid: Input[str],
        node_pool: str,
        node_count: int,
        secrets: Sequence[Mapping[str, str]],
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "control_plane_kubeconfig": control_plane_kubeconfig,
            "workload_kubeconfig": workload_kubeconfig,
            "control_plane_uid": control_plane_uid,
            "workload_uid": workload_uid,
            "node_pool": node_pool,
            "node_count": node_count,
            "secrets": list(secrets),
        }
        super().__init__(name, inputs, opts)


class Namespace(_Gate):
    """A namespace that is removed on destroy only when this stack made it. timeout: of its end."""

    made: Output[bool]

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        namespace: str,
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        owner = f"{pulumi.get_project()}/{pulumi.get_stack()}"
        inputs = {"kubeconfig": kubeconfig, "name": namespace, "owner": owner}
        super().__init__(name, inputs, opts, outputs=("made",), timeout=timeout)


class InferenceClusterReady(_Gate):
    """The InferenceCluster is ready and its gateway has an address. spec: changes when it must be asked again;
    destroy_timeout: of the wait for its release.
    """

    gateway_address: Output[str]

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        cluster: str,
        spec: str,
        timeout: str,
        destroy_timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {"kubeconfig": kubeconfig, "name": cluster, "spec": spec}
        outputs = ("gateway_address",)
        super().__init__(name, inputs, opts, outputs=outputs, timeout=timeout, destroy_timeout=destroy_timeout)


class Device(_Gate):
    """The workload cluster publishes devices that the recipe's selectors match, and nothing keeps engine pods out.

    requests: [{name, count, selectors}], the selectors being CEL expressions; node_pool: of the engines; secrets:
    [{name, key}] that the recipe reads and the stack does not make.
    """

    devices: Output[list[str]]

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        device_class: str,
        requests: Sequence[Mapping[str, Any]],
        node_pool: str,
        secrets: Sequence[Mapping[str, str]],
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "kubeconfig": kubeconfig,
            "device_class": device_class,
            "requests": list(requests),
            "node_pool": node_pool,
            "secrets": list(secrets),
        }
        super().__init__(name, inputs, opts, outputs=("devices",), timeout=timeout)


class ReplicasGone(_Gate):
    """On destroy, after what depends on it is deleted: no replica and no engine pod of the deployment is left."""

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        workload_kubeconfig: Input[str],
        namespace: str,
        deployment: str,
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "kubeconfig": kubeconfig,
            "workload_kubeconfig": workload_kubeconfig,
            "namespace": namespace,
            "name": deployment,
        }
        super().__init__(name, inputs, opts, timeout=timeout)


class ReplicasReady(_Gate):
    """All replicas of the deployment are ready. replicas: the names of its ModelReplicas, sorted; uids: theirs, which
    change when an engine is made again.
    """

    replicas: Output[list[str]]
    uids: Output[list[str]]

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        workload_kubeconfig: Input[str],
        namespace: str,
        deployment: str,
        spec: str,
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "kubeconfig": kubeconfig,
            "workload_kubeconfig": workload_kubeconfig,
            "namespace": namespace,
            "name": deployment,
            "spec": spec,
        }
        super().__init__(name, inputs, opts, outputs=("replicas", "uids"), timeout=timeout)


class ServiceServing(_Gate):
    """The service's address answers 200 and lists the model. address: without a trailing slash or /v1."""

    address: Output[str]

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        namespace: str,
        service: str,
        model: str,
        spec: str,
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {"kubeconfig": kubeconfig, "namespace": namespace, "name": service, "model": model, "spec": spec}
        super().__init__(name, inputs, opts, outputs=("address",), timeout=timeout)


class KindServed(_Gate):
    """A cluster serves a kind; brought_by, remedy: said when it does not."""

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        api_version: str,
        kind: str,
        brought_by: str,
        remedy: str,
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "kubeconfig": kubeconfig,
            "api_version": api_version,
            "kind": kind,
            "brought_by": brought_by,
            "remedy": remedy,
        }
        super().__init__(name, inputs, opts, timeout=timeout)


class ValidationRun(_Gate):
    """One run of the validation Job.

    job: its input without run and result, as JSON text; spec: changes with what is validated beyond that, such as an
    engine's environment.
    """

    run: Output[str]
    verdict: Output[str]
    text: Output[str]
    sentence: Output[str]
    ok: Output[bool]

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Input[str],
        namespace: str,
        service_account: str,
        image: str,
        program: str,
        program_hash: str,
        job: Input[str],
        spec: Input[str],
        timeout: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "service_account": service_account,
            "image": image,
            "program": program,
            "program_hash": program_hash,
            "job": job,
            "spec": spec,
        }
        super().__init__(name, inputs, opts, outputs=("run", "verdict", "text", "sentence", "ok"), timeout=timeout)


class Verdict(_Gate):
    """Fails when the verdict is not what the recipe declares."""

    def __init__(
        self, name: str, *, ok: Input[bool], sentence: Input[str], opts: ResourceOptions | None = None
    ) -> None:
        super().__init__(name, {"ok": ok, "sentence": sentence}, opts)
