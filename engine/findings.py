"""The one type in which this project reports bad input: a finding is one line that names what, why and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# A finding is one line of a terminal; a longer value is recognised by its start.
_VALUE_LIMIT = 120


class Severity(StrEnum):
    """How bad a finding is: only an error stops a deployment."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Finding:
    """One thing to say about an input.

    path: property path, e.g. "speculative_config.prompt_lookup_min"; value: what was found there (None: nothing);
    why: what is wrong with it; remedy: what to do, "" when there is nothing to do.
    """

    severity: Severity
    path: str
    value: object
    why: str
    remedy: str = ""

    @classmethod
    def error(cls, path: str, value: object, why: str, remedy: str = "") -> Finding:
        """A finding that stops a deployment."""
        return cls(Severity.ERROR, path, value, why, remedy)

    @classmethod
    def warning(cls, path: str, value: object, why: str, remedy: str = "") -> Finding:
        """A finding that a person should read."""
        return cls(Severity.WARNING, path, value, why, remedy)

    def line(self) -> str:
        """The finding as one line: `error: <path>: <value>: <why>; <remedy>`."""
        parts = [str(self.severity), self.path]
        if self.value is not None:
            parts.append(_shortened(self.value))
        text = ": ".join(parts) + f": {self.why}"
        if self.remedy:
            text += f"; {self.remedy}"
        return " ".join(text.split())

    def __str__(self) -> str:
        return self.line()


class Problems(ValueError):  # noqa: N818 - it is a list of findings, not one error
    """Several findings raised at once, so that a user sees all of them in one run."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = tuple(findings)
        super().__init__("\n".join(finding.line() for finding in self.findings))

    def __reduce__(self) -> tuple[type[Problems], tuple[tuple[Finding, ...]]]:
        # BaseException would rebuild from the message; a process pool must get the findings back.
        return (type(self), (self.findings,))


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Only the findings that stop a deployment."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _shortened(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split()) or "''"
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 1] + "…"
