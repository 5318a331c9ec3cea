"""Everything known about an engine before it starts, from its image, args and environment.

An error stops the deployment: the engine would not start, would not speculate, or could not be measured. A warning is
said and deployed. Sources are facts of the version table and public issues of vLLM, named in the finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from engine.arguments import EngineArgs, read_args
from engine.findings import Finding, Severity
from engine.flags import expand
from engine.models import is_hybrid, model_facts
from engine.names import NGRAM_METHODS
from engine.speculative import check_speculative, effective_method, resolve
from engine.versions import EngineVersion, Runner

# The shortest n-gram with which tool calls came out clean (vLLM issue 40875).
TOOL_CALL_LOOKUP_MIN = 8
RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
_FORCED_RUNNER: Mapping[str | None, Runner] = {"0": "V1", "1": "V2"}
_LONG_CONTEXT_VARIABLE = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"

Environment = Mapping[str, str | None] | Collection[str]


def check_engine(
    image: str,
    args: Sequence[str],
    env: Environment = (),
    *,
    command: Sequence[str] = (),
    allow_wide_window: bool = False,
) -> list[Finding]:
    """All findings about an engine, errors first. env: names, or names with values (None: a value not known here)."""
    values = dict(env) if isinstance(env, Mapping) else dict.fromkeys(env)
    version = EngineVersion.of_image(image)
    engine = read_args(expand(args, values), version, command=expand(command, values))
    found = [version.finding] if version.finding else []
    found += engine.findings
    if engine.speculative is not None:
        found += check_speculative(engine.speculative, version, allow_wide_window=allow_wide_window)
        found += _check_combinations(engine, engine.speculative, version, values)
    elif not engine.declares_speculation:
        found += _check_baseline(engine)
    found += [*_check_model(engine, values), *_check_measurable(engine), *_check_environment(values)]
    found += _check_secrets(engine, version)
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def ngram_runner(version: EngineVersion, env: Mapping[str, str | None]) -> Runner:
    """Which model runner will serve n-gram: VLLM_USE_V2_MODEL_RUNNER overrides the version's own choice."""
    return forced_runner(env) or version.ngram_runner


def forced_runner(env: Mapping[str, str | None]) -> Runner | None:
    """The model runner that VLLM_USE_V2_MODEL_RUNNER asks for, None when it is not set."""
    return _FORCED_RUNNER.get(env.get(RUNNER_VARIABLE))


def runner_refuses_ngram(version: EngineVersion, env: Mapping[str, str | None]) -> bool:
    """Whether the environment forces the V2 runner on a version that has it, but not for n-gram: it does not start.

    What a CPU build does when forced is not established.
    """
    has_v2, for_ngram = version.features.baseline_runner != "V1", version.features.ngram_runner == "V2"
    return forced_runner(env) == "V2" and has_v2 and not for_ngram and not version.cpu


def _error(path: str, value: object, why: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, path, value, why, remedy)


def _warning(path: str, value: object, why: str, remedy: str = "") -> Finding:
    return Finding(Severity.WARNING, path, value, why, remedy)


def _check_combinations(
    engine: EngineArgs, raw: Mapping[str, object], version: EngineVersion, env: Mapping[str, str | None]
) -> Iterator[Finding]:
    method = effective_method(raw)
    ngram = method in NGRAM_METHODS
    if version.cpu and version.features.cpu_speculates is False:
        why = "CPU builds of this version refuse speculation (assertion: spec decode is not supported.)"
        say = _error if version.read_itself else _warning
        yield say("image", version.source, why, "use vLLM 0.20 or newer")
    if engine.enabled("enable-lora") and ngram:
        why = "n-gram speculation with LoRA crashes the engine (vLLM issue 20284, open)"
        yield _error("args.--enable-lora", None, why, "serve the adapter without speculation, or merge it")
    yield from _check_async(engine, raw, method, version, env)
    if engine.enabled("kv-sharing-fast-prefill") and method in {"eagle", "eagle3", "mtp"}:
        why = "fast prefill for KV sharing is refused with EAGLE methods"
        yield _error("args.--kv-sharing-fast-prefill", None, why, "remove one of the two")
    if ngram:
        yield from _check_runner(version, env)
        yield from _check_tools(engine, raw)
    stages = engine.number("pipeline-parallel-size")
    if stages and stages > 1:
        why = "speculation with pipeline parallelism is not known to have been tested"
        yield _warning("args.--pipeline-parallel-size", stages, why, "use tensor parallelism, or one GPU")
    if engine.model and ngram and is_hybrid(engine.model):
        why = "n-gram speculation corrupts the output of models with recurrent layers (vLLM issue 39273, open)"
        yield _warning("args.--model", engine.model, why, "serve it without speculation")


