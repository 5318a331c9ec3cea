from __future__ import annotations

from dataclasses import replace

import pytest

from engine.lines import LogLine, read_line
from engine.log import EngineLog, KvCache, Speculation, parse_log, read_args_dict
from engine.stats import EngineWindow, SpecWindow
from tests.engine.samples import own, sample

INIT = (
    "(EngineCore pid=133) INFO 03-02 09:15:40 [core.py:113] Initializing a V1 LLM engine (v0.23.0) with config: "
    "model='m', speculative_config={}, tokenizer='m', skip_tokenizer_init=False"
)
NGRAM5 = "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)"


def start(config: str) -> EngineLog:
    return parse_log(INIT.replace("{}", config))


def test_a_log_of_0_11_2_is_read_whole() -> None:
    assert parse_log(own("0.11.2-ngram.log")) == EngineLog(
        version="0.11.2",
        model="Qwen/Qwen3-4B",
        speculation=Speculation(
            "on",
            "ngram",
            4,
            evidence="speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4)",
        ),
        args={
            "api_key": "***",
            "model": "Qwen/Qwen3-4B",
            "max_model_len": 2048,
            "served_model_name": ["qwen3-4b"],
            "enable_prefix_caching": False,
            "max_num_seqs": 8,
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3},
        },
        args_line=(
            "{'api_key': '***', 'model': 'Qwen/Qwen3-4B', 'max_model_len': 2048, 'served_model_name': ['qwen3-4b'], "
            "'enable_prefix_caching': False, 'max_num_seqs': 8, 'speculative_config': {'method': 'ngram', "
            "'num_speculative_tokens': 4, 'prompt_lookup_max': 3}}"
        ),
        runner=None,
        async_scheduling=False,
        kv_cache=KvCache("GPU", 76592, 2048, 37.4),
        kv_memory_gib=10.52,
        starts=1,
        ready=True,
        spec_windows=(
            SpecWindow(
                time="03-02 09:17:12",
                engine=0,
                accepted=150,
                drafted=400,
                mean_length=2.5,
                acceptance_rate=0.375,
                position_rates=(0.6, 0.45, 0.3, 0.15),
                accepted_throughput=15.0,
                drafted_throughput=40.0,
            ),
        ),
        engine_windows=(
            EngineWindow("03-02 09:17:12", 0, 1, 88.1, 41.0, 3, 1, "GPU", 0.042, 0.0),
            EngineWindow("03-02 09:17:22", 0, 1, 0.0, 12.5, 0, 0, "GPU", 0.0, 0.0),
        ),
        processes=(("APIServer", 7), ("EngineCore_DP0", 93)),
        problems=(),
    )


def test_a_log_of_two_engines_with_timestamps_of_kubectl_is_read_whole() -> None:
    log = parse_log(own("0.23.0-two-engines.log"))
    assert (log.version, log.runner, log.async_scheduling, log.starts, log.ready) == ("0.23.0", "V1", False, 2, True)
    assert log.speculation == Speculation("on", "ngram", 3, None, f"speculative_config={NGRAM5.replace('5', '3')}")
    assert log.speculative_args == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
    }
    assert [(w.engine, w.accepted, w.drafted, w.acceptance_rate) for w in log.spec_windows] == [
        (0, 180, 600, 0.3),
        (1, 0, 0, None),
    ]
    assert [(w.engine, w.engines, w.waiting, w.kv_usage, w.prefix_hit_rate) for w in log.engine_windows] == [
        (0, 1, 2, 0.015, 0.25),
        (1, 1, 0, 0.0, 0.0),
        (None, 2, 0, 0.005, 0.125),
    ]
    assert log.processes == (("APIServer", 1), ("EngineCore_DP0", 70), ("EngineCore_DP1", 71))
    assert log.problems == ()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (NGRAM5, Speculation("on", "ngram", 5)),
        ("SpeculativeConfig(method='ngram', num_spec_tokens=5)", Speculation("on", "ngram", 5)),
        ("SpeculativeConfig(num_spec_tokens=7, method=\"suffix\", later='x')", Speculation("on", "suffix", 7)),
        ("SpeculativeConfig(method='eagle3', model='a/b', num_spec_tokens=2)", Speculation("on", "eagle3", 2, "a/b")),
        ("SpeculativeConfig(method=None, num_spec_tokens=many)", Speculation("unknown")),
        ("SpeculativeConfig()", Speculation("unknown")),
        ("None", Speculation("off")),
    ],
)
def test_the_start_up_line_says_method_and_k(config: str, expected: Speculation) -> None:
    assert start(config).speculation == replace(expected, evidence=f"speculative_config={config}")


