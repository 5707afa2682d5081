"""Link every metric in text and tables to its row in the glossary.

The glossary is plain Markdown: a term is the first cell of a row of its tables. Each row gets an anchor, and the metrics,
which are the terms of the first table, become links with their definition as tooltip wherever they are written outside code,
titles and other links.
"""

import re
from collections.abc import Iterable, Iterator

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

GLOSSARY = "glossary"
NOT_LINKED = (
    *(nodes.literal, nodes.FixedTextElement, nodes.reference, nodes.title, nodes.math, nodes.raw, nodes.caption),
    addnodes.pending_xref,
)
METHOD_PAGES = "generated/api/sightunseen.methods."
FORMULA = re.compile(r"=|\|\|")


def anchor_of(term: str) -> str:
    """Return the anchor of a term."""
    return f"term-{nodes.make_id(term)}"


def rows_of(table: nodes.table) -> Iterator[nodes.row]:
    """Yield the rows of the table's body."""
    for body in table.findall(nodes.tbody):
        yield from body.findall(nodes.row)


def add_anchors(app: Sphinx, doctree: nodes.document) -> None:
    """Add an anchor to each term of the glossary, and remember the definitions of the metrics."""
    if app.env.docname != GLOSSARY:
        return
    tables = list(doctree.findall(nodes.table))
    for table in tables:
        for row in rows_of(table):
            row["ids"].append(anchor_of(row[0].astext()))
    app.env.metric_definitions = {row[0].astext(): row[1].astext() for row in rows_of(tables[0])}


class MetricLinks(SphinxPostTransform):
    """Replace the names of metrics in text by links to the glossary."""

    default_priority = 4  # before references are resolved and the gallery's code becomes text

    def run(self, **_: object) -> None:
        """Transform the page."""
        if self.env.docname == GLOSSARY:
            return
        definitions = self.env.metric_definitions
        every = _pattern(definitions)
        long = _pattern(name for name in definitions if len(name) > 1)
        for text in list(self.document.findall(nodes.Text)):
            if _within(text, NOT_LINKED):
                continue
            parts = (long if self._means_matrices(text) else every).split(text)  # text and names alternate
            if len(parts) > 1:
                linked = [self._link(part, definitions) if k % 2 else nodes.Text(part) for k, part in enumerate(parts)]
                text.parent.replace(text, linked)

    def _means_matrices(self, text: nodes.Text) -> bool:
        """Return whether single letters are the matrices of a formula or of a method's paper."""
        return self.env.docname.startswith(METHOD_PAGES) or FORMULA.search(text.parent.astext()) is not None

    def _link(self, name: str, definitions: dict[str, str]) -> nodes.Node:
        link = make_refnode(
            self.app.builder, self.env.docname, GLOSSARY, anchor_of(name), nodes.Text(name), title=definitions[name]
        )
        link["classes"].append("metric")
        return link


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w.'\u2019/-])({longest_first})(?![\w'\u2019]|-\w|\.\w)")


def _within(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, kinds):
            return True
        parent = parent.parent
    return False


def merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    """Take over the definitions from the process that read the glossary."""
    if GLOSSARY in docnames:
        env.metric_definitions = other.metric_definitions


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.connect("doctree-read", add_anchors)
    app.connect("env-merge-info", merge)
    app.add_post_transform(MetricLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
