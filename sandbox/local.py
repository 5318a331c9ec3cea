"""What `make local` shows at its end: the address, the verdict, and a completion that the service just answered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import httpx

from engine.findings import Finding, Problems, Severity
from sandbox.stack import Stack

# A copy, where n-gram speculation pays off, and short enough for the smallest model to get right.
PROMPT = (
    "Repeat this sentence exactly: The quick brown fox jumps over the lazy dog near the old stone bridge at sunrise."
)
# The slowest engine here writes some 15 tokens/s; an answer of 200 tokens must not be cut off.
COMPLETION_SECONDS = 120.0
# An engine that a restarted sandbox is loading again: 1 to 2 minutes on two cores, more on a busy machine.
RESTART_SECONDS = 300.0
_POLL_SECONDS = 2.0
# How often a person who waits is told so.
_PROGRESS_SECONDS = 15.0


def show(stack: Stack, say: Callable[[str], None]) -> None:
    """Print the stack's outputs and one completion from the service."""
    outputs = stack.outputs()
    address, model = outputs["service_address"], outputs["model"]
    say("")
    say(f"service_address  {address}")
    say(f"model            {model}")
    say(f"validation       {_sentence(outputs['validation'])}")
    say(f"log_command      {outputs['log_command']}")
    say("")
    _wait_until_serving(address, say)
    say(f"prompt           {PROMPT}")
    say(f"completion       {complete(address, model)}")
    say("")
    say("`. .sandbox/env` gives a shell in which pulumi and kubectl work against it; `make down` ends it.")


def _wait_until_serving(address: str, say: Callable[[str], None]) -> None:
    """Return when the service is healthy.

    An unchanged stack is not waited for by `up`, but its engine may be starting again with the sandbox.
    """
    begun = told = time.monotonic()
    while True:
        try:
            status = httpx.get(f"{address}/health", trust_env=False).status_code
        except httpx.HTTPError as error:
            status, why = 0, str(error)
        else:
            why = f"HTTP {status}"
        now = time.monotonic()
        if status == httpx.codes.OK:
            return
        if now - begun > RESTART_SECONDS:
            raise Problems([_no_answer(address, f"not healthy after {RESTART_SECONDS:.0f} s ({why})")])
        if now - told >= _PROGRESS_SECONDS:
            told = now
            say(f"waiting for the engine: {why} ({now - begun:.0f} s)")
        time.sleep(_POLL_SECONDS)


def complete(address: str, model: str) -> str:
    """One chat completion from the service. Problems, one line, when it does not answer with text."""
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 96, "temperature": 0}
    try:
        answer = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=COMPLETION_SECONDS, trust_env=False)
        answer.raise_for_status()
        text = answer.json()["choices"][0]["message"]["content"]
    except (httpx.HTTPError, LookupError, ValueError) as error:
        raise Problems([_no_answer(address, str(error))]) from error
    if not text:
        raise Problems([_no_answer(address, "the completion is empty")])
    return str(text)


def _sentence(validation: str | dict[str, str]) -> str:
    document = json.loads(validation) if isinstance(validation, str) else validation
    return f"{document['verdict']}: {document['sentence']}"


def _no_answer(address: str, why: str) -> Finding:
    remedy = "see `make status` and the engine's log (`pulumi stack output log_command`)"
    return Finding(Severity.ERROR, "service_address", address, f"no completion: {why}", remedy)
