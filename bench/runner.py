"""One experiment from its plan to its folders: place the engine, warm up, look, measure, look again, next block."""

from __future__ import annotations

import dataclasses
import datetime
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bench import schedule
from bench.checks import block_findings, changed, pair_findings, run_findings
from bench.client import EngineGoneError, Load, Work, closed_loop
from bench.facts import engine_facts
from bench.plan import Plan
from bench.progress import Progress
from bench.records import RUN_FILE, Arm, Block, ClientPlace, Engine, Request, Run, Service
from bench.schedule import Slot
from bench.scrape import Scrape, look, settled
from bench.store import RunStore, refuse_used
from bench.summary import summary
from bench.switch import Placed, Switch
from bench.target import Target, find_model
from engine.findings import Finding, Problems, Severity, errors


class SpoiltError(Exception):
    """The run cannot go on; the reason is in the block that it spoilt."""


@dataclass
class Experiment:
    """A plan while it runs."""

    plan: Plan
    switch: Switch
    progress: Progress
    stores: dict[tuple[str, int], RunStore] = field(default_factory=dict)

    async def run(self) -> list[Finding]:
        """Do all blocks; the findings about all runs and the pair. Files are whole whenever and however it ends."""
        self._open()
        spoilt: list[Finding] = []
        try:
            for slot in self.plan.slots:
                await self._slot(slot)
        except SpoiltError as problem:
            # The block that was spoilt has it too; a run that never began has no block.
            spoilt = [Finding(Severity.ERROR, "run", None, str(problem), "go on with --resume")]
        finally:
            found = self._summarise()
            await self.switch.close()
        return found if errors(found) else [*found, *spoilt]

    def _open(self) -> None:
        """Reopen what is to go on, refuse what is in the way."""
        for side, arm in self.plan.arms.items():
            for concurrency in self.plan.concurrencies:
                folder = self.plan.folder(side, concurrency)
                if self.plan.resume and (folder / RUN_FILE).exists():
                    known = {} if arm is Arm.UNKNOWN else {"arm": arm}
                    same = {**self.plan.identity, "concurrency": concurrency, **known}
                    self.stores[side, concurrency] = RunStore.reopen(folder, same)
                else:
                    refuse_used(folder)

    async def _slot(self, slot: Slot) -> None:
        left = {concurrency: self._left(slot, concurrency) for concurrency in self.plan.concurrencies}
        for work in left.values():
            self.progress.total -= len(self.plan.work(slot)) - len(work) + (0 if work else self.plan.least_warmup)
        if not any(left.values()):
            return
        arm = self.plan.arms[slot.side]
        placed = await self.switch.place(arm, slot.order)
        target = Target(placed.address.rstrip("/"), self.plan.model, self.plan.headers)
        model = await find_model(target, self.plan.patience_s, self.progress.say)
        target = dataclasses.replace(target, model=model)
        first = await look(target)
        arm = _arm(arm, first, model)
        engine = engine_facts(placed, first)
        self._refuse(slot.side, model, placed, engine, first)
        for concurrency in schedule.levels(self.plan.concurrencies, slot):
            if left[concurrency]:
                store = self._store(slot.side, self._run(arm, engine, placed, target, concurrency))
                await self._block(store, slot, target, engine, left[concurrency])

    def _left(self, slot: Slot, concurrency: int) -> list[Work]:
        """What a block has still to measure at a concurrency."""
        store = self.stores.get((slot.side, concurrency))
        done = store.done if store else set()
        return [work for work in self.plan.work(slot) if (work.case.id, work.repeat) not in done]

    def _refuse(self, side: str, model: str, placed: Placed, engine: Engine, seen: Scrape) -> None:
        """Refuse an engine whose numbers could not be used, before they are measured."""
        found = [
            finding
            for store in self.stores.values()
            for finding in changed("engine", store.run.engine, engine, "in what was measured already")
        ]
        models = {store.run.service.model for (of, _), store in self.stores.items() if of == side}
        if models - {model}:
            why = f"what was measured already is of {', '.join(sorted(models))}"
            found.append(Finding(Severity.ERROR, "model", model, why, "serve that one, or give another --out"))
        replicas = max(seen.engines or 1, placed.replicas or 1)
        if replicas > 1 or placed.replicas == 0:
            remedy = "measure one replica, without autoscaling"
            found.append(Finding(Severity.ERROR, "replicas", max(replicas, 1), "not one engine at the address", remedy))
        if seen.prefix_caching is not None and seen.prefix_caching != self.plan.prefix_caching:
            flag = "--enable-prefix-caching" if self.plan.prefix_caching else "--no-enable-prefix-caching"
            told = "on" if seen.prefix_caching else "off"
            remedy = f"start both arms with {flag}, or give --prefix-caching {told}"
            found.append(Finding(Severity.ERROR, "prefix_caching", told, "the engine was started so", remedy))
        if wrong := errors(found):
            raise Problems(wrong)

    def _run(self, arm: Arm, engine: Engine, placed: Placed, target: Target, concurrency: int) -> Run:
        plan = self.plan
        return Run(
            arm=arm,
            engine=engine,
            service=Service(placed.address, target.model, placed.replicas),
            service_run=plan.service_run or placed.service_run,
            client=ClientPlace(platform.node(), plan.location, plan.network_path),
            concurrency=concurrency,
            started=_now(),
            prompt_set=plan.prompts.identity,
            repeats=plan.repeats,
            seed=plan.seed,
            max_tokens=plan.max_tokens,
            design=plan.design_name,
            prefix_caching=plan.prefix_caching,
        )

    def _store(self, side: str, run: Run) -> RunStore:
        key = (side, run.concurrency)
        if key not in self.stores:
            self.stores[key] = RunStore.create(self.plan.folder(*key), run)
        return self.stores[key]

    async def _block(self, store: RunStore, slot: Slot, target: Target, engine: Engine, left: list[Work]) -> None:
        arm, concurrency = store.run.arm, store.run.concurrency
        block = store.begin(lambda index: Block(index, arm, slot.order, _now(), engine=engine))
        load = Load(
            target,
            arm,
            block.index,
            concurrency,
            self.plan.max_tokens,
            store.began,
            thinking=self.plan.thinking,
            per_chunk=self.plan.per_chunk,
        )
        what = f"{self.plan.names[slot.side]}, concurrency {concurrency}, block {slot.order + 1}/{len(self.plan.slots)}"

        def done(request: Request) -> None:
            store.add(request)
            self.progress.step(f"{what}, warm-up" if request.warmup else what)

        gone = ""
        try:
            await self._warm_up(load, done)
            before = await look(target)
            block = dataclasses.replace(block, metrics_before=before.to_json())
            store.update(block)
            await closed_loop(load, left, done)
        except EngineGoneError as problem:
            gone = str(problem)
        after = await self._after(target, block, store)
        block = dataclasses.replace(block, metrics_after=after.to_json(), ended=_now())
        problems = [gone] if gone else []
        problems += [finding.line() for finding in errors(block_findings(store.run, block, store.requests))]
        store.update(dataclasses.replace(block, problems=tuple(problems)))
        if problems:
            raise SpoiltError(problems[0])

    async def _after(self, target: Target, block: Block, store: RunStore) -> Scrape:
        before = Scrape.from_json(block.metrics_before, "metrics_before")
        if not before.page:
            return await look(target)
        mine = [request for request in store.requests if request.block == block.index and not request.warmup]
        tokens = sum(request.usage.completion_tokens for request in mine if request.usage)
        return await settled(target, before, target.model, tokens)

    async def _warm_up(self, load: Load, done: Callable[[Request], None]) -> None:
        """All cases at the measured concurrency, until a pass is no longer faster than the one before."""
        passes: list[float] = []
        while len(passes) < self.plan.warmup_passes and not schedule.steady(passes):
            seconds: list[float] = []
            cases = schedule.shuffled(self.plan.prompts.cases, self.plan.seed, -1 - len(passes))
            if len(passes) * len(cases) >= self.plan.least_warmup:
                self.progress.total += len(cases)

            def ended(request: Request, seconds: list[float] = seconds) -> None:
                seconds.append(request.end_s or 0.0)
                done(request)

            await closed_loop(load, [Work(case, len(passes), warmup=True) for case in cases], ended)
            passes.append(sum(seconds))

    def _summarise(self) -> list[Finding]:
        """Write each run's summary; all findings, those of several runs with their folder's name."""
        found: list[Finding] = []
        for store in self.stores.values():
            read = store.as_read()
            own = run_findings(read)
            store.summarise(summary(read, own))
            found += [dataclasses.replace(finding, path=f"{store.folder.name}: {finding.path}") for finding in own]
        for concurrency in self.plan.concurrencies:
            a, b = self.stores.get(("A", concurrency)), self.stores.get(("B", concurrency))
            if a and b:
                found += pair_findings(a.as_read(), b.as_read())
        return list(_once(found))


def _arm(declared: Arm, seen: Scrape, model: str) -> Arm:
    """The arm as declared, or as the engine's counters show it; Problems when these differ."""
    speculates = seen.speculates(model)
    if speculates is None:
        return declared
    shown = Arm.SPECULATIVE if speculates else Arm.BASELINE
    if declared not in {Arm.UNKNOWN, shown}:
        there = "counters" if speculates else "no counters"
        why = f"the engine has {there} of speculation, so it is the {shown} arm"
        raise Problems([Finding(Severity.ERROR, "arm", declared.value, why, "look at the engine's arguments")])
    return shown


def _once(findings: list[Finding]) -> Iterator[Finding]:
    seen: set[str] = set()
    for finding in findings:
        if finding.line() not in seen:
            seen.add(finding.line())
            yield finding


def _now() -> str:
    """Wall clock, for people; nothing is computed from it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
