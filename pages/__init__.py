"""Reports as one self-contained HTML page: no script, no network, light and dark, on paper too.

Text is escaped unless it was made here. Standard library only.
"""

from pages.chart import Bar, bar_chart
from pages.html import Html, element, join
from pages.page import cards, mark, page, section, side_by_side, table

__all__ = ["Bar", "Html", "bar_chart", "cards", "element", "join", "mark", "page", "section", "side_by_side", "table"]
