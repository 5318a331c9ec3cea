"""The verdict on the real vLLM: speculating, baseline, and on but inert, on the same model and the same probes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.engines import real
from tests.sandbox.engines.vllm import vllm
from tests.validation.engines import Engine, address
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job, readings, run
from validation.verdict import Outcome

# Each case is a start of the engine.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ARGS = (
    f"--model={real.MODEL}",
    "--served-model-name=qwen",
    "--max-model-len=2048",
    "--dtype=bfloat16",
    "--enforce-eager",
    "--max-num-seqs=8",
    "--no-enable-prefix-caching",
)
NGRAM = '--speculative-config={"method": "ngram", "num_speculative_tokens": 5, %s}'
# No text of the probe repeats a hundred tokens, so nothing ever matches.
LONG = NGRAM % '"prompt_lookup_min": 100, "prompt_lookup_max": 100'

CASES = [
    (
        (*ARGS, NGRAM % '"prompt_lookup_min": 2, "prompt_lookup_max": 4'),
        (Outcome.SPECULATING, True, "on on on on on"),
    ),
    (ARGS, (Outcome.BASELINE, True, "off off off off off")),
    ((*ARGS, LONG), (Outcome.INERT, False, "on on on inert off")),
]


@pytest.mark.parametrize(("args", "expected"), CASES, ids=["speculating", "baseline", "on but inert"])
def test_the_verdict(
    kube: KubeServer, tmp_path: Path, args: tuple[str, ...], expected: tuple[Outcome, bool, str]
) -> None:
    host = address()
    with vllm(tmp_path, args, host, "qwen") as served:
        engine = Engine(host, f"vllm/vllm-openai-cpu:v{real.VERSION}", args, served.output)
        found = run(kube, job([engine]), [engine])
    assert (found.verdict, found.ok, readings(found)) == expected, found.text()
