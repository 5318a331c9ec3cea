"""Pods for tests, as short as a test can say them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from lightkube.core.dictmixin import DictMixin
from lightkube.resources.core_v1 import Pod

T = TypeVar("T", bound=DictMixin)
PYTHON = "python:3.13-slim"


def made(kind: type[T], document: dict[str, Any]) -> T:
    """A Kubernetes object from its manifest."""
    return cast(T, kind.from_dict(document))


def manifest(name: str = "engine-0", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of namespace default; a container without an image is Python's."""
    named = [{"name": f"c{index}", "image": PYTHON, **item} for index, item in enumerate(containers or ({},))]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": "0-1-2-3"},
        "spec": {"containers": named, **spec},
    }


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    """A pod as the runner sees it, at node system-1."""
    document = manifest("engine-0", *containers, **{"nodeName": "system-1", **spec})
    document["metadata"] |= {"labels": {"app": "engine", "quoted": 'a"b'}, "generation": 1}
    return made(Pod, document)