def _check_async(
    engine: EngineArgs,
    raw: Mapping[str, object],
    method: str | None,
    version: EngineVersion,
    env: Mapping[str, str | None],
) -> Iterator[Finding]:
    if not engine.enabled("async-scheduling"):
        return
    path, rules = "args.--async-scheduling", version.features
    remedy = "remove it: vLLM chooses the scheduling that fits the method"
    on_v2 = method in NGRAM_METHODS and rules.async_ngram_on_v2 and ngram_runner(version, env) == "V2"
    if method not in rules.async_methods and not on_v2:
        yield _error(path, method, f"{version} would not start: {rules.async_refusal}", remedy)
    elif raw.get("disable_padded_drafter_batch") is True:
        why = f"{version} would not start: it is not compatible with disable_padded_drafter_batch"
        yield _error(path, None, why, remedy)


def _check_runner(version: EngineVersion, env: Mapping[str, str | None]) -> Iterator[Finding]:
    if runner_refuses_ngram(version, env):
        why = f"{version} would not start: its V2 model runner does not support n-gram speculation"
        yield _error(f"env.{RUNNER_VARIABLE}", "1", why, "remove it, or take vLLM 0.32 or newer")


def _check_tools(engine: EngineArgs, raw: Mapping[str, object]) -> Iterator[Finding]:
    parser = engine.value("tool-call-parser")
    if parser is None and not engine.enabled("enable-auto-tool-choice"):
        return
    config = resolve(raw)
    lower = config.lookup_min if config else None
    if lower is not None and lower < TOOL_CALL_LOOKUP_MIN:
        why = f"tool calls came out corrupted with prompt_lookup_min=2 and clean with {TOOL_CALL_LOOKUP_MIN}"
        remedy = f"use prompt_lookup_min >= {TOOL_CALL_LOOKUP_MIN}, or serve tools without speculation"
        yield _warning("speculative_config.prompt_lookup_min", lower, f"{why} (vLLM issue 40875, open)", remedy)
    if parser == "qwen3_coder":
        why = "n-gram speculation mangles the arguments that this parser reads (vLLM issue 56077, open)"
        yield _warning("args.--tool-call-parser", parser, why, "serve tools without speculation")


def _check_baseline(engine: EngineArgs) -> Iterator[Finding]:
    flag = "per-request-spec-decode-metrics"
    mode = engine.value(flag)
    if flag in engine.flags and mode != "none":
        why = "vLLM would not start: it requires speculation to be enabled"
        yield _error(f"args.--{flag}", mode, why, "give it to the speculating engine only")


def _check_model(engine: EngineArgs, env: Mapping[str, str | None]) -> Iterator[Finding]:
    if engine.model is None and "config" not in engine.flags and not _command_unread(engine):
        why = "no model is named; vLLM would serve its own default, Qwen/Qwen3-0.6B"
        yield _warning("args.--model", None, why, "add --model=<id>")
    facts = model_facts(engine.model) if engine.model else None
    length = engine.max_model_len
    if facts is None or length is None or length <= facts.max_position_embeddings:
        return
    limit = facts.max_position_embeddings
    why = f"{facts.id} has a context of {limit} tokens; vLLM would not start"
    # vLLM takes 1 and true; None is a value not known here.
    allowed = _LONG_CONTEXT_VARIABLE in env and env[_LONG_CONTEXT_VARIABLE] in (None, "1", "true")
    if allowed or "hf-overrides" in engine.flags:
        why = f"{facts.id} has a context of {limit} tokens; beyond it answers may be wrong"
        yield _warning("args.--max-model-len", length, why, f"use at most {limit}")
    else:
        yield _error("args.--max-model-len", length, why, f"use at most {limit}")


def _command_unread(engine: EngineArgs) -> bool:
    return any(finding.path == "command" for finding in engine.findings)


def _check_measurable(engine: EngineArgs) -> Iterator[Finding]:
    if "config" in engine.flags:
        why = "flags in this file are not seen here, so they are not checked"
        yield _warning("args.--config", engine.value("config"), why, "give the flags as args")
    if not engine.declares_speculation:
        return
    if engine.enabled("disable-log-stats"):
        why = "it stops the SpecDecoding log lines and all counters, so speculation could not be measured"
        yield _error("args.--disable-log-stats", None, why, "remove it")
    servers = engine.number("api-server-count")
    if servers and servers > 1:
        why = "with several API servers vLLM logs no SpecDecoding lines"
        yield _warning("args.--api-server-count", servers, why, "use one to see them in the log")


def _check_environment(env: Mapping[str, str | None]) -> Iterator[Finding]:
    if "VLLM_PORT" in env:
        value = env["VLLM_PORT"]
        if value is not None and "://" in value:
            why = "this is the address that Kubernetes sets for a Service named vllm; vLLM would not start"
            yield _error("env.VLLM_PORT", value, why, "rename the Service, or set enableServiceLinks: false")
        else:
            why = "it is the port of vLLM's inner processes, not of its API"
            yield _warning("env.VLLM_PORT", value, why, "use --port for the API")


def _check_secrets(engine: EngineArgs, version: EngineVersion) -> Iterator[Finding]:
    for flag in ("api-key", "hf-token"):
        if flag not in engine.flags:
            continue
        why = "whoever may read the pod or the deployment reads it"
        if flag == "api-key" and version.features.api_key_in_log:
            why += f", and {version} prints it in its log"
        name = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}[flag]
        yield _warning(f"args.--{flag}", "***", why, f"set {name} from a Secret instead")
