from __future__ import annotations

from collections.abc import Mapping

import pytest

from engine.findings import Severity
from engine.rules import check_engine, ngram_runner
from engine.versions import EngineVersion
from tests.engine.samples import JSON, SEED

CONFIG = f"--speculative-config={JSON}"
CLEAN_TOOLS = CONFIG.replace('"prompt_lookup_min": 2', '"prompt_lookup_min": 8').replace('_max": 4', '_max": 10')
V11, V23, V32, V33 = (f"vllm/vllm-openai:v{text}" for text in ("0.11.2", "0.23.0", "0.32.0", "0.33.0"))


def check(
    image: str, *args: str, env: Mapping[str, str | None] | tuple[str, ...] = (), model: str = "Qwen/Qwen3-8B"
) -> list[str]:
    return [finding.line() for finding in check_engine(image, [f"--model={model}", *args], env)]


@pytest.mark.parametrize(
    ("image", "args"),
    [
        (V23, SEED),
        (V23, [arg for arg in SEED if not arg.startswith("--speculative")]),
        (V32, SEED),
        (
            V11,
            [CONFIG, "--model=Qwen/Qwen3-4B", "--max-model-len=2048", "--max-num-seqs=8", "--no-enable-prefix-caching"],
        ),
        (
            "vllm/vllm-openai-cpu:v0.32.0",
            [
                "--model=HuggingFaceTB/SmolLM2-135M-Instruct",
                "--served-model-name=smollm2-135m-spec",
                "--max-model-len=2048",
                "--dtype=bfloat16",
                "--enforce-eager",
                "--max-num-seqs=8",
                "--no-enable-prefix-caching",
                CONFIG,
            ],
        ),
    ],
)
def test_what_this_stack_serves_has_no_finding(image: str, args: list[str]) -> None:
    assert check_engine(image, args) == []


