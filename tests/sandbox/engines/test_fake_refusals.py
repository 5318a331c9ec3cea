"""What each version refuses at start, in vLLM's words; and that our own cause table knows each of these ends."""

from __future__ import annotations

import json

import pytest

from engine.causes import explain_log
from engine.rules import check_engine
from engine.versions import EngineVersion
from sandbox.engines.fake import exits
from sandbox.engines.fake.log import Log
from sandbox.engines.fake.plan import Plan, make_plan
from tests.sandbox.engines.fake import ARGS, BASE, SEED, refused


def spec(**changes: object) -> tuple[str, ...]:
    config = {key: value for key, value in {**SEED, **changes}.items() if value is not None}
    return (*BASE, f"--speculative-config={json.dumps(config)}")


def end(args: tuple[str, ...], version: str, env: dict[str, str] | None = None) -> tuple[str, str, int] | None:
    """(last words without the tail about pydantic, who says it, exit code), None when it starts."""
    found = make_plan(args, {"ENGINE_VERSION": version, **(env or {})})
    if isinstance(found, Plan):
        return None
    lines = [line.strip() for line in found.message.splitlines() if "further information" not in line]
    return " | ".join(line.partition(" [type=")[0] for line in lines), found.where, found.code


VALIDATION = "pydantic_core._pydantic_core.ValidationError: 1 validation error for"
CONFIG = f"{VALIDATION} SpeculativeConfig"
EVERY = ("0.11.2", "0.14.0", "0.16.0", "0.23.0", "0.32.0", "0.33.0")

