"""Responses of the fake engine: JSON bodies and SSE events as the version gives them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sandbox.engines.fake.drafting import Step
from sandbox.engines.fake.plan import Plan
from sandbox.engines.fake.requests import Ask
from sandbox.engines.fake.tokens import Tokenizer

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


@dataclass
class Answer:
    """One answer while it is made; give it the steps of the core, in order."""

    ask: Ask
    plan: Plan
    tokenizer: Tokenizer
    id: str = ""
    created: int = field(default_factory=lambda: int(time.time()))
    made: int = 0
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = f"{'chatcmpl' if self.ask.chat else 'cmpl'}-{uuid.uuid4().hex[:16]}"
        self._recent = self.plan.version.features.since.minor >= 30
        self._parses_reasoning = self.ask.chat and self.plan.args.value("reasoning-parser") is not None

    # --- streamed ---

    def opening(self) -> bytes:
        """The event that names the role, sent right before the first token."""
        extra: dict[str, object] = {
            "prompt_token_ids": list(self.ask.work.prompt) if self.ask.return_token_ids else None
        }
        if self._recent:
            extra["prompt_text"] = None
        if self.ask.continuous_usage and self.plan.settings.usage:
            extra["usage"] = self.usage()
        return self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}, **_open()}], extra)

    def events(self, steps: Sequence[Step]) -> Iterator[bytes]:
        """The events of the next steps: one for all of them, two where thinking ends."""
        tokens = [token for step in steps for token in step.tokens]
        self.steps += steps
        edge = max(0, self.ask.thinking - self.made) if self._parses_reasoning else 0
        parts = [[token] for token in tokens] if self.plan.settings.split_steps else [tokens[:edge], tokens[edge:]]
        for part in filter(None, parts):
            yield self._part(part)

    def closing(self) -> Iterator[bytes]:
        """The usage event, if asked for, and the end mark."""
        if self.ask.include_usage and self.plan.settings.usage:
            extra: dict[str, object] = {"usage": self.usage()}
            if self._recent:
                extra["system_fingerprint"] = f"vllm-{self.plan.version_text}-00000000"
            if metrics := self._metrics():
                extra["metrics"] = metrics
            yield self._event([], extra)
        yield DONE

    def _part(self, tokens: list[int]) -> bytes:
        thinking = self._parses_reasoning and self.made < self.ask.thinking
        first = self.made == 0
        self.made += len(tokens)
        reason = self._finish_reason()
        text = self.tokenizer.decode(tokens)
        ids = {"token_ids": tokens if self.ask.return_token_ids else None}
        end = {"stop_reason": self._stop_reason(reason)} if reason else {}
        extra: dict[str, object] = {}
        if self.ask.chat:
            delta = self._thought(text) if thinking else {"content": text}
            choice: dict[str, object] = {
                "index": 0,
                "delta": delta,
                "logprobs": None,
                "finish_reason": reason,
                **end,
                **ids,
            }
        else:
            prompt = list(self.ask.work.prompt) if self.ask.return_token_ids and first else None
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
            choice |= {"stop_reason": self._stop_reason(reason)}
            choice |= {"prompt_token_ids": prompt, **ids}
        if self.ask.continuous_usage and self.plan.settings.usage:
            extra["usage"] = self.usage()
        return self._event([choice], extra)

    def _thought(self, text: str) -> dict[str, object]:
        plain = text.replace("<think>\n", "").replace("\n</think>\n\n", "")
        both = self.plan.version.features.since.minor < 18
        return {"reasoning": plain, **({"reasoning_content": plain} if both else {})}

    def _event(self, choices: list[dict[str, object]], extra: dict[str, object]) -> bytes:
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        body = {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.ask.model,
            "choices": choices,
            **extra,
        }
        return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"

    # --- whole ---

    def whole(self) -> dict[str, object]:
        """The body of an answer that is not streamed, once all steps are there."""
        tokens = [token for step in self.steps for token in step.tokens]
        self.made = len(tokens)
        ids = tokens if self.ask.return_token_ids else None
        prompt_ids = list(self.ask.work.prompt) if self.ask.return_token_ids else None
        reason = self._finish_reason() or "stop"
        choice: dict[str, object] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": self._stop_reason(reason),
            "token_ids": ids,
        }
        if self.ask.chat:
            edge = self.ask.thinking if self._parses_reasoning else 0
            thought = self._thought(self.tokenizer.decode(tokens[:edge])) if edge else {"reasoning": None}
            message = {"role": "assistant", "content": self.tokenizer.decode(tokens[edge:]), "refusal": None, **thought}
            choice = {"index": 0, "message": message, **choice}
        else:
            choice = {"index": 0, "text": self.tokenizer.decode(tokens), **choice, "prompt_token_ids": prompt_ids}
        body: dict[str, object] = {
            "id": self.id,
            "object": "chat.completion" if self.ask.chat else "text_completion",
            "created": self.created,
            "model": self.ask.model,
            "choices": [choice],
        }
        if self.plan.settings.usage:
            body["usage"] = {**self.usage(), "prompt_tokens_details": None}
        if self.ask.chat:
            body["prompt_token_ids"] = prompt_ids
        if metrics := self._metrics():
            body["metrics"] = metrics
        return body

    def usage(self) -> dict[str, object]:
        prompt = len(self.ask.work.prompt)
        return {"prompt_tokens": prompt, "total_tokens": prompt + self.made, "completion_tokens": self.made}

    def _finish_reason(self) -> str | None:
        if self.made < min(len(self.ask.work.answer), self.ask.work.max_tokens):
            return None
        whole = self.made >= len(self.ask.work.answer) and self.ask.work.answer[-1:] == [self.tokenizer.end]
        return "stop" if whole else "length"

    def _stop_reason(self, reason: str | None) -> str | None:
        return self.ask.stopped_by if reason == "stop" else None

    def _metrics(self) -> dict[str, object] | None:
        """`metrics.speculative_decoding`, with --per-request-spec-decode-metrics."""
        mode = self.plan.args.value("per-request-spec-decode-metrics")
        if mode not in ("summary", "detailed") or self.plan.config is None:
            return None
        k = self.plan.config.num_speculative_tokens
        drafts = [step for step in self.steps if step.drafted]
        drafted, accepted = sum(step.drafted for step in drafts), sum(step.accepted for step in drafts)
        found: dict[str, object] = {
            "mean_acceptance_length": 1 + accepted / len(drafts) if drafts else None,
            "draft_acceptance_rate": accepted / drafted if drafted else None,
            "acceptance_histogram": [sum(step.accepted == count for step in drafts) for count in range(k + 1)],
            "num_spec_steps": len(drafts),
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": k,
        }
        if mode == "detailed":
            found["per_step_accepted"] = [step.accepted for step in drafts]
            found["per_step_drafted"] = [step.drafted for step in drafts]
        return {"speculative_decoding": found}


def _open() -> dict[str, object]:
    return {"logprobs": None, "finish_reason": None}
