"""The frame of a page and its parts: sections, tables, cards side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources

from pages.html import Html, element, join, text

# Nothing may be loaded and no script may run, whatever stands in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, *parts: object, footer: object = "") -> str:
    """The whole document. title: of the window; parts: what stands on it, text or Html."""
    style = resources.files("pages").joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element("body", element("main", *parts), element("footer", footer) if footer else "")
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def section(heading: str, *parts: object) -> Html:
    """A part of a page with its heading."""
    return element("section", element("h2", heading), *parts)


def side_by_side(*parts: Html) -> Html:
    """Parts beside each other where there is room."""
    return element("div", *parts, class_="pair")


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = ()) -> Html:
    """A table; the first cell of each row is its name. A wide one scrolls by itself."""
    header = element("thead", element("tr", *(element("th", cell, scope="col") for cell in head))) if head else ""
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    return element("div", element("table", header, element("tbody", *body)), class_="scroll")


def cards(items: Iterable[tuple[object, object, str, Iterable[object]]]) -> Html:
    """Boxes side by side, below each other on a narrow screen.

    items: (heading, word, tone, parts); word and tone: as of `mark`.
    """
    boxes = [
        element(
            "article",
            element("h3", heading),
            element("p", mark(word, tone)),
            *parts,
        )
        for heading, word, tone, parts in items
    ]
    return element("div", join(boxes), class_="cards")


def mark(word: object, tone: str) -> Html:
    """A word that stands out. tone: "good", "bad" or "open", its colour; the word says it too."""
    return element("span", text(word), class_=f"mark {tone}")
