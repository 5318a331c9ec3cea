"""An engine as a run records it: what whoever placed it told, what it says of itself, and what its own log shows."""

from __future__ import annotations

from pathlib import Path

from bench.records import Engine
from bench.scrape import Scrape
from bench.switch import Placed
from engine import decode
from engine.findings import Problems
from engine.log import parse_log
from engine.redact import redact, redact_values


def engine_facts(placed: Placed, seen: Scrape) -> Engine:
    """The record of an engine; unknown stays empty. Problems when its log cannot be read."""
    return Engine(
        image=placed.image,
        version=seen.version,
        args=tuple(redact(arg) for arg in placed.args),
        log_facts=log_facts(Path(placed.log)) if placed.log else {},
        device=redact_values(placed.device),
    )


def log_facts(path: Path) -> dict[str, object]:
    """What can differ silently between two arms, from an engine's log: null where the log does not say."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise Problems(
            [decode.error("log", str(path), str(problem.strerror), "give the engine's own log")]
        ) from problem
    log = parse_log(text)
    return {
        "version": log.version,
        "model": log.model,
        "runner": log.runner,
        "async_scheduling": log.async_scheduling,
        "speculation": {
            "state": log.speculation.state,
            "method": log.speculation.method,
            "num_speculative_tokens": log.speculation.num_speculative_tokens,
        },
        "args": None if log.args is None else redact_values(log.args),
        "kv_cache_tokens": log.kv_cache.tokens if log.kv_cache else None,
        "starts": log.starts,
    }
