"""Three accounts of how an engine was configured, held against each other flag by flag: recipe, pod, the engine's log.

A difference is told with both sides. Where it changes whether the engine speculates at all, the reading is the worse
one, on or off; any other makes it `differs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from engine.arguments import EngineArgs, read_args
from engine.causes import last_error
from engine.compare import Difference, args_differences, log_differences
from engine.log import EngineLog
from engine.rules import RUNNER_VARIABLE, forced_runner
from engine.speculative import SpeculativeConfig, resolve
from engine.versions import EngineVersion, image_release, same_release
from validation.kube import Log
from validation.pods import Pod
from validation.settings import DeclaredEngine
from validation.verdict import Reading
from validation.witnesses import Sight, clean, seen, unseen

# What a platform may add to the args of a recipe that is silent about it: Modelplane names the model that it has
# cached, others where to listen and what clients call the model.
_ADDED = frozenset({"host", "model", "port", "served-model-name"})


# Keys of a speculative config that SpeculativeConfig stands for.
_RESOLVED = frozenset({"method", "model", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"})


@dataclass(frozen=True)
class _Config:
    """A speculative config: what vLLM makes of it (None: it would refuse it), and its keys beside that."""

    effective: SpeculativeConfig | None
    more: Mapping[str, object]


@dataclass(frozen=True)
class LogAccount:
    """What there is to read of a pod's engine log.

    served: what GET /version gave, "" for nothing; kept: when the start-up lines in `parsed` were kept, "" when the log
    still has them; previous: the log of the container that this one replaced.
    """

    parsed: EngineLog
    log: Log
    served: str = ""
    kept: str = ""
    previous: Log | None = None


def declared(engine: DeclaredEngine) -> EngineArgs:
    """The args of the recipe as its engine reads them."""
    return read_args(engine.args, EngineVersion.of_image(engine.image), command=engine.command)


def declared_args(engines: Sequence[DeclaredEngine]) -> dict[str, Sight]:
    """What the recipe declares, for each of its engines."""
    found = {}
    for engine in engines:
        args = declared(engine)
        reading = Reading.ON if args.declares_speculation else Reading.OFF
        found[engine.name] = seen(reading, [_config_text(args), f"image {engine.image}"], "recipe, as the Job's input")
    return found


def live_args(pod: Pod, engine: DeclaredEngine) -> Sight:
    """The args in the pod's spec, held against the declared ones."""
    live, wanted = pod.engine_args, _wanted(pod, engine)
    differences = [_told(found, "declared", "in the pod") for found in args_differences(wanted, live, added=_ADDED)]
    if _read(live.speculative) != _read(wanted.speculative):
        differences.insert(0, f"declared {_config_text(wanted)}, in the pod {_config_text(live)}")
    if not same_release(image_release(engine.image), image_release(pod.image)):
        differences.append(f"image: declared {engine.image}, in the pod {pod.image}")
    evidence = [_config_text(live), f"image {pod.image}, {pod.restarts} restarts"]
    return _judged(
        Reading.ON if live.declares_speculation else Reading.OFF,
        wanted,
        differences,
        unseen("", f"Pod {pod.namespace}/{pod.name}, container engine", evidence),
    )


def engine_log(pod: Pod, engine: DeclaredEngine, account: LogAccount) -> Sight:
    """What the engine's own start-up lines and its /version say, held against recipe, image tag and environment."""
    parsed, wanted = account.parsed, _wanted(pod, engine)
    source = f"log of Pod {pod.namespace}/{pod.name}, container engine"
    error = last_error(account.previous.text) if account.previous else None
    evidence = [
        parsed.speculation.evidence,
        f"start-up lines as kept for this container at {account.kept}" if account.kept else "",
        _versions(parsed.version or "", account.served, pod),
        _runner(parsed),
        f"last error before the restart: {error}" if error else "",
        f"non-default args: {parsed.args_line}" if parsed.args_line else "",
    ]
    if account.kept:
        source += ", and start-up lines kept of it"
    differences = [*_log_differences(parsed, wanted, pod), *_version_differences(parsed.version, account.served, pod)]
    readings = {"on": Reading.ON, "off": Reading.OFF, "unknown": Reading.UNKNOWN}
    silent = unseen(_why_unknown(parsed, account.log), source, [line for line in evidence if line])
    return _judged(readings[parsed.speculation.state], wanted, differences, silent)


def _wanted(pod: Pod, engine: DeclaredEngine) -> EngineArgs:
    """The declared args as the pod's environment completes them."""
    return pod.read(engine.args, EngineVersion.of_image(engine.image), engine.command)


