"""HTML from values: whatever is not Html already is text, and text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

# Control characters that neither HTML nor a reader can use; a log may hold them.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Elements of HTML and SVG that hold nothing and have no end tag (SVG's parse the same in HTML).
_EMPTY = frozenset({"br", "hr", "meta", "rect", "line"})


class Html(str):
    """Text that is HTML already. Only this package makes it."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as HTML text; Html itself is kept."""
    return value if isinstance(value, Html) else Html(escape(_UNPRINTABLE.sub("�", str(value))))


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Parts one after the other; the separator is text."""
    return Html(text(separator).join(text(part) for part in parts))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. attributes: `class_` for class, `view_box` for viewBox, others with `-` for `_`; None leaves one
    out.
    """
    given = "".join(
        f' {_attribute(key)}="{escape(_UNPRINTABLE.sub("�", str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    close = "/>" if name in _EMPTY else f">{join(children)}</{name}>"
    return Html(f"<{name}{given}{close}")


def _attribute(key: str) -> str:
    # The one SVG attribute in use whose case matters to other readers than browsers.
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")