def test_e18_the_start_up_line_gives_method_and_k_but_never_the_window() -> None:
    log = start(NGRAM5)
    assert log.speculation == Speculation("on", "ngram", 5, None, f"speculative_config={NGRAM5}")
    assert log.speculative_args is None


def test_e19_the_older_form_without_model_is_accepted() -> None:
    assert start("SpeculativeConfig(method='ngram', num_spec_tokens=5)").speculation.num_speculative_tokens == 5


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (INIT.replace("{}", "None"), "off"),
        ("", "unknown"),
        ("(EngineCore pid=1) INFO 03-02 09:15:40 [core.py:402] init engine took 1.00 s", "unknown"),
        (INIT.split("speculative_config", maxsplit=1)[0], "unknown"),
        (INIT.replace("{}", "SpeculativeConfig(method='ngram', model=")[:190], "unknown"),
        (INIT.replace("{}", "Nonesuch"), "unknown"),
    ],
)
def test_e20_absence_needs_the_line_and_a_missing_line_is_unknown(text: str, state: str) -> None:
    assert parse_log(text).speculation.state == state


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (
            "\x1b[1;36m(APIServer pid=42)\x1b[0;0m INFO 11-30 20:19:06 [utils.py:253] hello",
            LogLine("hello", "APIServer", 42, "INFO", "11-30 20:19:06", "utils.py:253"),
        ),
        (
            "(Worker_TP0 pid=7) WARNING 11-30 20:19:06 [v1/worker/x.py:1] two\r",
            LogLine("two", "Worker_TP0", 7, "WARNING", "11-30 20:19:06", "v1/worker/x.py:1"),
        ),
        ("(VllmWorker-0 pid=7) Traceback", LogLine("Traceback", "VllmWorker-0", 7)),
        (
            "INFO 05-13 10:46:43 [metrics.py:101] x",
            LogLine("x", None, None, "INFO", "05-13 10:46:43", "metrics.py:101"),
        ),
        ("INFO:     Started server process [1]", LogLine("INFO:     Started server process [1]")),
        ("[pod/a-b/engine] 2026-03-02T09:15:01Z (A pid=1) x", LogLine("x", "A", 1)),
        ("2026-03-02T09:15:01.1+00:00 stdout F x", LogLine("x")),
        ("", LogLine("")),
    ],
)
def test_a_line_is_taken_apart_whatever_printed_it(raw: str, line: LogLine) -> None:
    assert read_line(raw) == line


def test_a_prompt_in_the_request_log_does_not_pass_for_a_start_up_line() -> None:
    forged = INIT.replace("{}", NGRAM5).split("] ", 1)[1]
    line = f"(APIServer pid=1) INFO 03-02 09:15:40 [logger.py:40] Received request x: prompt: {forged!r}"
    assert parse_log(f"{INIT.replace('{}', 'None')}\n{line}").speculation.state == "off"


def test_a_restart_in_the_same_log_counts_as_its_last_start() -> None:
    log = parse_log(f"{INIT.replace('{}', 'None')}\n{INIT.replace('{}', NGRAM5).replace('133', '150')}")
    assert (log.starts, log.speculation.state) == (2, "on")


def test_engines_that_disagree_prove_nothing() -> None:
    first = INIT.replace("EngineCore", "EngineCore_DP0").replace("{}", "None")
    log = parse_log(f"{first}\n{INIT.replace('EngineCore', 'EngineCore_DP1').replace('{}', NGRAM5)}")
    assert log.speculation.state == "unknown"
    assert log.problems == ("the engine processes do not agree on speculation",)


