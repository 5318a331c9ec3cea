"""What the fake engine counts: vLLM's counters and histograms, and the windows between two log lines."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from sandbox.engines.fake.drafting import Step

_SHORT = (0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, *_SHORT, 160.0, 640.0, 2560.0)
TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, *_SHORT)
_LONG = (10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)
WHOLE = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, *_LONG)
COUNT = tuple(float(size * power) for power in (1, 10, 100, 1000, 10000) for size in (1, 2, 5))
ITERATION = (1.0, 8.0, *(float(2**power) for power in range(4, 15)))


@dataclass
class Histogram:
    """Observations by upper bounds."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class Window:
    """Since the log line before: tokens, and drafts with what came of them."""

    prompt: int = 0
    generated: int = 0
    drafts: int = 0
    drafted: int = 0
    per_position: list[int] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        return sum(self.per_position)


@dataclass
class RequestTimes:
    """Monotonic seconds of one request's turns."""

    arrived: float
    scheduled: float = 0.0
    first: float = 0.0
    last: float = 0.0


class Counters:
    """All of one engine. k: number of draft positions, 0 without speculation."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.created = time.time()
        self.running = 0
        self.waiting = 0
        self.held_tokens = 0
        self.prompt = 0
        self.generated = 0
        self.drafts = 0
        self.drafted = 0
        self.per_position = [0] * k
        self.finished: Counter[str] = Counter()
        self.http: Counter[tuple[str, str, str]] = Counter()
        self.ttft = Histogram(TTFT)
        self.inter_token = Histogram(TOKEN)
        self.per_token = Histogram(TOKEN)
        self.whole = Histogram(WHOLE)
        self.queued = Histogram(WHOLE)
        self.prefill = Histogram(WHOLE)
        self.decode = Histogram(WHOLE)
        self.inference = Histogram(WHOLE)
        self.iteration = Histogram(ITERATION)
        self.prompt_sizes = Histogram(COUNT)
        self.answer_sizes = Histogram(COUNT)
        self.window = Window(per_position=[0] * k)

    def step(self, step: Step, times: RequestTimes, now: float, prompt_tokens: int) -> None:
        """One step of one request; its first one also is the prefill."""
        tokens = len(step.tokens)
        if times.first:
            self.inter_token.add(now - times.last)
        else:
            times.first = now
            self.prompt += prompt_tokens
            self.window.prompt += prompt_tokens
            self.ttft.add(now - times.arrived)
        times.last = now
        self.generated += tokens
        self.window.generated += tokens
        self.held_tokens += tokens
        self.iteration.add(1 + step.drafted if times.first != now else prompt_tokens)
        if step.drafted:
            self.drafts += 1
            self.drafted += step.drafted
            self.window.drafts += 1
            self.window.drafted += step.drafted
            for position in range(step.accepted):
                self.per_position[position] += 1
                self.window.per_position[position] += 1

    def end(self, reason: str, times: RequestTimes, prompt_tokens: int, tokens: int) -> None:
        """A request is over: "stop", "length", or "abort" when its client has gone."""
        self.finished[reason] += 1
        if reason == "abort" or not tokens:
            return
        self.whole.add(times.last - times.arrived)
        self.queued.add(times.scheduled - times.arrived)
        self.prefill.add(times.first - times.scheduled)
        self.decode.add(times.last - times.first)
        self.inference.add(times.last - times.scheduled)
        self.prompt_sizes.add(prompt_tokens)
        self.answer_sizes.add(tokens)
        if tokens > 1:
            self.per_token.add((times.last - times.first) / (tokens - 1))

    def take_window(self) -> Window:
        """The window that ends now; the next one begins."""
        window, self.window = self.window, Window(per_position=[0] * self.k)
        return window
