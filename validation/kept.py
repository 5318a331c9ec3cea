"""Start-up lines of engines, kept in a ConfigMap beside the verdicts: a long-lived engine's log loses them to rotation.

The first validation of a container keeps them, a later one may use them and says so. A container is known by its pod's
UID, its own id and its number of restarts; lines of another one are never used. What is kept is redacted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.log import EngineLog, parse_log, start_lines
from validation.kube import ApiError, Kube
from validation.pods import Pod
from validation.witnesses import now

CONFIG_MAP = "speculation-start-lines"
# A ConfigMap holds 1 MiB. Engines of one stack are few, and the lines of one have some 2 kB.
_MOST_BYTES = 512 * 1024


@dataclass
class KeptLines:
    """The kept lines of all containers: ConfigMap key -> JSON {container, time, lines}; problem: why there are none."""

    namespace: str
    entries: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    _changed: bool = False

    @classmethod
    def load(cls, kube: Kube, namespace: str) -> KeptLines:
        """What earlier validations kept; nothing, with the reason, where it cannot be read."""
        try:
            return cls(namespace, kube.config_map(namespace, CONFIG_MAP))
        except ApiError as problem:
            return cls(namespace, problem=str(problem))

    def keep(self, pod: Pod, log: str) -> None:
        """Take the start-up lines of a container that has none kept yet."""
        if not pod.container or self.find(pod):
            return
        entry = {"container": pod.container, "time": now(), "lines": start_lines(log)}
        self.entries[_key(pod)] = json.dumps(entry, ensure_ascii=False)
        self._changed = True

    def find(self, pod: Pod) -> tuple[str, tuple[str, ...]] | None:
        """(time, lines) of exactly this container, None when nothing is kept of it."""
        try:
            entry = json.loads(self.entries.get(_key(pod), "null"))
        except ValueError:
            return None
        if not pod.container or not isinstance(entry, dict) or entry.get("container") != pod.container:
            return None
        lines = entry.get("lines")
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return None
        return str(entry.get("time", "")), tuple(lines)

    def complete(self, pod: Pod, log: str) -> tuple[EngineLog, str]:
        """What a pod's log says, with the kept lines put back where it has lost its own, and when those were kept."""
        parsed = parse_log(log)
        found = None if parsed.starts and parsed.args_line else self.find(pod)
        if found is None:
            return parsed, ""
        time, lines = found
        whole = parse_log([*lines, log])
        return (whole, time) if whole.starts else (parsed, "")

    def save(self, kube: Kube, pods: Iterable[Pod]) -> str:
        """Record what is new, for these pods only; why that failed, "" when it did not."""
        if not self._changed:
            return ""
        present = {_key(pod) for pod in pods}
        data = {key: entry for key, entry in self.entries.items() if key in present}
        if sum(len(entry.encode()) for entry in data.values()) > _MOST_BYTES:
            return f"more than {_MOST_BYTES} bytes of them"
        try:
            kube.apply_config_map(self.namespace, CONFIG_MAP, data, {})
        except ApiError as problem:
            return str(problem)
        return ""


def _key(pod: Pod) -> str:
    """A pod has one engine container at a time, so the newest one replaces that of before its restart."""
    return f"{pod.namespace}.{pod.name}"