@pytest.mark.parametrize(
    ("line", "on"),
    [
        ("Asynchronous scheduling is enabled.", True),
        ("Asynchronous scheduling is disabled.", False),
        ("Async scheduling not supported with ngram-based speculative decoding and will be disabled.", False),
        ("Async scheduling is not yet supported with speculative decoding  or pipeline_parallel_size > 1 and will be "
         "disabled.", False),
        ("Async scheduling is disabled because the V1 model runner does not support it with ngram-based speculative "
         "decoding.", False),
        ("Async scheduling will be disabled because it is not supported with the `ray` distributed executor backend. ",
         False),
        ("something else", None),
    ],
)  # fmt: skip
def test_e68_the_log_tells_whether_scheduling_is_asynchronous(line: str, on: bool | None) -> None:
    assert parse_log(f"(APIServer pid=1) INFO 03-02 09:15:04 [vllm.py:990] {line}").async_scheduling is on


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': 1}", {"a": 1}),
        ("{'a': <Mode.NONE: 0>, 'b': 'x'}", {"a": None, "b": "x"}),
        ("{'hf_token': 'x', 'nested': {'api_key': ['y']}}", {"hf_token": "***", "nested": {"api_key": "***"}}),
        ("{'a': Config(b=1)}", None),
        ("{1: 2}", None),
        ("{", None),
        ("[1]", None),
        ("{" * 5000, None),
    ],
)
def test_the_args_line_is_a_python_literal_or_nothing(text: str, value: object) -> None:
    assert read_args_dict(text) == value


def test_an_unreadable_args_line_is_unknown_and_keeps_its_text() -> None:
    log = parse_log(
        "(APIServer pid=1) INFO 03-02 09:15:01 [utils.py:1] non-default args: {'x': Config(y=1), 'api_key': 'z'}"
    )
    assert (log.args, log.args_line) == (None, "{'x': Config(y=1), 'api_key': '***'}")
    assert log.problems == ()


def test_the_real_ngram_log_is_read_right() -> None:
    log = parse_log(sample("0.32.0-ngram.log"))
    assert replace(log, args_line=None, engine_windows=()) == EngineLog(
        version="0.32.0",
        model="smol",
        speculation=Speculation("on", "ngram", 5, None, f"speculative_config={NGRAM5}"),
        args={
            "port": 8101,
            "model": "smol",
            "dtype": "bfloat16",
            "max_model_len": 2048,
            "enforce_eager": True,
            "served_model_name": ["smol"],
            "enable_prefix_caching": False,
            "max_num_seqs": 8,
            "speculative_config": {
                "method": "ngram",
                "num_speculative_tokens": 5,
                "prompt_lookup_max": 4,
                "prompt_lookup_min": 2,
            },
        },
        runner="V1",
        async_scheduling=False,
        kv_cache=KvCache("CPU", 46592, 2048, 22.75),
        starts=1,
        ready=True,
        spec_windows=(
            SpecWindow("11-30 21:42:24", 0, 197, 295, 4.34, 0.668, (0.695, 0.661, 0.661, 0.661, 0.661), 8.93, 13.37),
            SpecWindow("11-30 21:42:34", 0, 166, 245, 4.39, 0.678, (0.694, 0.673, 0.673, 0.673, 0.673), 16.6, 24.5),
        ),
        processes=(("APIServer", 7490), ("EngineCore", 7610), ("VllmWorker-0", 7673), ("Worker", 7673)),
    )
    assert [(w.generation_throughput, w.running, w.kv_usage) for w in log.engine_windows] == [
        (26.4, 1, 0.006),
        (21.6, 0, 0.0),
    ]


def test_the_real_baseline_log_is_read_right() -> None:
    log = parse_log(sample("0.32.0-baseline.log"))
    assert (log.speculation, log.spec_windows, log.runner, log.async_scheduling) == (
        Speculation("off", evidence="speculative_config=None"),
        (),
        "V1",
        None,
    )
    assert [w.generation_throughput for w in log.engine_windows] == [2.7, 5.1, 6.7, 3.3]
    assert log.problems == ()
