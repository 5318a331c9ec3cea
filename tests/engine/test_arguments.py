from __future__ import annotations

import pytest

from engine.arguments import EngineArgs, read_args
from engine.flags import expand, read_int
from engine.versions import EngineVersion
from tests.engine.samples import JSON, NGRAM, SEED


def lines(args: EngineArgs) -> list[str]:
    return [finding.line() for finding in args.findings]


def test_the_seeds_args_are_read_whole() -> None:
    assert read_args(SEED, EngineVersion.of_image("vllm/vllm-openai:v0.23.0")) == EngineArgs(
        model="Qwen/Qwen3-8B",
        served_model_names=("qwen3-8b-spec",),
        max_model_len=16384,
        max_num_seqs=None,
        speculative=NGRAM,
        declares_speculation=True,
        chat_template_kwargs={"enable_thinking": False},
        flags={
            "model": ("Qwen/Qwen3-8B",),
            "served-model-name": ("qwen3-8b-spec",),
            "max-model-len": ("16384",),
            "gpu-memory-utilization": ("0.92",),
            "speculative-config": (JSON,),
            "default-chat-template-kwargs": ('{"enable_thinking": false}',),
        },
        findings=(),
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16384", 16384),
        ("16k", 16000),
        ("16K", 16384),
        ("25.6k", 25600),
        ("1.5K", None),
        ("-1", -1),
        ("x", None),
        ("", None),
    ],
)
def test_numbers_may_have_a_suffix(text: str, number: int | None) -> None:
    assert read_int(text) == number


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["m"], {"model": "m"}),
        (["--model", "m"], {"model": "m"}),
        (["m", "--model=m"], {"model": "m"}),
        (["--enforce-eager", "m"], {"model": "m"}),
        (["--served-model-name", "a", "b", "--port", "1"], {"served_model_names": ("a", "b"), "client_model": "a"}),
        (["m"], {"served_model_names": (), "client_model": "m"}),
        (["--max-model-len", "16k"], {"max_model_len": 16000}),
        (["--max-model-len=auto"], {"max_model_len": -1}),
        (["--max-model-len", "-1"], {"max_model_len": -1}),
        (["--max-num-seqs=8"], {"max_num_seqs": 8}),
    ],
)
def test_other_arguments_are_read_too(args: list[str], expected: dict[str, object]) -> None:
    read = read_args(args)
    assert {name: getattr(read, name) for name in expected} == expected
    assert read.findings == ()


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["a", "--model=b"], "error: args.--model: ['a', 'b']: two models are named; name one"),
        (["a", "b"], "error: args: b: vLLM refuses it as an unrecognized argument; remove it, or name its flag"),
        (
            ["--model=m", "--enable-prefix-caching=true"],
            "error: args.--enable-prefix-caching: true: vLLM refuses a value for this flag; write "
            "--enable-prefix-caching or --no-enable-prefix-caching",
        ),
        (
            ["--max-model-len=long"],
            "error: args.--max-model-len: long: it must be a positive integer; give a number such as 8192",
        ),
        (
            ["--max-num-seqs=0"],
            "error: args.--max-num-seqs: 0: it must be a positive integer; give a number such as 8192",
        ),
        (
            ["--speculative={}"],
            "warning: args.--speculative: vLLM takes this for --speculative-config only as long as no other flag "
            "begins the same way; write --speculative-config",
        ),
        (["--port=1", "--port=2"], "warning: args.--port: 1 and 2: it is given 2 times; vLLM keeps the last; keep one"),
        (
            ["--served-model-name=a", "--served_model_name", "b", "c"],
            "warning: args.--served-model-name: a and b c: it is given 2 times; vLLM keeps the last; keep one",
        ),
        (["--api-key=hidden", "--api-key=secret"], None),
    ],
)
def test_what_is_wrong_with_other_arguments_is_said(args: list[str], problem: str | None) -> None:
    assert lines(read_args(args)) == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("flag", "version", "problem"),
    [
        (
            "--default-chat-template-kwargs={}",
            "v0.11.2",
            "error: args.--default-chat-template-kwargs: vLLM 0.11.2 does not know this flag and would not start (it "
            "exists from 0.14); remove it, or take another version (from 0.14)",
        ),
        ("--default-chat-template-kwargs={}", "v0.23.0", None),
        (
            "--disable-log-requests",
            "v0.23.0",
            "error: args.--disable-log-requests: vLLM 0.23.0 does not know this flag and would not start (it exists up "
            "to 0.16); remove it, or take another version (up to 0.16)",
        ),
        ("--disable-log-requests", "v0.16.0", None),
        (
            "--spec-method=ngram",
            "v0.22.0",
            "warning: args.--spec-method: it is not established that vLLM 0.22.0 knows this flag (it was seen from "
            "0.23); remove it, or take another version (from 0.23)",
        ),
        (
            "-sc={}",
            "v0.11.2",
            "error: args.-sc: vLLM 0.11.2 does not know this flag and would not start (it exists from 0.20); write "
            "--speculative-config",
        ),
        ("-sc={}", "v0.20.0", None),
        (
            "--per-request-spec-decode-metrics=summary",
            "v0.26.0",
            "error: args.--per-request-spec-decode-metrics: vLLM 0.26.0 does not know this flag and would not start "
            "(it exists from 0.29); remove it, or take another version (from 0.29)",
        ),
    ],
)
def test_a_flag_that_the_version_lacks_is_named(flag: str, version: str, problem: str | None) -> None:
    read = read_args(["--model=m", flag], EngineVersion.of_image(f"vllm/vllm-openai:{version}"))
    assert lines(read) == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("command", "args", "model"),
    [
        (["vllm", "serve", "m", "--port=1"], [], "m"),
        (["/usr/bin/vllm", "serve"], ["m"], "m"),
        (["python3", "-m", "vllm.entrypoints.openai.api_server"], ["--model=m"], "m"),
        (["/bin/sh", "-c"], ["exec vllm serve m \\\n  --max-num-seqs 8"], "m"),
        (["bash", "-c", "python3 -m vllm.entrypoints.openai.api_server --model 'm'"], [], "m"),
    ],
)
def test_a_command_that_starts_vllm_is_followed(command: list[str], args: list[str], model: str) -> None:
    read = read_args(args, command=command)
    assert (read.model, read.findings) == (model, ())


