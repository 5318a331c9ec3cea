"""Experiments on servers of the test: how they are run, and what an engine's pages look like."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

from bench.plan import Plan
from bench.progress import Progress
from bench.prompts import Case, PromptSet
from bench.records import Arm
from bench.runner import Experiment
from bench.schedule import Design
from bench.switch import GivenAddresses, Placed
from engine.findings import Problems
from tests.bench.hostile import Hostile, hostile

CASES = PromptSet("own", (Case("a", "copy", "A"), Case("b", "copy", "B"), Case("c", "short", "C")))


def metrics(
    *, start: float = 1.0, generated: int = 0, finished: int = 0, hits: int = 0, caching: str = "False", k: int = 0
) -> bytes:
    """An engine's page; k: with the counters of speculation."""
    own = 'engine="0",model_name="m"'
    lines = [
        f"process_start_time_seconds {start}",
        f"vllm:generation_tokens_total{{{own}}} {generated}",
        f'vllm:request_success_total{{{own},finished_reason="stop"}} {finished}',
        f"vllm:prefix_cache_queries_total{{{own}}} {hits}",
        f"vllm:prefix_cache_hits_total{{{own}}} {hits}",
        f'vllm:cache_config_info{{engine="0",enable_prefix_caching="{caching}"}} 1',
    ]
    if k:
        names = ("drafts", "draft_tokens", "accepted_tokens")
        lines += [f"vllm:spec_decode_num_{name}_total{{{own}}} 0" for name in names]
    return page("\n".join(lines) + "\n")


def page(text: str) -> bytes:
    raw = text.encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw)


def plan(out: Path, **more: Any) -> Plan:
    """A small plan for one arm, or for the arms given."""
    arms = more.pop("arms", {"A": Arm.UNKNOWN})
    names = {"A": "baseline", "B": "speculative"}
    usual = {
        "design": Design.SINGLE,
        "prompts": CASES,
        "repeats": 2,
        "warmup_passes": 1,
        "cycles": 1,
        "patience_s": 0.0,
    }
    return Plan(out, arms, names, **{**usual, **more})


async def run(given: Plan, **engines: Placed) -> list[str]:
    """Run a plan on engines by arm; the lines it ends with, less the one on how busy this machine is."""
    switch = GivenAddresses({arm: engines.get(arm.value) or engines["engine"] for arm in given.arms.values()})
    try:
        found = await Experiment(given, switch, Progress(io.StringIO(), given.requests)).run()
    except Problems as problems:
        found = list(problems.findings)
    return [line for finding in found if "the client itself was late" not in (line := finding.line())]


def measure(out: Path, *, placed: dict[str, Any] | None = None, pages: Any = None, **more: Any) -> tuple[Any, Hostile]:
    """One arm on a hostile server that has these pages; the lines and the server as it was left."""

    async def both() -> tuple[list[str], Hostile]:
        answers = more.pop("answers", None)
        server = {"answers": answers} if answers else {}
        async with hostile(pages=pages or {"/metrics": [metrics()]}, **server) as state:
            lines = await run(plan(out, **more), engine=Placed(state.address, **(placed or {})))
            return [line.replace(state.address, "URL") for line in lines], state

    return asyncio.run(both())
