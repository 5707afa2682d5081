"""The API reference is complete, metrics are in the glossary, and the leaderboard agrees with the results page."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sightunseen
from sightunseen import methods
from sightunseen.core import errors, metrics

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


def test_the_leaderboard_has_the_rows_of_the_results_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    leaderboard = importlib.import_module("leaderboard")
    sys.modules.pop("leaderboard")
    tables = leaderboard.read_tables((DOCS / "results.md").read_text("utf-8"))
    assert {setting for _, setting in tables} == {"inductive", "transductive"}
    for setting in ("inductive", "transductive"):
        header, *rows = leaderboard.leaderboard(tables, setting)
        assert header[3] == "CUB, ResNet-50: T1"
        assert len(rows) == len(tables["CUB, ResNet-50", setting])
        assert "Foresight" in rows[0][0]
        assert rows[0][3] == tables["CUB, ResNet-50", setting][0]["T1"]
        assert [float(row[2]) for row in rows] == sorted(float(row[2]) for row in rows)


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
