"""Directive ``leaderboard``: tables of stored benchmark results, with links to the methods.

``docs/leaderboard/results.json`` is written by ``sightunseen benchmark show RESULTS --layout leaderboard --format json --out
docs/leaderboard/results.json``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sightunseen.methods.catalogue import CARDS

RESULTS = Path("leaderboard") / "results.json"
TITLE = "Leaderboard, "
LEAD = "Foresight's lead"
DETAILS = "details"
MARK = "‡"


def chosen(tables: Sequence[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    """Return the tables of a section. ``details``: all except the overviews and the lead."""
    if what == DETAILS:
        return [table for table in tables if not table["title"].startswith((TITLE, LEAD))]
    title = LEAD if what == "lead" else f"{TITLE}{what}"
    return [table for table in tables if table["title"] == title]


def markdown(table: dict[str, Any]) -> list[str]:
    """Return the lines of a table in Markdown; methods of the package are links to their pages."""
    linked = [[*map(_linked, row[:1]), *row[1:]] if table["columns"][0] == "method" else row for row in table["rows"]]
    lines = [table["columns"], ["---"] * len(table["columns"]), *linked]
    rows = [" | ".join(cell.replace("|", r"\|").replace(" ± ", "\u00a0±\u00a0") for cell in line) for line in lines]
    return [*(f"| {row} |" for row in rows), "", *(line for note in table["notes"] for line in (note, ""))]


def _linked(cell: str) -> str:
    name = cell.removesuffix(MARK)
    return f"{{py:obj}}`{name} <sightunseen.methods.{CARDS[name].estimator}>`{cell[len(name) :]}" if name in CARDS else cell


class Leaderboard(SphinxDirective):
    """Tables of stored results: ``inductive`` or ``transductive``, ``lead`` or ``details``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build the tables; those of the details are under headings."""
        source = Path(self.env.srcdir) / RESULTS
        self.env.note_dependency(str(source))
        what = self.arguments[0]
        found: list[nodes.Node] = []
        for table in chosen(json.loads(source.read_text("utf-8")), what):
            if what == DETAILS:
                found.append(nodes.rubric(text=table["title"]))
            box = nodes.container()
            self.state.nested_parse(StringList(markdown(table), source=str(source)), self.content_offset, box)
            found += box.children
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("leaderboard", Leaderboard)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
