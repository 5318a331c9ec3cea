"""How a kubelet and its runtime put things in messages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from lightkube.models.core_v1 import Pod

from sandbox.images import Image


def pod_text(pod: Pod) -> str:
    """`name_namespace(uid)`: how a kubelet writes a pod in its messages."""
    assert pod.metadata is not None
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def not_executable(argv: Sequence[str], env: Mapping[str, str], image: Image) -> str | None:
    """Why a runtime would not start the command, None when it would. A path may be in a volume: it is tried."""
    if not argv:
        return "no command specified"
    if "/" in argv[0] or argv[0] in image.programs or shutil.which(argv[0], path=env.get("PATH", "")):
        return None
    return f'exec: "{argv[0]}": executable file not found in $PATH'


def duration(seconds: float) -> str:
    """As Go prints it: 40s, 1m20s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
