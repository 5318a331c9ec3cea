"""How values are written into manifests, and how a manifest is told from a changed one."""

from __future__ import annotations

import base64
import hashlib
import json


def content_hash(*values: object) -> str:
    """16 hex digits of the SHA-256 of the values as canonical JSON: a gate with it as an input asks again when they
    change.
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base64_text(content: str | bytes) -> str:
    """Base64, as a Secret's `data` and a ConfigMap's `binaryData` take it."""
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()
