"""The shape of the configuration (namespace `speculation`): types, defaults, bounds, and what each key is for.

The keys are written in camelCase, as in Pulumi.<stack>.yaml. Contradictions between keys are settings.py's business.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from stacks import cron

Target = Literal["existing"]

# Kept short: it is part of names that Kubernetes limits to 63 characters (modelplane issue 215).
ClusterName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
PoolName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Duration = Annotated[str, Field(pattern=r"^[1-9][0-9]*(s|m|h)$")]
Text = Annotated[str, Field(min_length=1)]


def _cron(expression: str) -> str:
    if why := cron.problem(expression):
        raise PydanticCustomError("cron", "is not a cron expression that runs: {why}", {"why": why})
    return expression


Schedule = Annotated[str, AfterValidator(_cron)]

# A stock image: the program needs Python 3.11 or newer, and nothing else. Pinned to a patch release, since a verdict
# names its conditions.
VALIDATION_IMAGE = "python:3.13.7-slim"


class Section(BaseModel):
    """Strict: unknown keys are refused, nothing is coerced."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
    )


def secret(description: str) -> Any:  # noqa: ANN401 - pydantic's own
    """A field whose value is never shown and belongs into `pulumi config set --secret`."""
    return Field(default=None, description=description, json_schema_extra={"secret": True})


class ClusterAccess(Section):
    """How one existing cluster is reached; exactly one of `kubeconfig` and `kubeconfigFile`."""

    kubeconfig: Text | None = secret("Text of the kubeconfig.")
    kubeconfig_file: Text | None = Field(
        default=None, description="Path of the kubeconfig, relative to the project. Files that it names are read too."
    )
    context: Text | None = Field(default=None, description="Context to use; without it the kubeconfig's current one.")


class Existing(Section):
    """The two clusters of target `existing`. They must be two: Modelplane's control plane and serving stack do not
    share one.
    """

    control_plane: ClusterAccess = Field(description="The cluster with Crossplane and Modelplane v0.3.1.")
    workload: ClusterAccess = Field(
        description="The cluster with the GPUs, dedicated to Modelplane. Its kubeconfig must hold its own credentials "
        "(a token or a certificate): Modelplane reads it inside the control plane, where no login plugin exists."
    )


class NodePool(Section):
    """The GPU nodes of the workload cluster."""

    name: PoolName = Field(default="gpu", description="Value of the label `modelplane.ai/pool` on its nodes.")
    node_count: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="How many nodes carry it. Modelplane schedules by this number and never looks."
    )


class Platform(Section):
    """Modelplane's view of the workload cluster."""

    cluster_name: ClusterName = Field(default="workload", description="Name of the InferenceCluster.")
    node_pool: NodePool = Field(default_factory=NodePool, description="Its GPU node pool; one NVIDIA L4 a node.")


class Registry(Section):
    """Credentials of an image registry."""

    registry: Text = Field(description="Host, e.g. `ghcr.io`.")
    username: Text = Field(description="User name.")
    password: Text = Field(description="Password or token.", json_schema_extra={"secret": True})


class Secrets(Section):
    """What the engines need to know; it lands in namespace `default` of the workload cluster, under the names that
    the recipe refers to.
    """

    hugging_face_token: Text | None = secret(
        "Hugging Face token. The recipe must refer to it: `env` with `HF_TOKEN` from a `secretKeyRef`."
    )
    image_pull: dict[str, Registry] = Field(
        default_factory=dict, description="Name of an `imagePullSecrets` entry of the recipe -> credentials."
    )


class ValidationSection(Section):
    """The Job that proves what the recipe declares."""

    enabled: bool = Field(default=True, description="Without it, `up` ends when the service answers.")
    image: Text = Field(default=VALIDATION_IMAGE, description="A stock Python image, 3.11 or newer.")
    schedule: Schedule | None = Field(
        default=None,
        description="When a CronJob validates again, e.g. `0 * * * *` for every hour (UTC). Without it none does.",
    )


class Monitoring(Section):
    """How the engines are watched from outside."""

    pod_monitor: bool = Field(
        default=False,
        description="A PodMonitor on the workload cluster: the Prometheus of Modelplane's serving stack scrapes the "
        "engines.",
    )


class Timeouts(Section):
    """How long each step may take before `up` fails with what is missing. Values such as `90s`, `20m`, `1h`."""

    # Documents of Modelplane allow 20 minutes; a load balancer's address alone may take ten (modelplane issue 121).
    cluster: Duration = Field(default="20m", description="InferenceCluster ready with a gateway address.")
    device: Duration = Field(default="10m", description="A GPU published that the recipe's selectors match.")
    # An engine image of 10 GB and weights of 16 GB over a slow network, then compilation.
    replicas: Duration = Field(default="30m", description="All replicas ready: image, weights, start of the engine.")
    service: Duration = Field(default="10m", description="The service answers 200.")
    validation: Duration = Field(default="10m", description="The validation Job has recorded its verdict.")
    destroy: Duration = Field(default="20m", description="Each object's end on destroy.")


def seconds(duration: str) -> int:
    """A Duration in seconds."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


# Top-level key -> section; the two others are plain text.
SECTIONS: dict[str, type[Section]] = {
    "existing": Existing,
    "platform": Platform,
    "secrets": Secrets,
    "validation": ValidationSection,
    "monitoring": Monitoring,
    "timeouts": Timeouts,
}
TEXT_KEYS: dict[str, str] = {
    "target": "Where the clusters come from: `existing` (two kubeconfigs).",
    "recipe": "Name of a recipe in `recipes/`, or path of a file with a ModelDeployment and a ModelService.",
}
