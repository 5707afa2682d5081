"""The API reference is complete, metrics are in the glossary, and the leaderboard is built from stored results."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sightunseen
from sightunseen import methods
from sightunseen.core import errors, metrics
from sightunseen.methods.catalogue import CARDS, INDUCTIVE

DOCS = Path(__file__).parents[2] / "docs"
LISTED = re.findall(r"^   ([\w.]+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)


def listed() -> list[object]:
    """Objects of the API reference."""
    return [_object(f"sightunseen.{name}") for name in LISTED]


def _object(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def defined_in(module: object) -> list[object]:
    """Public classes and functions that a module defines."""
    found = (value for name, value in vars(module).items() if not name.startswith("_"))
    return [value for value in found if inspect.isclass(value) or inspect.isfunction(value)]


def test_the_api_reference_lists_each_object_once() -> None:
    found = listed()
    assert len({id(one) for one in found}) == len(found)


@pytest.mark.parametrize(
    "public",
    [
        pytest.param([getattr(sightunseen, name) for name in sightunseen.__all__ if name != "__version__"], id="sightunseen"),
        pytest.param([methods.METHODS[name] for name in methods.METHODS], id="methods"),
        pytest.param([getattr(methods, name) for name in dir(methods) if name.endswith("Classifier")], id="base classes"),
        pytest.param([one for one in defined_in(metrics) if one.__module__ == metrics.__name__], id="metrics"),
        pytest.param([one for one in defined_in(errors) if one.__module__ == errors.__name__], id="errors"),
    ],
)
def test_the_api_reference_is_complete(public: list[object]) -> None:
    found = {id(one) for one in listed()}
    assert [one for one in public if id(one) not in found] == []


def test_every_metric_of_the_code_is_in_the_glossary() -> None:
    glossary = re.findall(r"^\| ([^|]+?) \|", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert {name.replace("_", " ") for name in metrics.METRICS} <= {*glossary}


@pytest.fixture
def leaderboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The directive of the leaderboard page."""
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    yield importlib.import_module("leaderboard")
    sys.modules.pop("leaderboard")


def test_the_leaderboard_is_built_from_stored_results(leaderboard: ModuleType) -> None:
    tables = json.loads((DOCS / leaderboard.RESULTS).read_text("utf-8"))
    page = (DOCS / "leaderboard.md").read_text("utf-8")
    sections = re.findall(r"```\{leaderboard\} (\w+)", page)
    shown = [table for section in sections for table in leaderboard.chosen(tables, section)]
    assert [table["title"] for table in shown] == [table["title"] for table in tables]
    (overview,) = leaderboard.chosen(tables, "inductive")
    ranks = [row[overview["columns"].index("rank H")] for row in overview["rows"]]
    in_order = [(rank.endswith("*"), float(rank.removesuffix("*"))) for rank in ranks]  # * lacks some data sets
    assert in_order == sorted(in_order)
    listed = {row[0] for row in overview["rows"]}
    assert listed == {name for name, card in CARDS.items() if card.setting == INDUCTIVE and not card.ablation}
    details = [table for table in leaderboard.chosen(tables, "details") if table["title"].endswith(", inductive")]
    assert listed <= {row[0].removesuffix(leaderboard.MARK) for table in details for row in table["rows"]}


def test_methods_of_the_leaderboard_are_links(leaderboard: ModuleType) -> None:
    table = {"title": "", "columns": ["method", "T1"], "rows": [["SP-AEN‡", "1.0"], ["mine", "2.0"]], "notes": ["A note."]}
    assert leaderboard.markdown(table) == [
        "| method | T1 |",
        "| --- | --- |",
        "| {py:obj}`SP-AEN <sightunseen.methods.SPAEN>`‡ | 1.0 |",
        "| mine | 2.0 |",
        "",
        "A note.",
        "",
    ]


def test_metrics_in_text_and_tables_link_to_the_glossary(tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text((DOCS / "glossary.md").read_text("utf-8"), "utf-8")
    (tmp_path / "index.md").write_text(
        "# H in a title\n\nU is lower than T1. Not linked: `S`, an H200, H-like.\n\nThe matrix S = X'X.\n\n"
        "| method | H plain |\n|---|---|\n| one | 3 |\n\n```{toctree}\nglossary\n```\n"
    )
    extensions = "extensions=myst_parser,glossary_links"
    command = [sys.executable, "-m", "sphinx", "-q", "-C", "-D", extensions, str(tmp_path), str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(DOCS / "_extensions")}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    links = re.findall(r'<a class="metric[^>]*href="glossary.html#(term-[^"]+)"[^>]*>([^<]+)</a>', page)
    assert links == [("term-u", "U"), ("term-t1", "T1"), ("term-h-plain", "H plain")]
    glossary = (tmp_path / "out" / "glossary.html").read_text("utf-8")
    assert [anchor for anchor, _ in links if f'id="{anchor}"' not in glossary] == []
