"""What a run leaves behind: `run.json`, `requests.jsonl` and `summary.json` in one folder, read back strictly.

A run is one arm at one concurrency. All times of a request are seconds of the client's monotonic clock: `sent` since
the run began, the others since `sent`. Tokens come from `usage` alone; a chunk is not a token. What the client could
not know is null, and null is never a yes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from engine import decode
from engine.findings import Finding, Problems, Severity

# Raised when a field changes its meaning or goes away; readers refuse any other number.
SCHEMA = 1
RUN_FILE = "run.json"
REQUESTS_FILE = "requests.jsonl"
SUMMARY_FILE = "summary.json"
# More faults than this in one file are one fault: it is not such a file.
_MAX_FAULTS = 20


class Arm(StrEnum):
    """Which of the two engines; UNKNOWN: nobody said, and the engine shows no counters."""

    BASELINE = "baseline"
    SPECULATIVE = "speculative"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Engine:
    """The engine as declared and as seen.

    image: with its digest, "" when not told; version: as /version says; args: of the container; log_facts: what its
    own log says (runner, async_scheduling, args, …); device: what is known of the GPU (name, driver, …).
    """

    image: str = ""
    version: str = ""
    args: tuple[str, ...] = ()
    log_facts: dict[str, object] = field(default_factory=dict)
    device: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """Where requests went. address: without /v1, its prefix kept; replicas: behind it, null when not known."""

    address: str
    model: str
    replicas: int | None = None


@dataclass(frozen=True)
class ClientPlace:
    """Where the client ran: host name, location and network path in the user's words."""

    host: str
    location: str
    network_path: str


@dataclass(frozen=True)
class PromptSetId:
    """Name of a prompt set and the digest of all its cases."""

    name: str
    digest: str


