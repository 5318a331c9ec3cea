"""What the engine will be: arguments and environment resolved as vLLM does at start, or the reason why it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.arguments import EngineArgs, read_args
from engine.flags import tokens
from engine.models import ModelFacts, model_facts
from engine.rules import ngram_runner
from engine.speculative import SpeculativeConfig, resolve
from engine.versions import EngineVersion, Runner
from sandbox.engines.fake import exits
from sandbox.engines.fake.refusals import as_read, refuse
from sandbox.engines.fake.settings import Settings, read_settings

_GIB = 2**30
# Beside the weights: activations of the profile run, CUDA graphs, context. Between 1 and 2 GiB are usual on an L4.
_OVERHEAD_GIB = 1.0
# vLLM's KV block in tokens on each device.
_BLOCK = {"cuda": 16, "cpu": 128}
# When nothing is known of the model: a context and a cache that no test of ours fills.
_UNKNOWN_CONTEXT, _UNKNOWN_CACHE = 8192, 131072
# vLLM's defaults on a GPU with less than 70 GiB, and on CPU.
_MAX_NUM_SEQS = 256
_DEFAULT_MODEL = "Qwen/Qwen3-0.6B"


@dataclass(frozen=True)
class Plan:
    """An engine about to start. config: None without speculation; kv_tokens: size of the KV cache in tokens."""

    version: EngineVersion
    device: str
    args: EngineArgs
    settings: Settings
    model: str
    names: tuple[str, ...]
    max_model_len: int
    max_num_seqs: int
    kv_tokens: int
    host: str
    port: int
    config: SpeculativeConfig | None = None
    runner: Runner = "V1"
    api_keys: tuple[str, ...] = ()
    thinks: bool = False
    shown_args: Mapping[str, object] = field(default_factory=dict)

    @property
    def version_text(self) -> str:
        return str(self.version.number or self.version.effective)

    def changed(self, settings: Settings) -> Plan:
        """The same engine with other settings."""
        return replace(self, settings=settings, thinks=_thinks(self.args, settings, self.model))


def make_plan(argv: Sequence[str], env: Mapping[str, str]) -> Plan | exits.Exit:
    """Read arguments and environment. ValueError, one line, for a wrong FAKE_ENGINE."""
    settings = read_settings(env.get("FAKE_ENGINE"))
    device = env.get("ENGINE_DEVICE", "cuda")
    version = EngineVersion.of_text(env.get("ENGINE_VERSION", ""), cpu=device == "cpu")
    args = read_args(list(argv), version)
    model = args.model or _DEFAULT_MODEL
    if settings.exit is not None:
        return exits.forced(settings.exit, model)
    facts = model_facts(model)
    if refused := refuse(argv, args, version, env, facts):
        return refused
    speculative = None if settings.ignore_speculation else args.speculative
    length, cache = _memory(args, settings, facts, version, env)
    if isinstance(cache, exits.Exit):
        return cache
    return Plan(
        version=version,
        device=device,
        args=args,
        settings=settings,
        model=model,
        names=args.served_model_names or (model,),
        max_model_len=length,
        max_num_seqs=args.max_num_seqs or _MAX_NUM_SEQS,
        kv_tokens=cache,
        host=args.value("host") or "0.0.0.0",
        port=args.number("port") or 8000,
        config=resolve(as_read(speculative, version)) if speculative is not None else None,
        runner=ngram_runner(version, {**env}),
        api_keys=tuple(key for key in args.flags.get("api-key", ()) if key) or _env_key(env),
        thinks=_thinks(args, settings, model),
        shown_args=_shown(argv, args, version, settings),
    )


def _env_key(env: Mapping[str, str]) -> tuple[str, ...]:
    return (env["VLLM_API_KEY"],) if env.get("VLLM_API_KEY") else ()


def _memory(
    args: EngineArgs, settings: Settings, facts: ModelFacts | None, version: EngineVersion, env: Mapping[str, str]
) -> tuple[int, int | exits.Exit]:
    """Context length and size of the KV cache, both in tokens."""
    asked = args.max_model_len
    if facts is None:
        length = asked if asked and asked > 0 else _UNKNOWN_CONTEXT
        return length, max(length, _UNKNOWN_CACHE)
    if version.cpu:
        available = float(env.get("VLLM_CPU_KVCACHE_SPACE") or 4) * _GIB
    else:
        share = float(args.value("gpu-memory-utilization") or version.features.gpu_memory_utilization)
        available = (settings.device_memory_gib * share - _OVERHEAD_GIB) * _GIB - 2 * facts.parameters
    block = _BLOCK["cpu" if version.cpu else "cuda"]
    cache = int(available // (facts.kv_bytes_per_token() * block)) * block
    if cache <= 0:
        return 0, exits.NO_BLOCKS
    if asked == -1:
        return min(facts.max_position_embeddings, cache), cache
    length = asked or facts.max_position_embeddings
    if cache < length:
        needed = length * facts.kv_bytes_per_token() / _GIB
        return length, exits.no_fit(length, needed, available / _GIB, cache)
    return length, cache


def _thinks(args: EngineArgs, settings: Settings, model: str) -> bool:
    """A Qwen3 chat model thinks unless its chat template is told not to."""
    if settings.think is not None:
        return settings.think
    return bool(re.search(r"(?:^|/)Qwen3-", model)) and not args.thinking_off


def _json(text: str | None) -> object:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None


# As vLLM prints them: in the order of its parser, not of the command line.
_ORDER = ("default_chat_template_kwargs", "host", "port", "api_key", "model", "dtype", "max_model_len", "enforce_eager")
_LAST = ("max_num_seqs", "speculative_config")
_BOOLEAN = ("enforce_eager", "trust_remote_code", "async_scheduling")


def _shown(argv: Sequence[str], args: EngineArgs, version: EngineVersion, settings: Settings) -> dict[str, object]:
    """The dict of the `non-default args` line."""
    found: dict[str, object] = {}
    for token in tokens(list(argv)):
        if (
            not token.name
            or token.keys
            or token.name in ("speculative-config", "spec-method", "spec-model", "spec-tokens")
        ):
            continue
        negative = token.name.startswith("no-")
        name = token.name.removeprefix("no-").replace("-", "_")
        found[name] = _shown_value(token.name, token.values) if token.values else not negative
    if args.model:
        found["model"] = args.model
    if args.chat_template_kwargs:
        found["default_chat_template_kwargs"] = dict(args.chat_template_kwargs)
    if "served_model_name" in found:
        found["served_model_name"] = list(args.served_model_names)
    if "api_key" in found:
        shown = version.features.api_key_in_log or settings.print_api_key
        found["api_key"] = list(args.flags["api-key"]) if shown else "***"
    speculative = args.speculative
    if settings.ignore_speculation:
        speculative = None
    if settings.lie == "args_line":
        speculative = None if speculative is not None else {"method": "ngram", "num_speculative_tokens": 5}
    if speculative is not None:
        found["speculative_config"] = dict(speculative)
    defaults: dict[str, object] = {"port": 8000, "gpu_memory_utilization": version.features.gpu_memory_utilization}
    kept = {key: value for key, value in found.items() if key not in defaults or value != defaults[key]}
    middle = sorted(key for key in kept if key not in _ORDER + _LAST)
    return {key: kept[key] for key in (*_ORDER, *middle, *_LAST) if key in kept}


def _shown_value(flag: str, values: tuple[str, ...]) -> object:
    text = values[-1]
    if flag in ("model", "host", "dtype", "served-model-name", "reasoning-parser", "tool-call-parser", "revision"):
        return text
    known = _json(text)
    return text if known is None else known
