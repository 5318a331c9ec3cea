"""Folders of runs made up for the comparison: what each arm's requests took, and what they answered."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.records import Arm, Block, ClientPlace, Engine, PromptSetId, Request, Run, Service, Tokens

FAMILIES = {"copy": 3, "explain": 3, "short": 3}
# Seconds of a token without speculation.
TPOT = 0.02
Change = Callable[[Request], Request | None]

RUN = Run(
    Arm.BASELINE,
    Engine("vllm/vllm-openai:v0.23.0", "0.23.0", ("--model", "m")),
    Service("http://engine", "m", 1),
    None,
    ClientPlace("host", "here", "local"),
    PromptSetId("teaching", "sha256:1"),
    concurrency=1,
    repeats=5,
    seed=1,
    max_tokens=128,
    started="2026-01-01T00:00:00+00:00",
)


def page(counters: dict[str, int]) -> dict[str, object]:
    """A scrape as a block holds it; counters: by the series' name."""
    lines = [f'{name}{{engine="0",model_name="m"}} {value}' for name, value in counters.items()]
    return {"page": "\n".join(lines) + "\n"} if lines else {}


def request(arm: Arm, family: str, case: str, repeat: int, *, tpot: float, block: int = 0, text: str = "") -> Request:
    tokens = 21
    return Request(
        block, arm, family, case, repeat, False, 1, float(repeat), 0.1, 0.1 + 20 * tpot, (0.1, 0.1 + 20 * tpot), None,
        text or f"The answer to {family} {case}.", "stop", Tokens(30, tokens), 200, None, 0.0, 0.0,
    )  # fmt: skip


def write(
    folder: Path,
    order: str,
    *,
    gains: dict[str, float] | None = None,
    drift: float = 0.0,
    first_order: int = 0,
    run: Run = RUN,
    cases: dict[str, int] | None = None,
    change: Change = lambda r: r,
    counters: dict[str, int] | None = None,
    seed: int = 1,
) -> Path:
    """One folder; order: an arm a block, B or S; drift: what each block is slower by than the one before it."""
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    blocks, lines = [], []
    for index, letter in enumerate(order):
        arm = Arm.BASELINE if letter == "B" else Arm.SPECULATIVE
        place = first_order + index
        told = {} if arm is Arm.BASELINE else counters or {}
        before, after = page(dict.fromkeys(told, 0)), page(told)
        started = f"2026-01-01T0{place}:00:00+00:00"
        blocks.append(Block(index, arm, place, started, started, before, after))
        for family, count in (cases or FAMILIES).items():
            for case in range(count):
                for repeat in range(run.repeats):
                    tpot = TPOT * (1 + drift) ** place * (1 + 0.01 * case) * chance.uniform(0.99, 1.01)
                    if arm is Arm.SPECULATIVE:
                        tpot /= (gains or {}).get(family, 1.0)
                    made = change(request(arm, family, str(case), repeat, tpot=tpot, block=index))
                    lines.append(made.to_line() if made else "")
    arms = {block.arm for block in blocks}
    run = replace(run, arm=next(iter(arms)) if len(arms) == 1 else Arm.UNKNOWN, blocks=tuple(blocks))
    (folder / "run.json").write_text(run.to_json())
    (folder / "requests.jsonl").write_text("".join(lines))
    return folder