@dataclass(frozen=True)
class Block:
    """One uninterrupted stretch of requests to one engine.

    index: counts the blocks of this run; order: its place among the blocks of all arms of the experiment; engine: one
    of a kind for each engine process, if the harness was told; started, ended: wall clock, ISO 8601, for people only
    (ended: null when it did not end); metrics_before, metrics_after: a `Scrape` as JSON, taken after the warm-up and
    after the last request ({}: not taken); problems: what spoils the block, in words.
    """

    index: int
    arm: Arm
    order: int
    started: str
    ended: str | None = None
    metrics_before: dict[str, object] = field(default_factory=dict)
    metrics_after: dict[str, object] = field(default_factory=dict)
    engine: Engine | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """`run.json`. service_run: the user's id of the service's deployment; design: how blocks were ordered.

    prefix_caching: what the experiment declares for both arms.
    """

    arm: Arm
    engine: Engine
    service: Service
    service_run: str | None
    client: ClientPlace
    prompt_set: PromptSetId
    concurrency: int
    repeats: int
    seed: int
    max_tokens: int
    started: str
    blocks: tuple[Block, ...] = ()
    design: str = ""
    prefix_caching: bool = False
    schema: int = SCHEMA

    def to_json(self) -> str:
        """The document."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, path: str = RUN_FILE) -> Run:
        """Read a document; Problems has a line for each thing that is wrong with it."""
        document = decode.load_object(text, path)
        decode.require_schema(document, SCHEMA, path)
        run = decode.build(cls, document, path)
        positive = {"concurrency": run.concurrency, "repeats": run.repeats, "max_tokens": run.max_tokens}
        faults = [
            decode.error(f"{path}.{name}", value, "not positive") for name, value in positive.items() if value < 1
        ]
        if faults:
            raise Problems(faults)
        return run


@dataclass(frozen=True)
class Tokens:
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Request:
    """One line of `requests.jsonl`.

    ttft_s: to the first text of the answer, thinking included; end_s: to the last event with a choice; chunk_times_s:
    of each event with text; tokens_per_chunk: one number for each of these, null when the engine does not say; text:
    the answer; reasoning: the thinking before it, if the server keeps it apart; status: of HTTP, null without an
    answer; error: why the request cannot be counted, null when it can; client_idle_s: from the end of the worker's
    last request to the send of this one; loop_lag_s: the longest that the client's event loop was late while the
    request ran.
    """

    block: int
    arm: Arm
    family: str
    case: str
    repeat: int
    warmup: bool
    concurrency: int
    sent: float
    ttft_s: float | None
    end_s: float | None
    chunk_times_s: tuple[float, ...]
    tokens_per_chunk: tuple[int, ...] | None
    text: str
    finish_reason: str | None
    usage: Tokens | None
    status: int | None
    error: str | None
    client_idle_s: float
    loop_lag_s: float
    reasoning: str = ""
    schema: int = SCHEMA

    @property
    def tpot_s(self) -> float | None:
        """Seconds a token after the first: (end - TTFT)/(n - 1), n from usage; None below two tokens or on error."""
        tokens = self.usage.completion_tokens if self.usage else 0
        if self.error is not None or self.end_s is None or self.ttft_s is None or tokens < 2:
            return None
        return (self.end_s - self.ttft_s) / (tokens - 1)

    def to_line(self) -> str:
        """The line, with its end."""
        # vars, since asdict copies each of a thousand chunk times.
        return json.dumps(vars(self), default=vars, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_line(cls, text: str | bytes, path: str) -> Request:
        """Read a line; Problems has a line for each thing that is wrong with it."""
        document = decode.load_object(text, path)
        decode.require_schema(document, SCHEMA, path)
        request = decode.build(cls, document, path)
        if faults := list(_contradictions(request, path)):
            raise Problems(faults)
        return request


def _contradictions(request: Request, path: str) -> Iterator[Finding]:
    """What no client of ours writes: a time that goes back, lists that do not match, a success without an end."""
    times = request.chunk_times_s
    spoken = [("sent", request.sent), ("client_idle_s", request.client_idle_s), ("loop_lag_s", request.loop_lag_s)]
    spoken += [("ttft_s", request.ttft_s or 0.0), ("end_s", request.end_s or 0.0)]
    yield from (decode.error(f"{path}.{name}", value, "negative") for name, value in spoken if value < 0)
    if list(times) != sorted(times) or (times and times[0] < 0):
        yield decode.error(f"{path}.chunk_times_s", None, "goes back in time")
    if request.tokens_per_chunk is not None and len(request.tokens_per_chunk) != len(times):
        why = f"{len(request.tokens_per_chunk)} counts for {len(times)} chunks"
        yield decode.error(f"{path}.tokens_per_chunk", None, why)
    if request.usage and min(request.usage.prompt_tokens, request.usage.completion_tokens) < 0:
        yield decode.error(f"{path}.usage", asdict(request.usage), "negative")
    if request.error is None and (request.usage is None or request.end_s is None or request.status is None):
        yield decode.error(f"{path}.error", None, "null without usage, end_s and status, so the request is not whole")


@dataclass(frozen=True)
class RunFolder:
    """A run as read. notes: what was tolerated and should be said (a torn last line, a missing end)."""

    path: Path
    run: Run
    requests: tuple[Request, ...]
    notes: tuple[Finding, ...] = ()

    @property
    def measured(self) -> tuple[Request, ...]:
        """What counts: no warm-up, and nothing of a block that has problems (a resumed run has done it again)."""
        sound = {block.index for block in self.run.blocks if not block.problems}
        return tuple(request for request in self.requests if request.block in sound and not request.warmup)


def read_run(folder: Path) -> RunFolder:
    """Read a run's folder; Problems says in one line what is wrong with each file."""
    run = Run.from_json(_bytes(folder / RUN_FILE), str(folder / RUN_FILE))
    requests, notes = read_requests(folder / REQUESTS_FILE)
    known = {block.index for block in run.blocks}
    strays = sorted({request.block for request in requests} - known)
    if strays:
        path = f"{folder / REQUESTS_FILE}.block"
        raise Problems([decode.error(path, strays, f"not a block of {RUN_FILE}", "keep the files of one run together")])
    return RunFolder(folder, run, tuple(requests), tuple(notes))


def read_requests(path: Path) -> tuple[list[Request], list[Finding]]:
    """The requests of a file and what was tolerated; a last line that a crash cut off is left out and said."""
    lines = _bytes(path).split(b"\n")
    torn = lines.pop()
    found: list[Request] = []
    faults: list[Finding] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Request.from_line(line, f"{path}:{number}"))
        except Problems as problems:
            faults += problems.findings
        if len(faults) > _MAX_FAULTS:
            faults = [*faults[:_MAX_FAULTS], decode.error(str(path), None, "more faults follow")]
            break
    if faults:
        raise Problems(faults)
    why = "the last line was cut off, as a crash leaves it: that request is lost"
    return found, [Finding(Severity.WARNING, f"{path}:{len(lines) + 1}", None, why)] if torn else []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        remedy = "give the folder of a run, as `python -m bench run --out` writes it"
        raise Problems([decode.error(str(path), None, str(problem.strerror), remedy)]) from problem
