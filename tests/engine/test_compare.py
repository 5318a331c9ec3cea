from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from engine.arguments import read_args
from engine.compare import args_differences, log_differences
from engine.log import parse_log
from tests.engine.samples import SEED
from tests.validation.shared import SHARED, needs_shared

LENGTH, NAME = "--max-model-len=8192", "--served-model-name=qwen"
ADDED = {"host", "model"}

ARGS = [
    ("the same", [NAME, LENGTH], [LENGTH, NAME], []),
    ("other spellings", ["--max-model-len", "8k"], ["--max_model_len=8000"], []),
    ("a number", ["--gpu-memory-utilization=0.9"], ["--gpu-memory-utilization=0.90"], []),
    ("JSON", ['--hf-overrides={"a": 1, "b": 2}'], ['--hf-overrides={"b":2,"a":1}'], []),
    ("a positional model", ["Qwen/Qwen3-8B"], ["--model=Qwen/Qwen3-8B"], []),
    ("dotted", ["--default-chat-template-kwargs.enable_thinking", "false"],
     ['--default-chat-template-kwargs={"enable_thinking": false}'], []),
    ("speculation is not compared here", ["--spec-tokens=5"], ['--speculative-config={"method": "ngram"}'], []),
    ("the last one counts", [LENGTH, "--max-model-len=4096"], ["--max-model-len=4096"], []),
    ("what a platform adds", [LENGTH], [LENGTH, "--host=::", "--model=/mnt/models"], []),
    ("what it may not change", ["--model=a"], ["--model=b"], [("model", "a", "b")]),
    ("another value", [LENGTH], ["--max-model-len=4096"], [("max-model-len", "8192", "4096")]),
    ("lost", [NAME, LENGTH], [LENGTH], [("served-model-name", "qwen", "")]),
    ("new", [], ["--enforce-eager"], [("enforce-eager", "", "true")]),
    ("the opposite", ["--enable-prefix-caching"], ["--no-enable-prefix-caching"],
     [("enable-prefix-caching", "true", "false")]),
    ("another dotted key", ["--compilation-config.mode=3"], ["--compilation-config.mode=0"],
     [("compilation-config.mode", "3", "0")]),
    ("another name of several", ["--served-model-name", "a", "b"], ["--served-model-name", "a", "c"],
     [("served-model-name", "a b", "a c")]),
    ("thinking", ['--default-chat-template-kwargs={"enable_thinking": false}'], ["--default-chat-template-kwargs={}"],
     [("default-chat-template-kwargs", '{"enable_thinking": false}', "")]),
    ("a secret", ["--api-key=one"], ["--api-key=two"], [("api-key", "***", "***")]),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "expected"), [case[1:] for case in ARGS], ids=[case[0] for case in ARGS])
def test_args_are_held_against_args(
    first: Sequence[str], second: Sequence[str], expected: list[tuple[str, str, str]]
) -> None:
    found = args_differences(read_args(first), read_args(second), added=ADDED)
    assert [(each.flag, each.first, each.second) for each in found] == expected


LINES: list[tuple[str, list[str], Mapping[str, object], list[tuple[str, str, str]]]] = [
    ("the same", [NAME, LENGTH, "--enforce-eager"],
     {"served_model_name": ["qwen"], "max_model_len": 8192, "enforce_eager": True}, []),
    ("a default is left out", ["--port=8000", "--gpu-memory-utilization=0.92"], {}, []),
    ("what nobody asked for here", [], {"host": "127.0.0.1", "model_tag": "m"}, []),
    ("a mask", ["--api-key=one"], {"api_key": "***"}, []),
    ("no literal", ["--compilation-config=3"], {"compilation_config": None}, []),
    ("another kind of value", ["--limit-mm-per-prompt=image=2"], {"limit_mm_per_prompt": {"image": 2}}, []),
    ("as much as fits", ["--max-model-len=auto"], {"max_model_len": -1}, []),
    ("from the environment, unknown here", ["--max-model-len=$(LENGTH)"], {"max_model_len": 4096}, []),
    ("an offline hub's folder", ["--model=Qwen/Qwen3-8B"], {"model": "/hub/snapshots/1"}, []),
    ("switched off", ["--no-enable-prefix-caching"], {"enable_prefix_caching": False}, []),
    ("another number", [LENGTH], {"max_model_len": 4096}, [("max-model-len", "8192", "4096")]),
    ("another model", ["--model=a"], {"model": "b"}, [("model", "a", "b")]),
    ("another name", [NAME], {"served_model_name": ["other"]}, [("served-model-name", "qwen", "['other']")]),
    ("dropped, and it has no default", [LENGTH], {}, [("max-model-len", "8192", "")]),
    ("not switched off", ["--no-enable-prefix-caching"], {"enable_prefix_caching": True},
     [("enable-prefix-caching", "false", "True")]),
    ("thinks", ['--default-chat-template-kwargs={"enable_thinking": false}'],
     {"default_chat_template_kwargs": {"enable_thinking": True}},
     [("default-chat-template-kwargs", '{"enable_thinking": false}', "{'enable_thinking': True}")]),
]  # fmt: skip


@pytest.mark.parametrize(("args", "line", "expected"), [case[1:] for case in LINES], ids=[case[0] for case in LINES])
def test_args_are_held_against_the_line_of_the_log(
    args: Sequence[str], line: Mapping[str, object], expected: list[tuple[str, str, str]]
) -> None:
    found = log_differences(read_args(args), line)
    assert [(each.flag, each.first, each.second) for each in found] == expected


@needs_shared
def test_the_real_engines_line_agrees_with_the_args_that_it_was_started_with() -> None:
    line = parse_log((SHARED / "vllm-samples" / "0.32.0-ngram.log").read_text()).args
    assert line is not None
    args = (
        "--model=smol --served-model-name=smol --port=8101 --dtype=bfloat16 --max-model-len=2048 --enforce-eager "
        "--no-enable-prefix-caching --max-num-seqs=8"
    )
    assert log_differences(read_args(args.split()), line) == []
    assert [found.flag for found in log_differences(read_args(SEED), line)] == [
        "model",
        "served-model-name",
        "max-model-len",
        "default-chat-template-kwargs",
    ]
