"""What each witness saw of one pod, and how the pods of several replicas are told as one.

Evidence is redacted and shortened here, where it is taken: nothing downstream sees a secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.arguments import EngineArgs, read_args
from engine.causes import last_error
from engine.log import EngineLog
from engine.redact import redact, redact_values
from engine.speculative import SpeculativeConfig, resolve
from engine.versions import EngineVersion
from validation.kube import Log
from validation.pods import Pod
from validation.settings import DeclaredEngine
from validation.verdict import Reading, Witness, WitnessName

# Evidence is for reading, and the result is one ConfigMap: a line is cut here (bytes), and a witness has so many lines.
LINE_LIMIT = 400
LINES_LIMIT = 12
# Which reading is told when pods differ: the first of these that any pod has.
_WORST_WHEN_DECLARED = (
    Reading.CORRUPT, Reading.OFF, Reading.DIFFERS, Reading.INERT, Reading.UNKNOWN, Reading.ON,
)  # fmt: skip
_WORST_WHEN_NOT = (
    Reading.CORRUPT, Reading.ON, Reading.INERT, Reading.DIFFERS, Reading.UNKNOWN, Reading.OFF,
)  # fmt: skip


@dataclass(frozen=True)
class Sight:
    """What one witness saw of one subject; the first line of evidence is the one that is quoted."""

    reading: Reading
    evidence: tuple[str, ...]
    source: str
    why: str = ""


def now() -> str:
    """The time as the documents have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seen(reading: Reading, evidence: Iterable[str], source: str) -> Sight:
    """A sight with an answer."""
    return Sight(reading, tuple(evidence), source)


def unseen(why: str, source: str, evidence: Iterable[str] = ()) -> Sight:
    """A sight without one."""
    return Sight(Reading.UNKNOWN, tuple(evidence), source, why)


def combine(name: WitnessName, sights: Mapping[str, Sight], *, declared: bool) -> Witness:
    """One witness from what was seen of each subject (a pod's name, or "" for a single thing)."""
    order = _WORST_WHEN_DECLARED if declared else _WORST_WHEN_NOT
    worst = min((sight.reading for sight in sights.values()), key=order.index)
    # Those that decide come first, so that the line that is quoted belongs to the reading.
    ordered = sorted(sights.items(), key=lambda item: (item[1].reading is not worst, item[0]))
    several = len(sights) > 1
    evidence = [f"{subject}: {line}" if several else line for subject, sight in ordered for line in sight.evidence]
    whys = [f"{subject}: {sight.why}" if several else sight.why for subject, sight in ordered if sight.why]
    unknown = worst is Reading.UNKNOWN
    return Witness(
        name=name,
        reading=worst,
        says=worst.says,
        evidence=tuple(clean(line) for line in (evidence if unknown else evidence + whys)[:LINES_LIMIT]),
        source=clean(", ".join(dict.fromkeys(sight.source for _, sight in ordered))),
        time=now(),
        why=clean("; ".join(whys)) if unknown else "",
    )


def clean(line: str, limit: int = LINE_LIMIT) -> str:
    """One line of evidence: without secrets and control characters, on one line, of at most `limit` bytes of UTF-8."""
    text = " ".join("".join(char if char.isprintable() else " " for char in redact(line)).split())
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"


def declared_args(engines: Sequence[DeclaredEngine]) -> dict[str, Sight]:
    """What the recipe declares, for each of its engines."""
    found = {}
    for engine in engines:
        args = read_args(engine.args, EngineVersion.of_image(engine.image))
        reading = Reading.ON if args.declares_speculation else Reading.OFF
        found[engine.name] = seen(reading, [_config_text(args), f"image {engine.image}"], "recipe, as the Job's input")
    return found


def live_args(pod: Pod, declared: DeclaredEngine) -> Sight:
    """The args in the pod's spec, held against the declared ones."""
    live, wanted = pod.engine_args, read_args(declared.args, EngineVersion.of_image(declared.image))
    source = f"Pod {pod.namespace}/{pod.name}, container engine"
    evidence = [_config_text(live), f"image {pod.image}, {pod.restarts} restarts"]
    in_pod, in_recipe = _flags(live), _flags(wanted)
    for what, flags in (
        ("declared, not in the pod", [flag for flag in in_recipe if flag not in in_pod]),
        ("in the pod, not declared", [flag for flag in in_pod if flag not in in_recipe]),
    ):
        if flags:
            evidence.append(f"{what}: {' '.join(_spelled(*flag) for flag in flags)}")
    if not live.declares_speculation:
        return seen(Reading.OFF, evidence, source)
    if wanted.declares_speculation and _effective(live) != _effective(wanted):
        evidence[0] += f"; declared: {_config_text(wanted)}"
        return seen(Reading.DIFFERS, evidence, source)
    return seen(Reading.ON, evidence, source)