@pytest.mark.parametrize("command", [["/start.sh"], ["sh", "-c", "echo 'open"], ["sh", "-c"]])
def test_a_command_that_hides_the_flags_is_said(command: list[str]) -> None:
    read = read_args(["--model=m"], command=command)
    assert read.model is None
    assert [finding.path for finding in read.findings] == ["command"]


def test_a_command_that_hides_the_flags_is_quoted_without_its_secrets() -> None:
    (finding,) = read_args([], command=["sh", "-c", "export HF_TOKEN=tok-3f9a71c2; /start.sh"]).findings
    assert finding.value == "sh -c export HF_TOKEN=***; /start.sh"


def test_kubernetes_variables_are_expanded_where_they_are_known() -> None:
    env = {"NAME": "m", "SECRET": None}
    assert expand(["--model=$(NAME)", "$(SECRET)", "$(OTHER)", "$$(NAME)"], env) == [
        "--model=m",
        "$(SECRET)",
        "$(OTHER)",
        "$(NAME)",
    ]


def test_e11_a_pod_that_lost_the_flag_does_not_declare_speculation() -> None:
    live = [arg for arg in SEED if not arg.startswith("--speculative")]
    assert read_args(SEED).declares_speculation
    assert not read_args(live).declares_speculation


def test_of_a_repeated_list_of_names_vllm_keeps_the_last() -> None:
    assert read_args(["--served-model-name", "a", "b", "--served-model-name=c"]).served_model_names == ("c",)
