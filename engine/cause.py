"""One known cause of a failure: how it shows, what it means, what to do, and whether waiting can still help."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

Where = Literal["engine log", "pod", "event", "condition", "cloud"]


@dataclass(frozen=True)
class Cause:
    """A row of the cause table.

    where: engine log; pod (reason and message of a container state or a pod condition); event (reason and message);
    condition (type, reason and message of a Modelplane or Crossplane condition); cloud (error of a cloud API).
    pattern: regular expression, searched in the text; its named groups may be used as {name} in cause and remedy.
    terminal: waiting longer cannot help. grace_s: seconds for which a terminal cause must last before it counts, since
    it also shows in passing. source: where the message is known from.
    """

    id: str
    where: Where
    pattern: str
    cause: str
    remedy: str
    terminal: bool
    source: str
    grace_s: int = 0

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern; messages may be wrapped over lines."""
        return re.compile(self.pattern, re.DOTALL)

    def found_in(self, text: str) -> Cause | None:
        """This cause with the message's own values filled in, None when the text does not show it."""
        match = self.regex.search(text)
        if match is None:
            return None
        values = match.groupdict()
        return replace(self, cause=_filled(self.cause, values), remedy=_filled(self.remedy, values)) if values else self

    def line(self) -> str:
        """Cause and remedy as one line."""
        return f"{self.cause}; {self.remedy}"


def _filled(text: str, values: dict[str, str | None]) -> str:
    for name, value in values.items():
        if value is None:  # the message does not say: drop the remark in parentheses
            text = re.sub(rf" \([^()]*\{{{name}\}}[^()]*\)", "", text)
        text = text.replace(f"{{{name}}}", " ".join((value or "?").split()))
    return text
