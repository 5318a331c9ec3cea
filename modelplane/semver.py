"""Semantic versions (semver.org 2.0.0) as DRA attributes hold them, e.g. the CUDA compute capability "8.9.0"."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SYNTAX = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@functools.total_ordering
@dataclass(frozen=True)
class Semver:
    """major.minor.patch and pre-release identifiers; build metadata takes no part in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        """ValueError when text is not a complete semantic version ("8.9" is not one)."""
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a semantic version")
        major, minor, patch, prerelease = match.groups()
        return cls(int(major), int(minor), int(patch), tuple(prerelease.split(".")) if prerelease else ())

    @staticmethod
    def is_valid(text: str) -> bool:
        """Whether parse() takes text."""
        return _SYNTAX.fullmatch(text) is not None

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[object, ...]:
        # A release is above its pre-releases; numeric identifiers are below the others.
        identifiers = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)
