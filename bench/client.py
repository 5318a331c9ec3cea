"""The closed loop: each worker sends its next request when its last one ended, and nothing is sent twice.

A closed loop slows down with the server, so its numbers are latencies at a concurrency, never at a rate. TTFT is from
the send to the first text of the answer (thinking included); the connection is opened before the send. The end is the
last event with a choice: neither the usage event nor [DONE] extends it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.http1 import Answer, Connection, HttpError
from bench.lag import LagMeter
from bench.prompts import Case
from bench.records import Arm, Request, Tokens
from bench.target import Target, refusal
from engine.redact import redact
from engine.sse import Completion, CompletionStream

# A request that takes longer hangs: 128 tokens of a slow engine on a busy CPU take a tenth of it.
REQUEST_S = 600.0
# So many failures in a row, and as many as there are workers, are a dead engine and not bad luck.
_FAILURES_IN_A_ROW = 3
_MAX_REFUSAL = 64 * 1024


@dataclass(frozen=True)
class Work:
    """One request to make."""

    case: Case
    repeat: int
    warmup: bool = False


@dataclass(frozen=True)
class Load:
    """How a stretch of work is asked. began: monotonic start of the run, from which `sent` counts."""

    target: Target
    arm: Arm
    block: int
    concurrency: int
    max_tokens: int
    began: float
    thinking: bool = False
    per_chunk: bool = True
    request_s: float = REQUEST_S


class EngineGoneError(Exception):
    """Requests fail one after the other."""


async def closed_loop(load: Load, work: Iterable[Work], done: Callable[[Request], None]) -> None:
    """Do the work with so many workers; done gets each request as soon as it ended, failures too.

    EngineGoneError when several failed in a row.
    """
    shared = iter(work)
    meter = LagMeter()
    in_a_row: list[str] = []

    def ended(request: Request) -> None:
        done(request)
        if request.error is None:
            in_a_row.clear()
            return
        in_a_row.append(request.error)
        if len(in_a_row) >= max(_FAILURES_IN_A_ROW, load.concurrency):
            raise EngineGoneError(f"{len(in_a_row)} requests in a row failed, the last one: {request.error}")

    ticking = asyncio.create_task(meter.run())
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(load.concurrency):
                group.create_task(_worker(load, shared, meter, ended))
    except* EngineGoneError as gone:
        raise EngineGoneError(str(gone.exceptions[0])) from None
    finally:
        ticking.cancel()


async def _worker(load: Load, shared: Iterable[Work], meter: LagMeter, ended: Callable[[Request], None]) -> None:
    connection: Connection | None = None
    last_end: float | None = None
    try:
        for work in shared:
            request = load.target.completion(
                work.case.prompt, load.max_tokens, thinking=load.thinking, per_chunk=load.per_chunk
            )
            with meter.window() as lag:
                sent = time.monotonic()
                try:
                    if connection is None or not connection.usable:
                        connection = await Connection.open(load.target.url)
                    sent = time.monotonic()
                    asked = await _ask(connection, request, load.request_s)
                except HttpError as problem:
                    asked = _Asked(Completion(), None, str(problem))
            idle = 0.0 if last_end is None else sent - last_end
            last_end = time.monotonic()
            ended(_record(load, work, asked, _Times(sent, idle, lag.worst)))
    finally:
        if connection is not None:
            connection.close()


@dataclass(frozen=True)
class _Asked:
    completion: Completion
    status: int | None
    error: str | None


async def _ask(connection: Connection, request: bytes, seconds: float) -> _Asked:
    stream = CompletionStream()
    refused = bytearray()
    answer: Answer | None = None
    problem = ""

    def body(data: bytes, at: float) -> None:
        # A refusal is an answer too, but no stream: what it says is kept apart.
        if connection.status == 200:
            stream.feed(data, at)
        elif len(refused) < _MAX_REFUSAL:
            refused.extend(data)

    try:
        async with asyncio.timeout(seconds):
            answer = await connection.send(request, body)
    except TimeoutError:
        problem = f"no whole answer within {seconds:.0f} s"
    except HttpError as error:
        problem = str(error)
    status = connection.status or None
    completion = stream.finish(time.monotonic(), cut=bool(problem))
    if status is not None and status != 200:
        return _Asked(Completion(), status, f"the service answers {status}: {refusal(bytes(refused))}")
    if completion.done and not completion.errors:
        problem = ""  # all that counts came before the fault
    elif completion.errors:
        problem = completion.errors[0]
    if answer is not None and "event-stream" not in answer.headers.get("content-type", "event-stream"):
        problem = f"the answer is {answer.headers['content-type']}, not a stream of events"
    return _Asked(completion, status, problem or completion.problem)


@dataclass(frozen=True)
class _Times:
    """Of the client's side, in seconds; sent: monotonic."""

    sent: float
    idle: float
    lag: float


def _record(load: Load, work: Work, asked: _Asked, times: _Times) -> Request:
    completion, sent = asked.completion, times.sent
    usage = completion.usage
    return Request(
        block=load.block,
        arm=load.arm,
        family=work.case.family,
        case=work.case.id,
        repeat=work.repeat,
        warmup=work.warmup,
        concurrency=load.concurrency,
        sent=sent - load.began,
        ttft_s=None if completion.first_token is None else completion.first_token - sent,
        end_s=None if completion.last_choice is None else completion.last_choice - sent,
        chunk_times_s=tuple(stamp - sent for stamp in completion.token_stamps),
        tokens_per_chunk=_per_chunk(completion.token_counts),
        text=completion.text,
        reasoning=completion.reasoning,
        finish_reason=completion.finish_reason,
        usage=Tokens(usage.prompt_tokens, usage.completion_tokens) if usage else None,
        status=asked.status,
        error=None if asked.error is None else redact(asked.error),
        client_idle_s=times.idle,
        loop_lag_s=times.lag,
    )


def _per_chunk(counts: tuple[int | None, ...]) -> tuple[int, ...] | None:
    """Tokens of each chunk from the running count; None when a chunk has no count or the count goes back."""
    found: list[int] = []
    before = 0
    for count in counts:
        if count is None or count < before:
            return None
        found.append(count - before)
        before = count
    return tuple(found) if found else None