def engine_log(
    pod: Pod, declared: DeclaredEngine, parsed: EngineLog, *, log: Log, served: str, previous: Log | None
) -> Sight:
    """What the engine's own start-up lines say.

    parsed: what was read from log; served: what GET /version gave, "" for nothing; previous: the log of the container
    that this one replaced.
    """
    source = f"log of Pod {pod.namespace}/{pod.name}, container engine"
    error = last_error(previous.text) if previous else None
    evidence = [
        parsed.speculation.evidence,
        _versions(parsed.version or "", served, pod),
        _runner(parsed),
        f"last error before the restart: {error}" if error else "",
        f"non-default args: {parsed.args_line}" if parsed.args_line else "",
    ]
    evidence = [line for line in evidence if line]
    state = parsed.speculation.state
    if state == "unknown":
        return unseen(_why_unknown(parsed, log), source, evidence)
    if state == "off":
        return seen(Reading.OFF, evidence, source)
    difference = _log_difference(parsed, read_args(declared.args, EngineVersion.of_image(declared.image)))
    if difference:
        return seen(Reading.DIFFERS, [difference, *evidence], source)
    return seen(Reading.ON, evidence, source)


def _versions(logged: str, served: str, pod: Pod) -> str:
    tag = pod.version.number
    said = {"log": logged, "/version": served, "image tag": str(tag) if tag else ""}
    told = ", ".join(f"{version} ({where})" for where, version in said.items() if version)
    # A build may carry more than its tag says: 0.23.0+cu129 is a 0.23.0.
    differ = len({EngineVersion.of_text(version).number for version in said.values() if version}) > 1
    return f"engine version {told}{': they differ' if differ else ''}" if told else ""


def _runner(parsed: EngineLog) -> str:
    runner = f"model runner {parsed.runner}" if parsed.runner else ""
    scheduling = {True: "asynchronous scheduling on", False: "asynchronous scheduling off", None: ""}
    return ", ".join(part for part in (runner, scheduling[parsed.async_scheduling]) if part)


def _why_unknown(parsed: EngineLog, log: Log) -> str:
    if parsed.starts:
        return "the start-up line cannot be read"
    if not log.text.strip():
        return "the log is empty"
    first = next((line for line in log.text.splitlines() if line.strip()), "")
    return f"the start-up line is not in the log, which begins with: {clean(first)[:120]} (rotated away, or not vLLM)"


def _log_difference(parsed: EngineLog, wanted: EngineArgs) -> str:
    """What the log says otherwise than the recipe, "" when nothing (also when the recipe declares none)."""
    expected = _effective(wanted)
    said = parsed.speculation
    if not isinstance(expected, SpeculativeConfig):
        return ""
    if said.method is not None and said.method != expected.method:
        return f"the engine says method {said.method}, declared is {expected.method}"
    if said.num_speculative_tokens is not None and said.num_speculative_tokens != expected.num_speculative_tokens:
        return (
            f"the engine says {said.num_speculative_tokens} speculative tokens, "
            f"declared are {expected.num_speculative_tokens}"
        )
    started = resolve(parsed.speculative_args) if parsed.speculative_args else None
    if started and started != expected:
        return f"the engine was started with {_short(started)}, declared is {_short(expected)}"
    return ""


def _flags(args: EngineArgs) -> list[tuple[str, str | None]]:
    """(name, value) of each flag, None for one without a value; speculation aside."""
    return [(name, value) for name, values in args.flags.items() for value in values]


def _spelled(name: str, value: str | None) -> str:
    """One spelling of a flag; a secret is known by its name, whatever characters it has."""
    return f"--{name}" if value is None else f"--{name}={redact_values({name: value})[name]}"


def _effective(args: EngineArgs) -> SpeculativeConfig | Mapping[str, object] | None:
    """What vLLM makes of the config; the raw one where vLLM would refuse it."""
    raw = args.speculative
    return None if raw is None else resolve(raw) or dict(raw)


def _config_text(args: EngineArgs) -> str:
    if not args.declares_speculation:
        return "no speculative config"
    effective = _effective(args)
    if isinstance(effective, SpeculativeConfig):
        return f"speculative config {_short(effective)}"
    return f"speculative config {json.dumps(args.speculative, default=str)}"


def _short(config: SpeculativeConfig) -> str:
    window = f", n-gram {config.lookup_min} to {config.lookup_max}" if config.lookup_max is not None else ""
    model = f", model {config.model}" if config.model else ""
    return f"{config.method}, {config.num_speculative_tokens} tokens{window}{model}"
