from __future__ import annotations

import re

import pytest

from engine.causes import TABLE, Where, explain_log, find_cause, last_error
from tests.engine.samples import own, sample

KV = (
    "ValueError: To serve at least one request with the model's max seq len (1048576), (24.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.97 GiB). Based on the available memory, the estimated "
    "maximum model length is 34736. Try increasing `gpu_memory_utilization`"
)


def seen() -> list[tuple[str, Where, str]]:
    """The messages of data/messages.txt: id of the cause, where it shows, text."""
    rows = [line.split(" | ", 2) for line in own("messages.txt").splitlines() if not line.startswith("#")]
    places: dict[str, Where] = {row.where: row.where for row in TABLE}
    return [(cause_id, places[where], text.replace("\\n", "\n")) for cause_id, where, text in rows]


@pytest.mark.parametrize(("cause_id", "where", "message"), seen())
def test_a_real_message_is_recognised(cause_id: str, where: Where, message: str) -> None:
    found = find_cause(message, where)
    assert found is not None
    assert found.id == cause_id
    assert not re.search(r"[{?}]", found.line().replace("{nvidia.com/gpu: present}", "").replace("{a}", ""))


def test_every_row_of_the_table_has_a_message_that_shows_it() -> None:
    assert sorted(row.id for row in TABLE) == sorted({cause_id for cause_id, _, _ in seen()})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pulling image",
        "Started container engine",
        "INFO:     Application startup complete.",
        "EstablishComposite Applied composite resource CustomResourceDefinition",
    ],
)
def test_what_is_no_failure_has_no_cause(text: str) -> None:
    assert find_cause(text) is None


@pytest.mark.parametrize(
    ("message", "where", "line", "terminal"),
    [
        (
            KV,
            "engine log",
            "a context of 1048576 tokens needs 24.00 GiB of KV cache and 9.97 GiB are there; set --max-model-len to at "
            "most 34736",
            True,
        ),
        (
            "VLLM_PORT 'tcp://169.169.193.120:6785' appears to be a URI",
            "engine log",
            "Kubernetes set VLLM_PORT=tcp://169.169.193.120:6785 for a Service named vllm in the engine's namespace; "
            "rename that Service, or set enableServiceLinks: false on the pod",
            True,
        ),
        (
            "VcpuLimitExceeded current vCPU limit of 0 allows",
            "cloud",
            "the account's vCPU quota for this machine family is 0; ask for more (EC2 quota L-DB2E81BA, or L-3819A6DF "
            "for Spot)",
            True,
        ),
        (
            "GCE_STOCKOUT QUOTA_EXCEEDED",
            "cloud",
            "the cloud has no such machine free in this zone right now (this is not your quota); wait, or list more "
            "zones",
            False,
        ),
        (
            "Evicted",
            "pod",
            "the node ran low on a resource and evicted the pod; take larger nodes or disks",
            False,
        ),
    ],
)
def test_e89_e95_e96_causes_name_the_numbers_of_the_message(
    message: str, where: Where, line: str, terminal: bool
) -> None:
    found = find_cause(message, where)
    assert found is not None
    assert (found.line(), found.terminal) == (line, terminal)


def test_e87_claims_that_cannot_be_allocated_end_the_wait_after_a_short_grace() -> None:
    found = find_cause("0/1 nodes are available: 1 cannot allocate all claims.", "event")
    assert found is not None
    assert (found.terminal, 0 < found.grace_s <= 60) == (True, True)


def test_only_terminal_causes_have_a_grace() -> None:
    assert [row.id for row in TABLE if row.grace_s and not row.terminal] == []


@pytest.mark.parametrize(
    ("name", "error", "cause"),
    [
        (
            "dies-kv-cache.log",
            "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (3.10 GiB). Based on the available memory, the "
            "estimated maximum model length is 22560. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine.",
            "kv-cache-too-small",
        ),
        (
            "dies-speculative-config.log",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig Value error, "
            "prompt_lookup_min=8 must be <= prompt_lookup_max=4 [type=value_error, input_value=ArgsKwargs((), "
            "{'method': 'ngram'}), input_type=ArgsKwargs]",
            "lookup-window",
        ),
        (
            "dies-unknown-argument.log",
            "vllm serve: error: unrecognized arguments: --disable-log-requests",
            "unknown-argument",
        ),
        ("dies-loading.log", None, "killed-while-loading"),
    ],
)
def test_a_dying_engine_is_explained_by_its_own_last_error(name: str, error: str | None, cause: str) -> None:
    found, explained = explain_log(own(name))
    assert found == error
    assert explained is not None
    assert explained.id == cause


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("", None),
        ("INFO 03-02 09:15:01 [a.py:1] fine", None),
        ("(A pid=1) ERROR 03-02 09:15:01 [a.py:1] it broke\n(A pid=1) INFO 03-02 09:15:02 [a.py:1] bye", "it broke"),
        (
            "ValueError: first\nRuntimeError: Engine core initialization failed. See root cause above.",
            "ValueError: first",
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above.",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
        ("KeyError: 'first'\n\nDuring handling of the above exception\n\nValueError: second", "ValueError: second"),
        ("AssertionError", "AssertionError"),
        ("Fatal Python error: Segmentation fault", "Fatal Python error: Segmentation fault"),
        ("ValueError: bad token hf_abcdefghijklmnopqrst", "ValueError: bad token ***"),
        ("ValueError: real\nasyncio.exceptions.CancelledError", "ValueError: real"),
        ("no Error: here", None),
        (
            "(A pid=1) INFO 03-02 09:15:01 [a.py:1] [shutdown] API server: shutdown triggered\nEngineDeadError: x",
            None,
        ),
        ("ValueError: real\nINFO:     Shutting down\nOSError: noise", "ValueError: real"),
        ("INFO:     Shutting down\nnon-default args: {}\nOSError: later", "OSError: later"),
    ],
)
def test_the_deepest_error_is_taken_and_the_wrappers_are_not(log: str, error: str | None) -> None:
    assert last_error(log) == error


@pytest.mark.parametrize("name", ["0.32.0-ngram.log", "0.32.0-baseline.log"])
def test_a_real_log_of_a_healthy_engine_shows_no_error(name: str) -> None:
    assert explain_log(sample(name)) == (None, None)
