"""Directive ``leaderboard``: one table per setting, read from the tables of the results page."""

import itertools
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sightunseen.methods.catalogue import CARDS

SECTION = re.compile(r"^### (?P<data>.+), (?P<setting>inductive|transductive)$", re.MULTILINE)
METRICS = ("T1", "H")


def read_tables(text: str) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Return the rows of each section ``### DATA, SETTING``, by data set and setting."""
    parts = SECTION.split(text)[1:]  # data, setting, content, data, ...
    return {
        (data, setting): _rows(content) for data, setting, content in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def _rows(content: str) -> list[dict[str, str]]:
    table = itertools.takewhile(lambda line: line.startswith("|"), content.strip().splitlines())
    header, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    return [dict(zip(header, cells, strict=True)) for cells in body]


def leaderboard(tables: dict[tuple[str, str], list[dict[str, str]]], setting: str) -> list[list[str]]:
    """Return header and rows of one setting, best mean rank by H first."""
    chosen = {data: {row["method"]: row for row in rows} for (data, kind), rows in tables.items() if kind == setting}
    methods = [name for name in CARDS if all(name in rows for rows in chosen.values())]

    def mean_rank(name: str) -> float:
        return sum(int(rows[name]["rank"]) for rows in chosen.values()) / len(chosen)

    header = ["method", "year", "mean rank by H", *(f"{data}: {metric}" for data in chosen for metric in METRICS)]
    body = [
        [
            f"{{py:obj}}`{name} <sightunseen.methods.{CARDS[name].estimator}>`",
            str(CARDS[name].year),
            f"{mean_rank(name):.1f}",
            *(rows[name][metric] for rows in chosen.values() for metric in METRICS),
        ]
        for name in sorted(methods, key=mean_rank)
    ]
    return [header, *body]


class Leaderboard(SphinxDirective):
    """Table of the methods of a setting on every data set of the results page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        source = Path(self.env.srcdir) / "results.md"
        self.env.note_dependency(str(source))
        table = leaderboard(read_tables(source.read_text("utf-8")), self.arguments[0])
        lines = [table[0], ["---"] * len(table[0]), *table[1:]]
        text = StringList([f"| {' | '.join(row)} |" for row in lines], source=str(source))
        box = nodes.container()
        self.state.nested_parse(text, self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("leaderboard", Leaderboard)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
