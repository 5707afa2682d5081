"""A page is one reproducible file, and nothing in the data can break out of its element."""

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from sightunseen.core.errors import StorageError
from sightunseen.report.figures import ROWS, Figure, Panel
from sightunseen.report.model_page import ModelReport, model_page
from sightunseen.report.page import (
    DataTable,
    Gallery,
    Note,
    Page,
    Photo,
    Section,
    Tile,
    Verbatim,
    as_json,
    compact,
    specs_of,
)

EVIL = [
    "</script><img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "<!--<script>",
    '"><b onmouseover=alert(3)>',
    'a & b\'s \\ "c"',
    "{{ 7 * 7 }}{% raw %}",
    "\u2028\u2029",
    "]]>",
]


class Read(HTMLParser):
    """Elements, texts and scripts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif self.inside != "style":
            self.texts.append(data)

    @property
    def data(self) -> dict[str, Any]:
        return {found["id"] or "": json.loads(text) for found, text in self.scripts if "id" in found}


def bars(names: list[str]) -> Figure:
    chart = alt.Chart(ROWS).mark_bar().encode(x="x:Q", y="class:N")
    return Figure("bars", names[0], names[1], {"class": names, "x": [1.0] * len(names)}, [Panel(chart, names[2])])


def evil_page() -> Page:
    photo = Photo(EVIL[0], EVIL[1], "wrong")
    blocks = [
        bars(EVIL),
        DataTable("table", EVIL[0], EVIL[1], {EVIL[2]: EVIL, "n": list(range(len(EVIL)))}, notes=EVIL),
        Gallery("gallery", EVIL[0], EVIL[1], {name: [photo] for name in EVIL}, {"class": EVIL}),
        Note(EVIL[0], "WARN"),
        Verbatim(EVIL[1], EVIL[0]),
    ]
    return Page(EVIL[0], EVIL[1], [Tile(EVIL[0], EVIL[1], EVIL[2])], [Section("all", EVIL[3], blocks)])


@pytest.mark.parametrize("text", EVIL)
def test_json_cannot_end_its_script_element(text: str) -> None:
    found = as_json({text: [text, 1.5, None, True]})
    assert not re.search("[<\u2028\u2029]", found)
    assert json.loads(found) == {text: [text, 1.5, None, True]}


def test_nan_is_rejected() -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_json([math.nan])


def test_all_texts_are_escaped() -> None:
    read = Read(evil_page().html())
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"img", "b", "iframe", "object", "link"}
    assert not [name for _, found in read.elements for name in found if name.startswith("on")]
    assert all(not found or {"type", "id", "data-csv"} >= set(found) for found, _ in read.scripts)
    assert [found.get("type") for found, _ in read.scripts] == [*["text/plain"] * 2, *["application/json"] * 2, None, None]
    shown = " ".join(read.texts)
    assert all(text in shown for text in EVIL)
    assert "49" not in shown
    assert list(read.data["figures"]["bars"]["columns"]["class"]) == EVIL
    tables = [list(csv.reader(io.StringIO(json.loads(text)))) for found, text in read.scripts if "data-csv" in found]
    assert [row[0] for row in tables[0][1:]] == EVIL


def column(packed: Any) -> list[Any]:
    """Unpack a column as page.js does."""
    return packed if isinstance(packed, list) else [packed["levels"][code] for code in packed["codes"]]


def test_compact_columns_lose_only_digits() -> None:
    columns = {
        "repeated": ["tern", "jay", "tern", "tern"],
        "different": ["a", "b", "c", "d"],
        "missing": ["a", None, "a", None],
        "whole": [1, 2_000_000_001, 0, -7],
        "small": [1 / 3, 123456.789, -1e-9, 2.0],
        "holes": [None, 0.5, None, 1e300],
        "truth": [True, False, True, True],
    }
    packed = json.loads(as_json(compact(columns)))
    found = {name: column(one) for name, one in packed.items()}
    for name in ("repeated", "different", "missing", "whole", "truth"):
        assert found[name] == columns[name], name
    assert found["small"] == [pytest.approx(value, rel=5e-5) for value in columns["small"]]
    assert found["holes"] == [None, 0.5, None, pytest.approx(1e300)]
    assert packed["repeated"]["levels"] == ["tern", "jay"]  # stored once
    assert isinstance(packed["different"], list)
    assert compact({"none": []}) == {"none": []}


def test_a_page_contains_the_data_of_its_figures(report: ModelReport) -> None:
    page = model_page(report)
    data = Read(page.html()).data["figures"]
    assert list(data) == [figure.name for figure in page.figures]
    for figure in page.figures:
        found = data[figure.name]
        assert len(found["panels"]) == len(figure.panels)
        for name, values in figure.columns.items():
            assert column(found["columns"][name]) == [
                pytest.approx(value, rel=5e-5) if isinstance(value, float) else value for value in values
            ]
    assert data == json.loads(as_json(specs_of(page.figures)))


def test_a_page_has_no_external_resources(report: ModelReport) -> None:
    html = model_page(report).html()
    read = Read(html)
    addresses = [value for _, found in read.elements for name, value in found.items() if name in ("src", "href", "action")]
    assert all(value and value.startswith("#") for value in addresses)
    styles = re.findall(r"(?s)<style>(.*?)</style>", html)
    assert len(styles) == 1
    assert not re.search(r"@import|url\(", styles[0])
    assert not any("src" in found for found, _ in read.scripts)


def test_ids_are_unique_and_every_section_is_linked(report: ModelReport) -> None:
    page = model_page(report)
    read = Read(page.html())
    ids = [found["id"] for _, found in read.elements if found.get("id")]
    assert len(set(ids)) == len(ids)
    links = [(found.get("href") or "")[1:] for tag, found in read.elements if tag == "a"]
    assert links == [section.name for section in page.sections]
    assert set(links) <= set(ids)


def test_pages_are_reproducible_byte_for_byte(report: ModelReport, tmp_path: Path) -> None:
    again = ModelReport(report.title, report.model, report.data)
    first, second = tmp_path / "first.html", tmp_path / "new" / "second.html"
    model_page(report).save(first)
    model_page(again).save(second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text("utf-8") == model_page(report).html()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.html", "new"]


def test_a_failed_save_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="could not write"):
        Page("title", "").save(tmp_path / "file" / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_levels_and_folded_tables_are_marked() -> None:
    table = DataTable("findings", "Findings", "", {"level": ["FAIL", "PASS", "other"]}, folded=True)
    read = Read(Page("title", "", [], [Section("s", "S", [table])]).html())
    assert [found.get("class") for tag, found in read.elements if tag == "td"] == ["level FAIL", "level PASS", None]
    assert "3 rows" in read.texts
