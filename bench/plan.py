"""What an experiment is to measure, in which order, and where it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import schedule
from bench.client import Work
from bench.prompts import PromptSet
from bench.records import Arm
from bench.schedule import Design, Slot


@dataclass(frozen=True)
class Plan:
    """What to measure.

    arms: by side ("A", and "B" in a pair); names: of the sides' folders; warmup_passes: at most so many over all
    cases; headers: sent with every call (a token among them); thinking: leave it as the model has it.
    """

    out: Path
    arms: Mapping[str, Arm]
    names: Mapping[str, str]
    design: Design
    prompts: PromptSet
    concurrencies: tuple[int, ...] = (1,)
    repeats: int = 10
    cycles: int = 2
    seed: int = 42
    max_tokens: int = 128
    warmup_passes: int = 4
    prefix_caching: bool = False
    thinking: bool = False
    per_chunk: bool = True
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service_run: str | None = None
    location: str = ""
    network_path: str = ""
    patience_s: float = 60.0
    resume: bool = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The blocks in order."""
        return schedule.slots(self.design, self.cycles, self.repeats)

    @property
    def requests(self) -> int:
        """How many requests it takes, with the warm-up that each block needs at least."""
        each = sum(self.least_warmup + len(self.work(slot)) for slot in self.slots)
        return each * len(self.concurrencies)

    @property
    def least_warmup(self) -> int:
        """Requests of the warm-up of one block: two passes tell whether it is steady."""
        return min(2, self.warmup_passes) * len(self.prompts.cases)

    @property
    def design_name(self) -> str:
        """As run.json has it."""
        return f"{self.design.value} x{self.cycles}" if self.design is Design.ABBA else self.design.value

    @property
    def identity(self) -> dict[str, object]:
        """The fields of run.json that make a run the same run."""
        return {
            "prompt_set": self.prompts.identity,
            "repeats": self.repeats,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "design": self.design_name,
            "prefix_caching": self.prefix_caching,
        }

    def folder(self, side: str, concurrency: int) -> Path:
        """Of one run: --out itself when it is the only one."""
        alone = len(self.arms) == len(self.concurrencies) == 1
        return self.out if alone else self.out / f"{self.names[side]}-c{concurrency}"

    def work(self, slot: Slot) -> list[Work]:
        """The measured requests of a block, in order."""
        cases = self.prompts.cases
        return [Work(case, repeat) for repeat in slot.repeats for case in schedule.shuffled(cases, self.seed, repeat)]
