"""The whole validation against real servers: fake engines as processes, a gateway, an API server over TLS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.validation.engines import BASELINE_ARGS, SPEC_ARGS, SPECULATIVE, engine
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job, readings, run
from validation.verdict import Verdict


@dataclass(frozen=True)
class Case:
    """An engine (args, version, faults), what the recipe declares (None: the same args), and what comes of it.

    readings: of the five witnesses; "*" is any, since an engine of 1000 tokens a second outruns its reader, whose
    chunks then merge.
    """

    name: str
    verdict: str
    readings: str
    args: Sequence[str] = SPEC_ARGS
    faults: dict[str, Any] = field(default_factory=dict)
    declared: Sequence[str] | None = None
    version: str = "0.23.0"


OTHER_K = (*BASELINE_ARGS, f"--speculative-config={SPECULATIVE.replace('5', '3')}")
OTHER_WINDOW = (*BASELINE_ARGS, f"--speculative-config={SPECULATIVE.replace('2}', '3}')}")
NOT_FOUND = {"status": {"/v1/chat/completions": 404}}

CASES = [
    Case("speculating", "speculating", "on on on on on"),
    Case("speculating, oldest version", "speculating", "on on on on on", version="0.11.2"),
    Case("speculating, V2 runner", "speculating", "on on on on on", version="0.33.0"),
    Case("speculating, keep-alive comments", "speculating", "on on on on on", faults={"keep_alive_comments": True}),
    Case("speculating, thinking", "speculating", "on on on on on", faults={"think": True}),
    Case("a baseline", "baseline", "off off off off *", BASELINE_ARGS),
    Case("a baseline, newest version", "baseline", "off off off off *", BASELINE_ARGS, version="0.33.0"),
    Case("a baseline read slowly", "baseline", "off off off off on", BASELINE_ARGS, {"merge_steps": 3}),
    Case("comes up without speculation", "declared-but-off", "on on off off *", faults={"ignore_speculation": True}),
    Case("test_e11_flag_never_forwarded", "declared-but-off", "on off off off *", BASELINE_ARGS, declared=SPEC_ARGS),
    Case("test_e33_never_drafts", "on-but-inert", "on on on inert *", faults={"never_draft": True}),
    Case("test_e33_never_accepts", "on-but-inert", "on on on inert *", faults={"acceptance": 0.0}),
    Case("test_e32_accepts_one_percent", "on-but-inert", "on on on inert *", faults={"acceptance": 0.02}),
    Case("speculates undeclared", "speculating", "off on on on on", declared=BASELINE_ARGS),
    Case("another k than declared", "cannot-tell", "on differs differs on on", OTHER_K, declared=SPEC_ARGS),
    Case("another window", "cannot-tell", "on differs differs on on", OTHER_WINDOW, declared=SPEC_ARGS),
    Case("a 404", "cannot-tell", "on on on unknown unknown", faults=NOT_FOUND),
    Case("an empty completion", "corrupt-output", "on on on * corrupt", faults={"answer": "empty"}),
    Case("test_e76_a_loop", "corrupt-output", "on on on * corrupt", faults={"answer": "loop"}),
    Case("garbage", "corrupt-output", "on on on * corrupt", faults={"answer": "garbage"}),
    Case("garbage of a baseline", "corrupt-output", "off off off off corrupt", BASELINE_ARGS, {"answer": "garbage"}),
    Case("another text than asked for", "corrupt-output", "on on on * corrupt", faults={"answer": "prose"}),
    Case("test_e45_no_usage", "cannot-tell", "on on on on unknown", faults={"usage": False}),
    Case("a stream cut off", "cannot-tell", "on on on on unknown", faults={"cut_stream": True}),
    Case("a rotated log", "speculating", "on on unknown on on", faults={"start_lines": False}),
    Case("test_e20_rotated_baseline", "baseline", "off off unknown off *", BASELINE_ARGS, {"start_lines": False}),
    Case("a log that lies", "cannot-tell", "on on off on on", faults={"lie": "config_line"}),
    Case("counters that lie", "cannot-tell", "on on on off on", faults={"lie": "metrics"}),
    Case("counters of a baseline that lie", "cannot-tell", "off off off * *", BASELINE_ARGS, {"lie": "metrics"}),
    Case("dies while it answers", "cannot-tell", "on on on * unknown", faults={"crash_after": 1}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_fault_has_its_verdict(kube: KubeServer, tmp_path: Path, case: Case) -> None:
    with engine(tmp_path, case.args, version=case.version, faults=case.faults) as served:
        found = run(kube, job([served], declared=case.declared), [served])
    declared = "speculating" if case.readings.startswith("on ") else "baseline"
    assert (found.verdict, found.declared, found.ok) == (case.verdict, declared, case.verdict == declared), found.text()
    assert fnmatch(readings(found), case.readings), found.text()
    assert Verdict.from_json(found.to_json()) == found
    assert len(found.to_json().encode()) < 64 * 1024
