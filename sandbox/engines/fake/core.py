"""The fake engine core: runs each request's steps at the set speed, counts them, and admits max_num_seqs at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from sandbox.engines.fake.counters import Counters, RequestTimes
from sandbox.engines.fake.drafting import Rules, Step, steps
from sandbox.engines.fake.plan import Plan


@dataclass(frozen=True)
class Work:
    """One request: token ids of prompt and answer, limit of new tokens, whether this request is drafted for."""

    prompt: Sequence[int]
    answer: Sequence[int]
    max_tokens: int
    drafts: bool = True


class Core:
    """Serves until its process ends."""

    def __init__(self, plan: Plan) -> None:
        self.change(plan)
        self.counters = Counters(plan.config.num_speculative_tokens if plan.config else 0)
        self._slots = asyncio.Semaphore(plan.max_num_seqs)

    def change(self, plan: Plan) -> None:
        """Go on with a plan's settings; requests that run keep theirs."""
        settings = plan.settings
        config = None if plan.config is None or not plan.config.is_ngram else plan.config
        self._rules = Rules(config, plan.runner, plan.version.features, plan.max_model_len, settings.acceptance)
        if settings.never_draft:
            self._rules = replace(self._rules, config=None)
        self._settings = settings

    async def run(self, work: Work) -> AsyncIterator[list[Step]]:
        """What the request gives: each time all steps since the last time, so a slow reader gets several at once."""
        queue: asyncio.Queue[Step | None] = asyncio.Queue()
        producer = asyncio.ensure_future(self._produce(work, queue))
        try:
            while True:
                batch = [await queue.get()]
                while len(batch) < self._settings.merge_steps and batch[-1] is not None:
                    batch.append(await queue.get())
                while not queue.empty():
                    batch.append(queue.get_nowait())
                found = [step for step in batch if step is not None]
                if found:
                    yield found
                if len(found) < len(batch):
                    await producer
                    return
        finally:
            producer.cancel()

    async def _produce(self, work: Work, queue: asyncio.Queue[Step | None]) -> None:
        counters, now = self.counters, time.monotonic
        times = RequestTimes(arrived=now())
        counters.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            counters.waiting -= 1
        counters.running += 1
        counters.held_tokens += len(work.prompt)
        made, reason = 0, "abort"
        try:
            times.scheduled = now()
            due = times.scheduled + self._settings.ttft_seconds
            for step in steps(work.prompt, work.answer, work.max_tokens, self._rules, drafts=work.drafts):
                await self._sleep(due)
                made += len(step.tokens)
                counters.step(step, times, now(), len(work.prompt))
                queue.put_nowait(step)
                due += self._settings.step_seconds * (1 + self._settings.draft_cost * step.drafted)
                if self._settings.stall_seconds and made * 2 >= min(len(work.answer), work.max_tokens) > made:
                    await asyncio.sleep(self._settings.stall_seconds)
            reason = "length" if made >= work.max_tokens and made < len(work.answer) else "stop"
        finally:
            counters.running -= 1
            counters.held_tokens -= len(work.prompt) + made
            counters.end(reason, times, len(work.prompt), made)
            self._slots.release()
        queue.put_nowait(None)

    async def _sleep(self, due: float) -> None:
        # Against the clock, not by durations, so that the speed holds on average whatever a timer's resolution is.
        left = due - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
        else:
            # Others get their turn, above all the writer: one event for each step.
            await asyncio.sleep(0)
