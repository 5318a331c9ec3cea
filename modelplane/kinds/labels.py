"""Label and annotation syntax of Kubernetes, for the metadata that Modelplane copies onto its objects and pods."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import Field

from modelplane.kinds.base import Model, Rule

RESERVED_PREFIX = "modelplane.ai/"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
# [.] instead of an escaped dot: nothing to escape on the way through YAML and CEL.
KEY_PATTERN = f"({_DNS_LABEL}([.]{_DNS_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
VALUE_PATTERN = "([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_PREFIX_LIMIT = 253  # a prefix is a DNS subdomain

_key = re.compile(KEY_PATTERN)
_value = re.compile(VALUE_PATTERN)
_dns_label = re.compile(_DNS_LABEL)


def is_dns_label(text: str) -> bool:
    """Whether text can be a DNS label: lower case letters, digits and inner hyphens, at most 63 characters."""
    return len(text) <= 63 and _dns_label.fullmatch(text) is not None


# 32 entries: with a bound the API server can estimate what the rules cost (v0.3.0 failed on that).
Labels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)]
Annotations = Annotated[dict[str, Annotated[str, Field(max_length=8192)]], Field(max_length=32)]


class LabelMeta(Model):
    """metadata of a template: labels that are added to composed objects."""

    labels: Labels | None = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"labels: keys under {RESERVED_PREFIX} are reserved for Modelplane",
            f"!has(self.labels) || !self.labels.exists(k, k.startsWith('{RESERVED_PREFIX}'))",
            lambda m: not any(key.startswith(RESERVED_PREFIX) for key in m.labels or {}),
        ),
        Rule(
            "labels: a key is not a Kubernetes label key",
            f"!has(self.labels) || self.labels.all(k, k.matches('^{KEY_PATTERN}$'))",
            lambda m: all(_key.fullmatch(key) for key in m.labels or {}),
        ),
        Rule(
            "labels: the prefix of a key is longer than 253 characters",
            f"!has(self.labels) || self.labels.all(k, k.split('/')[0].size() <= {_PREFIX_LIMIT})",
            lambda m: all(len(key.split("/")[0]) <= _PREFIX_LIMIT for key in m.labels or {}),
        ),
        Rule(
            "labels: a value is not a Kubernetes label value",
            f"!has(self.labels) || self.labels.all(k, self.labels[k].matches('^{VALUE_PATTERN}$'))",
            lambda m: all(_value.fullmatch(value) for value in (m.labels or {}).values()),
        ),
    )


class PodMeta(LabelMeta):
    """metadata of a member's pod template: applied to the engine pods (from v0.3.0 on)."""

    annotations: Annotations | None = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        *LabelMeta.RULES,
        Rule(
            "annotations: a key is not a Kubernetes annotation key",
            f"!has(self.annotations) || self.annotations.all(k, k.matches('^{KEY_PATTERN}$'))",
            lambda m: all(_key.fullmatch(key) for key in m.annotations or {}),
        ),
        Rule(
            "annotations: the prefix of a key is longer than 253 characters",
            f"!has(self.annotations) || self.annotations.all(k, k.split('/')[0].size() <= {_PREFIX_LIMIT})",
            lambda m: all(len(key.split("/")[0]) <= _PREFIX_LIMIT for key in m.annotations or {}),
        ),
    )
