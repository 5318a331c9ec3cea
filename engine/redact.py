"""Takes secrets out of evidence: engine logs, args, environment and kubeconfig text.

vLLM up to 0.26 prints its API key in the `non-default args` line, and logs are copied into verdicts and reports.
Redaction is by name and by shape; a secret that has neither is not found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"

_NAMES = (
    r"(?:[A-Za-z0-9]+[_-])*(?:api[_-]?key|hf[_-]?token|hugging[_-]?face[_-]?hub[_-]?token|access[_-]?token|auth[_-]?token"
    r"|secret[_-]?access[_-]?key|client[_-]?secret|client[_-]?key[_-]?data|password|passphrase)"
)
_QUOTED = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
# Whole or cut off; a bracket inside a quoted item does not end it.
_LIST = rf"\[(?:{_QUOTED}|[^\]\n])*\]?"
_SUBSTITUTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    # PEM blocks, whole or cut off.
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN)[\s\S])*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
        ),
        MASK,
    ),
    # 'api_key': '…' or 'api_key': ['…', '…'] in a Python dict or JSON.
    (re.compile(rf"((['\"]){_NAMES}\2\s*:\s*)(?:{_LIST}|{_QUOTED})", re.IGNORECASE), rf"\1\2{MASK}\2"),
    # --api-key=… and --api-key … (all values up to the next flag, also as a list of quoted args).
    (
        re.compile(
            rf"(--(?:{_NAMES}|token)(?:=|['\"]?,?\s+['\"]?))(?!-)(?:{_QUOTED}|[^\s'\",\]]+)"
            r"(?:(?:[ ]|['\"],\s+['\"])(?!-)[^\s'\",\]]+)*",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    # HF_TOKEN=…, password: …, token: … (environment, YAML).
    (
        re.compile(
            rf"(?<![\w'\"-])((?:{_NAMES}|token)\s*[=:]\s*)(?!\*\*\*|None\b|null\b)(?:{_LIST}|{_QUOTED}|[^\s,;'\"{{}}\[\]]+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (
        re.compile(r"\b(Bearer\s+|Authorization:\s*Basic\s+)(?!\*\*\*)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    # user:password@ in a URL.
    (re.compile(r"(://[^/\s:@]{1,200}:)[^/\s@]{1,500}(@)"), rf"\1{MASK}\2"),
    # Tokens known by their shape: Hugging Face, OpenAI style, GitHub, AWS access keys, JSON web tokens.
    (re.compile(r"\bhf_[A-Za-z0-9]{16,}"), MASK),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"), MASK),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"), MASK),
)
_SECRET_NAME = re.compile(rf"(?:{_NAMES}|token)", re.IGNORECASE)


def redact(text: str) -> str:
    """The text with every secret that is recognised replaced by ***; the rest is unchanged."""
    for pattern, replacement in _SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    return text


def redact_values(values: Mapping[str, object]) -> dict[str, object]:
    """The mapping with the values of secret names masked and all other text redacted."""
    return {
        name: MASK if _SECRET_NAME.fullmatch(name) and value is not None else _redacted(value)
        for name, value in values.items()
    }


def _redacted(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return redact_values(value)
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return value
