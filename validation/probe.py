"""Sends the completions and keeps what came back: through the service address, and to each pod when there are several.

A route that is only just there is waited for (refused connections, 502 to 504) within a bound; every other failure is
reported as what it is, and nothing is sent twice. All tasks together cost an engine fewer than 1000 tokens.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.redact import redact
from engine.sse import Completion
from validation.answer import Graded, Task, grade
from validation.http import HttpError, post_completion

# How long a route may take to come up after the endpoints are said to be ready: load balancers and DNS take tens of
# seconds on a new cluster.
PATIENCE_S = 45.0
_RETRY_S = 1.0
# How a server says that it does not do what was asked for at all (status and words), other than that it failed at it.
_REFUSALS = frozenset({400, 422, 501})
_UNSUPPORTED = re.compile(r"\b(?:not (?:yet |currently )?(?:supported?|implemented)|unsupported)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """One request and what came of it.

    url: where it was sent; completion, graded: None when there was no answer to grade; problem: why there was none or
    why it cannot be counted, "" otherwise; seconds: from the (last) request to the end; waited: seconds of retries;
    unsupported: the server says that it does not do what this task asks for.
    """

    task: Task
    url: str
    completion: Completion | None = None
    graded: Graded | None = None
    problem: str = ""
    seconds: float = 0.0
    waited: float = 0.0
    unsupported: bool = False

    @property
    def tokens(self) -> int:
        """Completion tokens as the engine counted them; 0 when it did not say."""
        usage = self.completion.usage if self.completion else None
        return usage.completion_tokens if usage else 0

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens as the engine counted them; 0 when it did not say."""
        usage = self.completion.usage if self.completion else None
        return usage.prompt_tokens if usage else 0

    @property
    def chunks(self) -> int:
        """Streamed events that carry output: all with a choice, less the first, which only names the role."""
        return max(0, self.completion.chunks - 1) if self.completion else 0


def request_body(model: str, task: Task, *, no_thinking: bool = False) -> dict[str, object]:
    """The request: greedy, streamed, with usage at its end; no_thinking: it asks the chat template to leave it out."""
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": task.prompt}],
        "max_tokens": task.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if task.response_format:
        body["response_format"] = task.response_format
    if no_thinking:
        body["chat_template_kwargs"] = {"enable_thinking": False}
    return body


def ask(
    address: str,
    model: str,
    task: Task,
    *,
    api_key: str = "",
    no_thinking: bool = False,
    patience_s: float = PATIENCE_S,
    progress: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Ask one task at an address (without /v1); waits up to patience_s for a route that is coming up."""
    url = f"{address.rstrip('/')}/v1/chat/completions"
    began = time.monotonic()
    while True:
        waited = time.monotonic() - began
        try:
            streamed = post_completion(url, request_body(model, task, no_thinking=no_thinking), api_key)
        except HttpError as problem:
            if not problem.retry or waited + _RETRY_S > patience_s:
                after = f" (after {waited:.0f} s of retries)" if waited >= _RETRY_S else ""
                why = redact(str(problem)) + after
                return Answer(task, url, problem=why, waited=waited, unsupported=_unsupported(task, problem))
            progress(f"waiting for the route: {redact(str(problem))}")
            time.sleep(_RETRY_S)
            continue
        completion = streamed.completion
        # Only a whole text is judged; one without usage is, since it may still be garbage.
        graded = grade(completion, task) if completion.done and not completion.errors else None
        return Answer(task, url, completion, graded, redact(completion.problem or ""), streamed.seconds, waited)


def _unsupported(task: Task, problem: HttpError) -> bool:
    """Only an answer of a schema is a thing that a server need not know."""
    return task.choices is not None and problem.status in _REFUSALS and bool(_UNSUPPORTED.search(str(problem)))
