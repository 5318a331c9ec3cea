"""The whole deployment on one page: settings -> clusters -> platform -> model -> validation -> outputs."""

from __future__ import annotations

import pulumi

from components.gates.start import start_provider

start_provider()

from components.existing import ExistingClusters, ExistingClustersArgs
from components.identity import Identities, identify
from components.inference_platform import InferencePlatform, InferencePlatformArgs
from components.model import Model, ModelArgs
from components.outputs import log_command, report, verdict_document
from components.secrets import engine_secrets, image_pull_secrets
from components.validation import Validation, ValidationArgs
from engine.findings import Problems
from stacks.settings import Settings, load_settings


def deploy(settings: Settings, identities: Identities) -> None:
    """Declare every resource of the stack and its outputs."""
    timeouts, platform_settings, recipe = settings.timeouts, settings.platform, settings.recipe
    clusters = ExistingClusters(
        "clusters",
        ExistingClustersArgs(
            control_plane_kubeconfig=settings.control_plane.text,
            workload_kubeconfig=settings.workload.text,
            identities=identities,
            node_pool=platform_settings.node_pool.name,
            node_count=platform_settings.node_pool.node_count,
        ),
    )
    platform = InferencePlatform(
        "platform",
        InferencePlatformArgs(
            control_plane=clusters.control_plane,
            workload=clusters.workload,
            cluster_name=platform_settings.cluster_name,
            node_pool=platform_settings.node_pool.name,
            node_count=platform_settings.node_pool.node_count,
            timeout=timeouts.cluster,
            destroy_timeout=timeouts.destroy,
        ),
    )
    model = Model(
        "model",
        ModelArgs(
            control_plane=clusters.control_plane,
            workload=clusters.workload,
            deployment=recipe.deployment.to_manifest(),
            service=recipe.service.to_manifest(),
            model=recipe.model_name,
            requests=[
                {"name": request.name, "count": request.count, "selectors": [s.cel for s in request.selectors]}
                for request in recipe.device_requests
            ],
            device_timeout=timeouts.device,
            replicas_timeout=timeouts.replicas,
            service_timeout=timeouts.service,
            destroy_timeout=timeouts.destroy,
            secrets=engine_secrets(recipe, settings.secrets),
            image_pull_secrets=image_pull_secrets(settings.secrets),
            depends_on=platform.ready,
        ),
    )
    pulumi.export("service_address", model.address)
    pulumi.export("model", recipe.model_name)
    if settings.validation.enabled:
        validation = Validation(
            "validation",
            ValidationArgs(
                workload=clusters.workload,
                address=model.address,
                model=recipe.model_name,
                replicas=model.replicas,
                spec=model.spec,
                engines=[
                    {
                        "name": engine.name,
                        "image": engine.image,
                        "args": list(engine.args),
                        "command": list(engine.command),
                    }
                    for engine in recipe.engines
                ],
                image=settings.validation.image,
                timeout=timeouts.validation,
                destroy_timeout=timeouts.destroy,
                depends_on=(model.serving,),
            ),
        )
        pulumi.export("validation", validation.verdict.apply(verdict_document))
    pulumi.export("log_command", model.replicas.apply(lambda replicas: log_command(replicas, settings.workload)))
    pulumi.export("workload_cluster", platform_settings.cluster_name)
    pulumi.export("control_plane_kubeconfig", clusters.control_plane.kubeconfig)
    pulumi.export("workload_kubeconfig", clusters.workload.kubeconfig)


try:
    checked = load_settings()
    found = identify(checked.control_plane, checked.workload)
except Problems as problems:
    report(problems.findings)
else:
    report(checked.warnings)
    deploy(checked, found)
