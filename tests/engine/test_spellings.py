from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.arguments import read_args, write_speculative
from tests.engine.samples import FEW, JSON, NGRAM, SEED
from tests.engine.test_arguments import lines

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "args",
    [
        [f"--speculative-config={JSON}"],
        ["--speculative-config", JSON],
        [f"--speculative_config={JSON}"],
        ["--speculative_config", JSON],
        ["-sc", JSON],
        [f"-sc={JSON}"],
        [
            "--speculative-config.method",
            "ngram",
            "--speculative-config.num_speculative_tokens=5",
            "--speculative_config.prompt_lookup_max=4",
            "--speculative-config.prompt_lookup_min",
            "2",
        ],
        [
            "-sc.method=ngram",
            "-sc.num_speculative_tokens",
            "5",
            "-sc.prompt_lookup_max",
            "4",
            "-sc.prompt_lookup_min=2",
        ],
        [
            "--spec-method=ngram",
            "--spec_tokens",
            "5",
            '--speculative-config={"prompt_lookup_max": 4, "prompt_lookup_min": 2}',
        ],
        ["--spec-method", "ngram", "--spec-tokens=5", "-sc.prompt_lookup_max=4", "-sc.prompt_lookup_min=2"],
    ],
)
def test_every_spelling_of_one_config_reads_the_same(args: list[str]) -> None:
    read = read_args(["--model=m", *args, "--enforce-eager", "--port", "8001"])
    assert (read.speculative, read.declares_speculation, read.findings) == (NGRAM, True, ())
    assert (read.model, read.value("port"), read.enabled("enforce-eager")) == ("m", "8001", True)


@pytest.mark.parametrize("args", [[], ["--speculative-config=null"], ["--speculative-config", "None"], ["-sc", ""]])
def test_no_config_is_a_baseline(args: list[str]) -> None:
    read = read_args(["--model=m", *args])
    assert (read.speculative, read.declares_speculation, read.findings) == (None, False, ())


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            ['--speculative-config={"a":1}', '--speculative_config={"a":1}'],
            'error: args.--speculative-config: {"a":1} and {"a":1}: it is given 2 times; vLLM would keep only the '
            "last; "
            "keep one --speculative-config=JSON",
        ),
        (
            ['--speculative-config={"method":"ngram"}', "-sc.num_speculative_tokens=5"],
            'error: args.--speculative-config: {"method":"ngram"}: -sc.num_speculative_tokens is given too; vLLM would '
            "keep only the dotted keys and drop the JSON; keep one --speculative-config=JSON",
        ),
        (
            ["--speculative-config.method=ngram", "-sc.num_speculative_tokens=5"],
            "error: args.--speculative-config: its keys are given under --speculative-config and -sc; vLLM would keep "
            "only one of the two groups; use --speculative-config for all of them",
        ),
        (
            ["-sc.method=ngram", "-sc.method=suffix"],
            "error: args.-sc.method: suffix: this key is given twice; keep one of them",
        ),
        (
            ["--spec-tokens=5", '--speculative-config={"method":"ngram","num_speculative_tokens":3}'],
            "error: args.--spec-tokens: 5: the speculative config already says num_speculative_tokens=3; vLLM refuses "
            "both; keep one of them",
        ),
        (
            ["--spec-method=ngram", "--spec-method=ngram"],
            "error: args.--spec-method: ngram: it is given twice; vLLM would keep only the last; keep one of them",
        ),
        (
            ['--speculative-config={"method":"ngram","num_speculative_tokens":5,"num_speculative_tokens":3}'],
            "error: args.--speculative-config: "
            '{"method":"ngram","num_speculative_tokens":5,"num_speculative_tokens":3}: '
            "the key num_speculative_tokens is given twice; keep one of them",
        ),
        (
            ['--speculative-config=\'{"method": "ngram"}\''],
            'error: args.--speculative-config: \'{"method": "ngram"}\': this is not JSON (Expecting value: line 1 '
            "column "
            "1 (char 0)); leave the outer quotes out: no shell reads these args",
        ),
        (
            ["--speculative-config={'method': 'ngram'}"],
            "error: args.--speculative-config: {'method': 'ngram'}: this is not JSON (Expecting property name enclosed "
            "in double quotes: line 1 column 2 (char 1)); give a JSON object with double quotes",
        ),
        (
            ["--speculative-config=[]"],
            'error: args.--speculative-config: []: this is not a JSON object; give one, such as {"method": "ngram", …}',
        ),
        (
            ["--speculative-config"],
            "error: args.--speculative-config: its value is missing; give the config as JSON",
        ),
        (["-sc.method"], "error: args.-sc.method: its value is missing; give one"),
        (["--spec-tokens="], "error: args.--spec-tokens: its value is missing; give one"),
    ],
)
def test_e15_spellings_that_contradict_each_other_are_never_silently_picked(args: list[str], problem: str) -> None:
    read = read_args(["--model=m", *args])
    assert (read.speculative, read.declares_speculation, lines(read)) == (None, True, [problem])


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("-sc.num_speculative_tokens=5", 5),
        ("-sc.num_speculative_tokens=1k", 1000),
        ("-sc.num_speculative_tokens=five", "five"),
        ("-sc.num_speculative_tokens=true", True),
        ('-sc.num_speculative_tokens="5"', "5"),
        ("-sc.num_speculative_tokens+=4,8", ["4", "8"]),
        ("-sc.num_speculative_tokens.a.b=1", {"a": {"b": 1}}),
        ("--spec-tokens=7", 7),
        ("--spec-tokens=x", "x"),
    ],
)
def test_values_outside_json_are_read_as_vllm_does(argument: str, value: object) -> None:
    assert read_args([argument]).speculative == {"num_speculative_tokens": value}


@pytest.mark.parametrize(
    ("args", "config", "written"),
    [
        (SEED, NGRAM, SEED),
        (SEED, None, [arg for arg in SEED if not arg.startswith("--speculative")]),
        (["--model=m"], {"method": "suffix"}, ["--model=m", '--speculative-config={"method": "suffix"}']),
        (["-sc", "{}", "--port", "1"], {"a": 1}, ['--speculative-config={"a": 1}', "--port", "1"]),
        (
            ["a", "-sc.k", "1", "b", "--spec-tokens", "5", "c"],
            {"a": 1},
            ["a", '--speculative-config={"a": 1}', "b", "c"],
        ),
        (["--speculative_config={}", "--speculative-config={}"], None, []),
        ([], None, []),
    ],
)
def test_the_config_is_written_in_the_place_of_all_spellings(
    args: list[str], config: dict[str, object] | None, written: list[str]
) -> None:
    assert write_speculative(args, config) == written


@FEW
@given(st.dictionaries(st.text(max_size=8), _VALUES, max_size=6), st.lists(st.sampled_from(SEED), unique=True))
def test_what_is_written_is_read_back(config: dict[str, object], args: list[str]) -> None:
    read = read_args(write_speculative(args, config))
    assert (read.speculative, read.declares_speculation) == (config, True)