def _judged(reading: Reading, wanted: EngineArgs, differences: Sequence[str], silent: Sight) -> Sight:
    """The sight with what was found; silent: the same, had nothing been found."""
    right = Reading.ON if wanted.declares_speculation else Reading.OFF
    if differences and reading in {right, Reading.UNKNOWN}:
        return seen(Reading.DIFFERS, ["; ".join(differences), *silent.evidence], silent.source)
    if reading is Reading.UNKNOWN:
        return silent
    return seen(reading, [*silent.evidence, *differences], silent.source)


def _log_differences(parsed: EngineLog, wanted: EngineArgs, pod: Pod) -> Iterator[str]:
    said, config = parsed.speculation, _read(wanted.speculative)
    if said.state == "on" and config and (expected := config.effective):
        if said.method is not None and said.method != expected.method:
            yield f"declared method {expected.method}, the engine says {said.method}"
        if said.num_speculative_tokens is not None and said.num_speculative_tokens != expected.num_speculative_tokens:
            yield f"declared {expected.num_speculative_tokens} tokens, the engine says {said.num_speculative_tokens}"
    if parsed.args is not None:
        started = _read(parsed.speculative_args)
        if started != config:
            yield f"declared {_text(config)}, started with {_text(started)}"
        for found in log_differences(wanted, parsed.args):
            yield _told(found, "declared", "started with")
    asked = forced_runner(pod.env)
    if asked and parsed.runner and parsed.runner != asked:
        yield f"{RUNNER_VARIABLE} asks for model runner {asked}, the engine says {parsed.runner}"
    scheduling = wanted.enabled("async-scheduling")
    if scheduling is not None and parsed.async_scheduling not in (None, scheduling):
        yield f"declared --{'' if scheduling else 'no-'}async-scheduling, the engine says {_scheduling(parsed)}"


def _version_differences(logged: str | None, served: str, pod: Pod) -> Iterator[str]:
    said = {"the image tag": image_release(pod.image), "the log": logged or "", "/version": served}
    for (one, first), (other, second) in combinations(said.items(), 2):
        if not same_release(first, second):
            yield f"engine version: {one} says {first}, {other} says {second}"


def _versions(logged: str, served: str, pod: Pod) -> str:
    said = {"log": logged, "/version": served, "image tag": image_release(pod.image) or "none"}
    return "engine version " + ", ".join(f"{version} ({where})" for where, version in said.items() if version)


def runner_note(parsed: EngineLog, wanted: EngineArgs, version: EngineVersion) -> str:
    """What is to be said when another model runner serves n-gram than the version would take by itself, else ""."""
    config = _read(wanted.speculative)
    if not parsed.runner or not config or not config.effective or not config.effective.is_ngram:
        return ""
    if parsed.runner == version.ngram_runner:
        return ""  # asked for by the environment or not, the counters count otherwise
    return (
        f"model runner {parsed.runner} serves n-gram, where {version} takes {version.ngram_runner}: "
        "acceptance rates of the two cannot be compared"
    )


def _runner(parsed: EngineLog) -> str:
    runner = f"model runner {parsed.runner}" if parsed.runner else ""
    return ", ".join(part for part in (runner, _scheduling(parsed)) if part)


def _scheduling(parsed: EngineLog) -> str:
    said = {True: "asynchronous scheduling on", False: "asynchronous scheduling off", None: ""}
    return said[parsed.async_scheduling]


def _why_unknown(parsed: EngineLog, log: Log) -> str:
    if parsed.starts:
        return "the start-up line cannot be read"
    if not log.text.strip():
        return "the log is empty"
    first = next((line for line in log.text.splitlines() if line.strip()), "")
    return (
        f"the start-up line is not in the log, which begins with: {clean(first)[:120]} (rotated away, or not vLLM), "
        "and none was kept of this container"
    )


def _told(found: Difference, first: str, second: str) -> str:
    return f"--{found.flag}: {first} {found.first or 'nothing'}, {second} {found.second or 'nothing'}"


def _read(raw: Mapping[str, object] | None) -> _Config | None:
    if raw is None:
        return None
    # Hyphens in keys are rewritten by some versions; where they are not, the engine's own line shows what came of it.
    keys = {key.replace("-", "_"): value for key, value in raw.items()}
    return _Config(resolve(keys), {key: value for key, value in keys.items() if key not in _RESOLVED})


def _config_text(args: EngineArgs) -> str:
    if args.declares_speculation and args.speculative is None:
        return "contradictory speculative configs"
    return _text(_read(args.speculative))


def _text(config: _Config | None) -> str:
    if config is None:
        return "no speculative config"
    effective = config.effective
    if effective is None:
        return "a speculative config that vLLM refuses"
    window = f", n-gram {effective.lookup_min} to {effective.lookup_max}" if effective.lookup_max is not None else ""
    model = f", model {effective.model}" if effective.model else ""
    more = f", {json.dumps(config.more, default=str)}" if config.more else ""
    return f"speculative config {effective.method}, {effective.num_speculative_tokens} tokens{window}{model}{more}"
