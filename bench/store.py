"""Writes a run as it happens: a line for each request at once, `run.json` anew at each block; a crash loses no more.

Resuming keeps what is there: requests of sound blocks are not made again, those of a spoilt block are.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.records import REQUESTS_FILE, RUN_FILE, SUMMARY_FILE, Block, Request, Run, RunFolder, read_run
from engine import decode
from engine.findings import Finding, Problems


@dataclass
class RunStore:
    """A run that is being written. began: monotonic, from which `sent` counts, over all sittings of the run."""

    folder: Path
    run: Run
    began: float
    requests: list[Request] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @classmethod
    def create(cls, folder: Path, run: Run) -> RunStore:
        """Begin a run in an empty folder."""
        refuse_used(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REQUESTS_FILE).write_bytes(b"")
        store = cls(folder, run, time.monotonic())
        store.save()
        return store

    @classmethod
    def reopen(cls, folder: Path, plan: Mapping[str, object]) -> RunStore:
        """Go on with the run that is there; Problems when it has other values than the plan: it is another one."""
        old = read_run(folder)
        faults = []
        for name, now in plan.items():
            was = getattr(old.run, name)
            if was != now:
                why = f"the run that is there has {was}, so this would be another run"
                remedy = "give the same options, or another --out"
                faults.append(decode.error(f"{folder}: {name}", str(now), why, remedy))
        if faults:
            raise Problems(faults)
        _cut_torn_line(folder / REQUESTS_FILE)
        (folder / SUMMARY_FILE).unlink(missing_ok=True)
        spent = max((request.sent + (request.end_s or 0.0) for request in old.requests), default=0.0)
        return cls(folder, old.run, time.monotonic() - spent, list(old.requests), list(old.notes))

    @property
    def done(self) -> set[tuple[str, int]]:
        """Case and repeat of all that need not be asked again."""
        return {(request.case, request.repeat) for request in self.as_read().measured}

    def as_read(self) -> RunFolder:
        """The run as a reader of its folder sees it."""
        return RunFolder(self.folder, self.run, tuple(self.requests), tuple(self.notes))

    def begin(self, block: Callable[[int], Block]) -> Block:
        """Begin a block; block: makes it from its index."""
        made = block(len(self.run.blocks))
        self.run = dataclasses.replace(self.run, blocks=(*self.run.blocks, made))
        self.save()
        return made

    def update(self, block: Block) -> None:
        """The block has changed."""
        blocks = tuple(block if old.index == block.index else old for old in self.run.blocks)
        self.run = dataclasses.replace(self.run, blocks=blocks)
        self.save()

    def add(self, request: Request) -> None:
        """One request ended: its line is with the operating system before this returns."""
        with (self.folder / REQUESTS_FILE).open("ab", buffering=0) as file:
            file.write(request.to_line().encode())
        self.requests.append(request)

    def save(self) -> None:
        """Write run.json, whole or not at all."""
        _replace(self.folder / RUN_FILE, self.run.to_json())

    def summarise(self, summary: dict[str, object]) -> None:
        """Write summary.json."""
        _replace(self.folder / SUMMARY_FILE, json.dumps(summary, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def refuse_used(folder: Path) -> None:
    """Refuse a folder that has a run in it."""
    if (folder / RUN_FILE).exists():
        remedy = "go on with it by --resume, or give another --out"
        raise Problems([decode.error("out", str(folder), "there is a run in it", remedy)])


def _cut_torn_line(path: Path) -> None:
    """Take off what a crash left of a line, so that the next line begins at its own place."""
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        with path.open("r+b") as file:
            file.truncate(end)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