@pytest.mark.parametrize(
    ("image", "args", "env", "said"),
    [
        (
            V23,
            [CONFIG, "--enable-lora"],
            {},
            "error: args.--enable-lora: n-gram speculation with LoRA crashes the engine (vLLM issue 20284, open); "
            "serve the adapter without speculation, or merge it",
        ),
        (V23, ["--enable-lora"], {}, None),
        (
            V23,
            [CONFIG, "--disable-log-stats"],
            {},
            "error: args.--disable-log-stats: it stops the SpecDecoding log lines and all counters, so speculation "
            "could not be measured; remove it",
        ),
        (V23, ["--disable-log-stats"], {}, None),
        (
            V33,
            ["--per-request-spec-decode-metrics=detailed"],
            {},
            "error: args.--per-request-spec-decode-metrics: detailed: vLLM would not start: it requires speculation to "
            "be enabled; give it to the speculating engine only",
        ),
        (V33, ["--per-request-spec-decode-metrics=none"], {}, None),
        (V33, [CONFIG, "--per-request-spec-decode-metrics=detailed"], {}, None),
        (
            V11,
            [CONFIG, "--async-scheduling"],
            {},
            "error: args.--async-scheduling: ngram: vLLM 0.11.2 would not start: Currently, async scheduling is only "
            "supported with EAGLE/MTP kind of speculative decoding; remove it: vLLM chooses the scheduling that fits "
            "the method",
        ),
        (
            V32,
            [CONFIG, "--async_scheduling"],
            {},
            "error: args.--async-scheduling: ngram: vLLM 0.32.0 would not start: Currently, async scheduling is only "
            "supported with EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash kind of speculative decoding; remove it: "
            "vLLM chooses the scheduling that fits the method",
        ),
        (V33, [CONFIG, "--async-scheduling"], {}, None),
        (V23, [CONFIG, "--no-async-scheduling"], {}, None),
        (V23, [CONFIG, "--async-scheduling", "--no-async-scheduling"], {}, None),
        (V23, [CONFIG.replace("ngram", "ngram_gpu"), "--async-scheduling"], {}, None),
        (
            V33,
            [CONFIG, "--async-scheduling"],
            {"VLLM_USE_V2_MODEL_RUNNER": "0"},
            "error: args.--async-scheduling: ngram: vLLM 0.33.0 would not start: Currently, async scheduling is only "
            "supported with EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash kind of speculative decoding; remove it: "
            "vLLM chooses the scheduling that fits the method",
        ),
        (
            V23,
            ["--max-model-len=65536"],
            {},
            "error: args.--max-model-len: 65536: Qwen/Qwen3-8B has a context of 40960 tokens; vLLM would not start; "
            "use at most 40960",
        ),
        (
            V23,
            ["--max-model-len=65536"],
            {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
            "warning: args.--max-model-len: 65536: Qwen/Qwen3-8B has a context of 40960 tokens; beyond it answers may "
            "be wrong; use at most 40960",
        ),
        (
            V23,
            ["--max-model-len=65536"],
            {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"},
            "error: args.--max-model-len: 65536: Qwen/Qwen3-8B has a context of 40960 tokens; vLLM would not start; "
            "use at most 40960",
        ),
        (V23, ["--max-model-len=40960"], {}, None),
        (
            V23,
            [CONFIG],
            {"VLLM_USE_V2_MODEL_RUNNER": "1"},
            "error: env.VLLM_USE_V2_MODEL_RUNNER: 1: vLLM 0.23.0 would not start: its V2 model runner does not support "
            "n-gram speculation; remove it, or take vLLM 0.32 or newer",
        ),
        (V23, [], {"VLLM_USE_V2_MODEL_RUNNER": "1"}, None),
        (V11, [CONFIG], {"VLLM_USE_V2_MODEL_RUNNER": "1"}, None),
        (V33, [CONFIG], {"VLLM_USE_V2_MODEL_RUNNER": "1"}, None),
        (V23, ["--max-model-len=auto"], {}, None),
        (
            "vllm/vllm-openai-cpu:v0.18.0",
            [CONFIG],
            {},
            "error: image: vllm/vllm-openai-cpu:v0.18.0: CPU builds of this version refuse speculation (assertion: "
            "spec decode is not supported.); use vLLM 0.20 or newer",
        ),
        (
            V23,
            [CONFIG, "--pipeline-parallel-size=2"],
            {},
            "warning: args.--pipeline-parallel-size: 2: speculation with pipeline parallelism is not known to have "
            "been tested; use tensor parallelism, or one GPU",
        ),
        (
            V23,
            [CONFIG, "--api-server-count=2"],
            {},
            "warning: args.--api-server-count: 2: with several API servers vLLM logs no SpecDecoding lines; use one to "
            "see them in the log",
        ),
        (
            V23,
            [CONFIG, "--config=/etc/vllm.yaml"],
            {},
            "warning: args.--config: /etc/vllm.yaml: flags in this file are not seen here, so they are not checked; "
            "give the flags as args",
        ),
        (
            V23,
            ["--api-key=hidden"],
            {},
            "warning: args.--api-key: ***: whoever may read the pod or the deployment reads it, and vLLM 0.23.0 prints "
            "it in its log; set VLLM_API_KEY from a Secret instead",
        ),
        (
            V33,
            ["--api-key", "hidden"],
            {},
            "warning: args.--api-key: ***: whoever may read the pod or the deployment reads it; set VLLM_API_KEY from "
            "a Secret instead",
        ),
        (
            V23,
            [],
            {"VLLM_PORT": "tcp://192.0.2.1:80"},
            "error: env.VLLM_PORT: tcp://192.0.2.1:80: this is the address that Kubernetes sets for a Service named "
            "vllm; vLLM would not start; rename the Service, or set enableServiceLinks: false",
        ),
        (
            V23,
            [],
            ("VLLM_PORT",),
            "warning: env.VLLM_PORT: it is the port of vLLM's inner processes, not of its API; use --port for the API",
        ),
        (V23, [], ("HF_TOKEN",), None),
    ],
)
def test_what_does_not_go_together_is_said(
    image: str, args: list[str], env: Mapping[str, str | None] | tuple[str, ...], said: str | None
) -> None:
    assert check(image, *args, env=env) == ([said] if said else [])


def test_e06_tools_with_a_short_window_are_warned_of() -> None:
    warning = (
        "warning: speculative_config.prompt_lookup_min: 2: tool calls came out corrupted with prompt_lookup_min=2 and "
        "clean with 8 (vLLM issue 40875, open); use prompt_lookup_min >= 8, or serve tools without speculation"
    )
    assert check(V23, CONFIG, "--enable-auto-tool-choice", "--tool-call-parser=hermes") == [warning]
    assert check(V23, CONFIG, "--enable-auto-tool-choice") == [warning]
    assert check(V23, CLEAN_TOOLS, "--tool-call-parser", "hermes") == []
    assert check(V23, "--tool-call-parser", "hermes") == []


def test_e07_the_parser_that_ngram_mangles_is_warned_of() -> None:
    assert check(V23, CLEAN_TOOLS, "--tool-call-parser=qwen3_coder") == [
        "warning: args.--tool-call-parser: qwen3_coder: n-gram speculation mangles the arguments that this parser "
        "reads (vLLM issue 56077, open); serve tools without speculation"
    ]


@pytest.mark.parametrize("image", [V11, V23, V33])
def test_e09_lora_with_ngram_is_refused_on_every_version(image: str) -> None:
    assert [line.split(":")[1] for line in check(image, CONFIG, "--enable-lora") if line.startswith("error")] == [
        " args.--enable-lora"
    ]


def test_e13_the_flag_of_the_speculating_arm_is_refused_on_the_baseline() -> None:
    flags = ["--per-request-spec-decode-metrics=summary", "--max-num-seqs=8"]
    assert check(V33, CONFIG, *flags) == []
    assert [line.split(":")[1] for line in check(V33, *flags)] == [" args.--per-request-spec-decode-metrics"]


def test_e27_an_engine_that_cannot_be_measured_is_refused_only_when_it_speculates() -> None:
    assert len(check(V23, CONFIG, "--disable-log-stats")) == 1
    assert check(V23, "--disable-log-stats") == []


def test_an_unreadable_config_counts_as_speculation_and_not_as_a_baseline() -> None:
    lines = check(V33, "--speculative-config={", "--per-request-spec-decode-metrics=summary", "--disable-log-stats")
    assert [line.split(":")[1] for line in lines] == [" args.--speculative-config", " args.--disable-log-stats"]


def test_errors_come_first_and_the_version_is_said() -> None:
    findings = check_engine("vllm/vllm-openai:latest", ["--model=Qwen/Qwen3-8B", "--max-model-len=1M", CONFIG])
    assert [(finding.severity, finding.path) for finding in findings] == [
        (Severity.ERROR, "args.--max-model-len"),
        (Severity.WARNING, "image"),
    ]


def test_a_missing_model_and_a_hybrid_one_are_said() -> None:
    assert [finding.path for finding in check_engine(V23, [CONFIG])] == ["args.--model"]
    assert [line.split(":")[1] for line in check(V33, CONFIG, model="Qwen/Qwen3.5-9B")] == [" args.--model"]
    assert check(V33, model="Qwen/Qwen3.5-9B") == []


def test_variables_of_the_pod_are_filled_in_before_the_rules_look() -> None:
    args = ["--model=$(MODEL)", "--max-model-len=$(LENGTH)"]
    found = check_engine(V23, args, {"MODEL": "Qwen/Qwen3-8B", "LENGTH": "50000"})
    assert [finding.path for finding in found] == ["args.--max-model-len"]


@pytest.mark.parametrize(
    ("image", "env", "runner"),
    [
        (V23, {}, "V1"),
        (V32, {}, "V2"),
        ("vllm/vllm-openai-cpu:v0.32.0", {}, "V1"),
        (V32, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "V1"),
        (V23, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "V2"),
        (V32, {"VLLM_USE_V2_MODEL_RUNNER": None}, "V2"),
    ],
)
def test_the_runner_of_ngram_follows_version_build_and_environment(
    image: str, env: dict[str, str | None], runner: str
) -> None:
    assert ngram_runner(EngineVersion.of_image(image), env) == runner
