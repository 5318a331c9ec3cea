"""What stands on a page stays text, a page needs nothing from elsewhere, and a picture is also said in words."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from pages import Bar, Html, bar_chart, cards, element, join, mark, page, section, table
from pages.chart import MAX_BARS

HOSTILE = "<script>alert('x')</script> & \"y\""
ESCAPED = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;y&quot;"

ELEMENTS = [
    pytest.param(element("p", HOSTILE), f"<p>{ESCAPED}</p>", id="text is escaped"),
    pytest.param(element("p", element("b", "x"), "<"), "<p><b>x</b>&lt;</p>", id="elements are kept"),
    pytest.param(element("p", 1, None), "<p>1None</p>", id="any value is text"),
    pytest.param(element("a", title=HOSTILE), f'<a title="{ESCAPED}"></a>', id="attributes are escaped"),
    pytest.param(
        element("svg", view_box="0 0 1 1", text_anchor="end", class_="x", id=None),
        '<svg viewBox="0 0 1 1" text-anchor="end" class="x"></svg>',
        id="names of attributes",
    ),
    pytest.param(element("br"), "<br/>", id="an empty element"),
    pytest.param(element("p", "a\x00b\x1b[31m\ud800\n"), "<p>a\ufffdb\ufffd[31m\ufffd\n</p>", id="control characters"),
    pytest.param(join(["<", Html("<b>")], " & "), "&lt; &amp; <b>", id="parts and their separator"),
    pytest.param(mark("<", "bad"), '<span class="mark bad">&lt;</span>', id="a mark"),
    pytest.param(
        table([("<a>", "1"), ("b", "2")], ("name", "<n>")),
        '<div class="scroll"><table><thead><tr><th scope="col">name</th><th scope="col">&lt;n&gt;</th></tr></thead>'
        '<tbody><tr><th scope="row">&lt;a&gt;</th><td>1</td></tr><tr><th scope="row">b</th><td>2</td></tr></tbody>'
        "</table></div>",
        id="a table",
    ),
    pytest.param(
        cards([("<h>", "yes", "good", ["<t>"])]),
        '<div class="cards"><article><h3>&lt;h&gt;</h3><p><span class="mark good">yes</span></p>&lt;t&gt;</article>'
        "</div>",
        id="cards",
    ),
]


@pytest.mark.parametrize(("given", "html"), ELEMENTS)
def test_text_is_escaped_and_elements_are_kept(given: Html, html: str) -> None:
    assert given == html


class Tags(HTMLParser):
    """The tags of a document in order, and whether each that has an end is closed."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_needs_nothing_from_elsewhere() -> None:
    document = page(HOSTILE, section(HOSTILE, HOSTILE), footer=HOSTILE)
    tags = Tags(document)
    assert document.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>')
    assert document.count(ESCAPED) == 4 and "<script" not in document
    assert tags.open == []
    assert set(tags.names) == {"html", "head", "meta", "title", "style", "body", "main", "section", "h2", "footer"}
    assert re.findall(r"(?:\bsrc=|href=|url\(|@import|https?:)", document) == []
    assert 'content="default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;"' in document


def test_a_chart_draws_its_shares_and_says_them() -> None:
    chart = bar_chart(
        "Acceptance", [Bar("1", 1.0, "100%"), Bar("2", 0.25, "25%"), Bar("<3>", 0.0, "0%")], across="position"
    )
    heights = [float(height) for height in re.findall(r'<rect [^>]*height="([\d.]+)"', chart)]
    assert [height / heights[0] for height in heights] == [1.0, 0.25, 0.0]
    assert 'role="img" aria-label="Acceptance: 1: 100%, 2: 25%, &lt;3&gt;: 0%"' in chart
    assert ">&lt;3&gt;</text>" in chart and ">position</text>" in chart


SHARES = [(-0.5, 0.0), (1.5, 1.0)]


@pytest.mark.parametrize(("given", "drawn"), SHARES)
def test_a_share_that_is_none_stays_inside_the_picture(given: float, drawn: float) -> None:
    chart = bar_chart("t", [Bar("a", 1.0, ""), Bar("b", given, "")], across="")
    full, height = (float(found) for found in re.findall(r'<rect [^>]*height="([\d.]+)"', chart))
    assert height == full * drawn


def test_bars_that_are_not_drawn_are_counted() -> None:
    chart = bar_chart("t", [Bar(str(n), 0.5, "") for n in range(MAX_BARS + 3)], across="")
    assert chart.count("<rect") == MAX_BARS
    assert "<figcaption>3 more are not drawn</figcaption>" in chart
