"""A bar chart as inline SVG: a bar for each value, its label below and its value above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pages.html import Html, element, join

# In units of the picture, which grows with the page: a bar with its gap, the height of the plot, and room for text.
_STEP, _GAP = 64, 20
_HEIGHT = 160
_ABOVE, _BELOW, _LEFT = 28, 46, 60
# Below this share of its size the text is too small to read; a narrower page scrolls the picture.
_SMALLEST = 0.6
# More bars than this do not fit on paper.
MAX_BARS = 16


@dataclass(frozen=True)
class Bar:
    """label: below it; share: height, 0 to 1; shown: the value in words, above it."""

    label: str
    share: float
    shown: str


def bar_chart(title: str, bars: Sequence[Bar], *, across: str) -> Html:
    """title: what a reader who cannot see it hears; across: name of the horizontal axis. The vertical one ends at 100
    %. Bars beyond MAX_BARS are left out, and that is said.
    """
    drawn = bars[:MAX_BARS]
    width = _LEFT + max(1, len(drawn)) * _STEP
    bottom = _ABOVE + _HEIGHT
    spoken = f"{title}: " + ", ".join(f"{bar.label}: {bar.shown}" for bar in drawn)
    parts = [element("title", spoken), *_grid(width)]
    for index, bar in enumerate(drawn):
        parts.append(_bar(bar, _LEFT + index * _STEP))
    parts.append(element("text", across, x=(_LEFT + width) / 2, y=bottom + 40, class_="axis", text_anchor="middle"))
    svg = element(
        "svg",
        *parts,
        role="img",
        aria_label=spoken,
        view_box=f"0 0 {width} {bottom + _BELOW}",
        style=f"min-width: {width * _SMALLEST:.0f}px; max-width: {width * 1.2:.0f}px",
    )
    left_out = len(bars) - len(drawn)
    return element("figure", svg, element("figcaption", f"{left_out} more are not drawn") if left_out else "")


def _grid(width: int) -> list[Html]:
    lines = []
    for percent in (0, 50, 100):
        y = _ABOVE + _HEIGHT * (1 - percent / 100)
        lines += [
            element("line", x1=_LEFT, x2=width, y1=y, y2=y, class_="grid"),
            element("text", f"{percent} %", x=_LEFT - 8, y=y + 4, class_="axis", text_anchor="end"),
        ]
    return lines


def _bar(bar: Bar, x: int) -> Html:
    height = _HEIGHT * min(1.0, max(0.0, bar.share))
    top, middle = _ABOVE + _HEIGHT - height, x + _STEP / 2
    return join(
        [
            element("rect", x=x + _GAP / 2, y=f"{top:.1f}", width=_STEP - _GAP, height=f"{height:.1f}", class_="bar"),
            element("text", bar.shown, x=middle, y=f"{top - 6:.1f}", class_="value", text_anchor="middle"),
            element("text", bar.label, x=middle, y=_ABOVE + _HEIGHT + 18, class_="axis", text_anchor="middle"),
        ]
    )