CASES = {
    # (args, versions that start, versions that refuse, last words, who, exit code)
    "the seed": (ARGS, ("0.14.0", "0.23.0", "0.32.0", "0.33.0"), (), "", "", 0),
    "min > max": (
        spec(prompt_lookup_min=5, prompt_lookup_max=2),
        (),
        EVERY,
        f"{CONFIG} | Value error, prompt_lookup_min=5 must be <= prompt_lookup_max=2",
        "server",
        1,
    ),
    "min 0": (
        spec(prompt_lookup_min=0),
        (),
        EVERY,
        f"{CONFIG} | prompt_lookup_min | Input should be greater than or equal to 1",
        "server",
        1,
    ),
    "k 0": (
        spec(num_speculative_tokens=0),
        (),
        EVERY,
        f"{CONFIG} | num_speculative_tokens | Input should be greater than 0",
        "server",
        1,
    ),
    "k 5.5": (
        spec(num_speculative_tokens=5.5),
        (),
        EVERY,
        f"{CONFIG} | num_speculative_tokens | Input should be a valid integer, got a number with a fractional part",
        "server",
        1,
    ),
    'k "five"': (
        spec(num_speculative_tokens="five"),
        (),
        EVERY,
        f"{CONFIG} | num_speculative_tokens | Input should be a valid integer, unable to parse string as an integer",
        "server",
        1,
    ),
    "no k": (
        spec(num_speculative_tokens=None),
        (),
        EVERY,
        f"{CONFIG} | Value error, num_speculative_tokens must be provided with speculative model unless the draft "
        "model config contains an n_predict parameter.",
        "server",
        1,
    ),
    "an unknown key": (
        spec(prompt_lookup=4),
        ("0.11.2", "0.14.0"),  # dropped without a word
        ("0.16.0", "0.23.0", "0.32.0", "0.33.0"),
        f"{CONFIG} | prompt_lookup | Unexpected keyword argument",
        "server",
        1,
    ),
    "a key with hyphens": (
        (*BASE, '--speculative-config={"method": "ngram", "num-speculative-tokens": 5}'),
        ("0.32.0",),
        ("0.23.0",),
        f"{CONFIG} | num-speculative-tokens | Unexpected keyword argument",
        "server",
        1,
    ),
    "tensor_parallel_size": (
        spec(tensor_parallel_size=1),
        ("0.11.2",),
        ("0.23.0", "0.32.0"),
        f"{CONFIG} | Value error, 'tensor_parallel_size' is not a valid argument in the speculative_config. Please "
        "pass 'draft_tensor_parallel_size' instead.",
        "server",
        1,
    ),
    "neither method nor model": (
        spec(method=None),
        (),
        EVERY,
        f"{CONFIG} | Value error, num_speculative_tokens was provided but without speculative model.",
        "server",
        1,
    ),
    "a method of another version": (
        spec(method="ngram_gpu"),
        ("0.23.0", "0.33.0"),
        ("0.11.2",),
        f"{CONFIG} | method | Input should be ",
        "server",
        1,
    ),
    "config that is no JSON": (
        (*BASE, "--speculative-config={method: ngram}"),
        (),
        EVERY,
        "argument --speculative-config: Value {method: ngram} cannot be converted to <function loads at ",
        "parser",
        2,
    ),
    "config and flag": (
        (*ARGS, "--spec-tokens=4"),
        (),
        ("0.23.0", "0.32.0"),
        "ValueError: --spec-tokens and --speculative-config['num_speculative_tokens'] are mutually exclusive",
        "server",
        1,
    ),
    "async scheduling": (
        (*ARGS, "--async-scheduling"),
        ("0.33.0",),
        ("0.23.0",),
        f"{VALIDATION} VllmConfig | Value error, Currently, async scheduling is only supported with EAGLE/MTP/Draft "
        "Model/NGram GPU kind of speculative decoding",
        "server",
        1,
    ),
    "numbers for a baseline that only speculation has": (
        (*BASE, "--per-request-spec-decode-metrics=summary"),
        (),
        ("0.32.0",),
        f"{VALIDATION} VllmConfig | Value error, --per-request-spec-decode-metrics requires speculative decoding to be "
        "enabled (via --speculative-config).",
        "server",
        1,
    ),
    "a flag that came later": (
        ARGS,
        ("0.14.0",),
        ("0.11.2", "0.13.0"),
        'unrecognized arguments: --default-chat-template-kwargs={"enable_thinking": false}',
        "parser",
        2,
    ),
    "a flag that is gone": (
        (*BASE, "--disable-log-requests"),
        ("0.11.2", "0.16.0"),
        ("0.18.0", "0.23.0", "0.32.0"),
        "unrecognized arguments: --disable-log-requests",
        "parser",
        2,
    ),
    "a stray word": ((*BASE, "one", "two"), (), EVERY, "unrecognized arguments: two", "parser", 2),
    "a value for a switch": (
        (*BASE, "--enforce-eager=true"),
        (),
        EVERY,
        "argument --enforce-eager/--no-enforce-eager: ignored explicit argument 'true'",
        "parser",
        2,
    ),
    "a context that is no number": (
        ("--model=Qwen/Qwen3-8B", "--max-model-len=abc"),
        (),
        EVERY,
        "argument --max-model-len: invalid human_readable_int_or_auto value: 'abc'",
        "parser",
        2,
    ),
    "a context longer than the model's": (
        ("--model=Qwen/Qwen3-8B", "--max-model-len=50000"),
        (),
        EVERY,
        f"{VALIDATION} ModelConfig | Value error, User-specified max_model_len (50000) is greater than the derived "
        "max_model_len (max_position_embeddings=40960.0 or model_max_length=None in model's config.json). To allow "
        "overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
        "server",
        1,
    ),
    "the model's own context on an L4": (
        ("--model=Qwen/Qwen3-8B",),
        (),
        EVERY,
        "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (",
        "core",
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_version_starts_or_refuses_in_its_own_words(case: str) -> None:
    args, start, refuse, words, where, code = CASES[case]
    assert {version: end(args, version) for version in start} == dict.fromkeys(start)
    for version in refuse:
        found = end(args, version)
        assert found is not None, version
        assert (found[0][: len(words)], found[1], found[2]) == (words, where, code), version


def test_environment_can_refuse_and_allow() -> None:
    service = {"VLLM_PORT": "tcp://10.96.0.7:8000"}
    assert "VLLM_PORT 'tcp://10.96.0.7:8000' appears to be a URI" in str(end(ARGS, "0.23.0", service))
    allowed = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1", "FAKE_ENGINE": '{"device_memory_gib": 80}'}
    assert end(("--model=Qwen/Qwen3-8B", "--max-model-len=50000"), "0.23.0", allowed) is None


@pytest.mark.parametrize(
    ("version", "what"),
    [
        ("0.20.0", None),
        ("0.23.0", "ngram/ngram_gpu speculative decoding"),
        ("0.26.0", "ngram/ngram_gpu speculative decoding"),
        ("0.29.0", "speculative method 'ngram'"),
        ("0.31.0", "speculative method 'ngram'"),
        ("0.32.0", None),
        ("0.33.0", None),
    ],
)
def test_a_forced_v2_runner_is_refused_where_it_has_no_ngram(version: str, what: str | None) -> None:
    forced = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    found = end(ARGS, version, forced)
    assert (found is None) is (what is None)
    assert what is None or f"Model Runner V2 does not yet support: {what}" in str(found)
    # As the check before the deployment says it.
    refused = {f.path for f in check_engine(f"vllm/vllm-openai:v{version}", ARGS, forced) if f.severity == "error"}
    assert ("env.VLLM_USE_V2_MODEL_RUNNER" in refused) is (what is not None)
    assert end(ARGS, version, {"VLLM_USE_V2_MODEL_RUNNER": "0"}) is None
    assert end(tuple(arg for arg in ARGS if "speculative" not in arg), version, forced) is None, "the baseline starts"


def test_a_build_for_cpus_speculates_only_from_0_20_on() -> None:
    args = ("--model=HuggingFaceTB/SmolLM2-135M-Instruct", "--speculative-config=" + json.dumps(SEED))
    cpu = {"ENGINE_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1"}
    assert end(args, "0.18.0", cpu) == ("AssertionError: spec decode is not supported.", "core", 1)
    plan = make_plan(args, {"ENGINE_VERSION": "0.32.0", **cpu})
    # The size and the runner that the real one showed with 1 GiB.
    assert isinstance(plan, Plan)
    assert (plan.kv_tokens, plan.runner, plan.max_model_len) == (46592, "V1", 8192)


CAUSES = {
    "cuda_803": "driver-mismatch",
    "kv_cache_too_small": "kv-cache-too-small",
    "no_cache_blocks": "kv-cache-none",
    "out_of_memory": "gpu-out-of-memory",
    "free_memory": "gpu-memory-taken",
    "gated_model": "model-gated",
    "unknown_model": "model-not-found",
    "no_hub": "hub-unreachable",
    "unsupported_arch": "unknown-architecture",
    "disk_full": "disk-full",
    "unknown_argument": "unknown-argument",
}


@pytest.mark.parametrize("version", ["0.11.2", "0.23.0", "0.32.0"])
@pytest.mark.parametrize("kind", CAUSES)
def test_each_forced_end_is_known_by_its_log(kind: str, version: str) -> None:
    lines: list[str] = []
    found = exits.forced(kind, "meta-llama/Llama-3.1-8B")
    code = exits.die(Log(EngineVersion.of_text(version).features, lines.append), found)
    error, cause = explain_log("".join(lines))
    assert (code, cause.id if cause else error) == (2 if kind == "unknown_argument" else 1, CAUSES[kind])


def test_an_unknown_kind_of_end_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"error: FAKE_ENGINE\.exit: 'bored': unknown; known are cuda_803, "):
        exits.forced("bored", "m")


def test_a_refusing_process_ends_with_the_code_and_the_words() -> None:
    code, log = refused(spec(prompt_lookup_min=5, prompt_lookup_max=2), "0.32.0")
    assert (code, log.splitlines()[0]) == (1, "Traceback (most recent call last):")
    assert "prompt_lookup_min=5 must be <= prompt_lookup_max=2" in log
    code, log = refused((*ARGS, "--disable-log-requests"), "0.23.0")
    assert (code, "vllm serve: error: unrecognized arguments: --disable-log-requests" in log) == (2, True)
    code, log = refused(ARGS, settings={"exit": {"message": "RuntimeError: of our own", "code": 7}})
    assert (code, log.splitlines()[-1].partition(") ")[2]) == (7, "RuntimeError: of our own")
    code, log = refused(ARGS, settings={"speed": 3})
    assert (code, log.startswith("error: FAKE_ENGINE.speed: 3: unknown")) == (2, True)
