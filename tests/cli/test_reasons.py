"""``sightunseen predict --reasons``: why the best class is ahead of the second-best one, in files and on the terminal."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightunseen.analysis.contributions import contributions
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ESZSL, load_model

Run = Callable[[str], tuple[int, str, str]]
NAMES = ("has_crown_color::red", "has_bill_shape::hooked", "size", "speed")


def succeed(run: Run, line: str) -> tuple[str, str]:
    code, out, err = run(line)
    assert code == 0, err
    return out, err


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Images in ``images.npy`` and a ``model`` with named attributes, both in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = ClassTable([f"bird {k}" for k in range(6)], rng.random((6, 4)), NAMES)
    y = np.repeat(table.labels, 5)
    X = (table.vectors_of(y) @ rng.normal(size=(4, 8)) + 0.2 * rng.normal(size=(30, 8))).astype(np.float32)
    ESZSL(seen_penalty=1.0).fit(X[:20], y[:20], table).save("model")
    np.save("images.npy", X)
    return X


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_format_has_reasons_for_the_best_class(run: Run, images: np.ndarray) -> None:
    for ending in ("csv", "json", "jsonl"):
        succeed(run, f"predict model images.npy --top 2 --out found.{ending} --reasons 2")
    rows, model = read("found.csv"), load_model("model")
    assert list(rows[0]) == ["path", "rank", "class", "confidence", "seen", "runner_up", "speaks_for", "speaks_against"]
    lines = [json.loads(line) for line in Path("found.jsonl").read_text("utf-8").splitlines()]
    for other in (json.loads(Path("found.json").read_text("utf-8")), lines):
        assert [row["speaks_for"] for row in other] == [row["speaks_for"] for row in rows]
    shown = ("crown color: red", "bill shape: hooked", "size", "speed")
    for x, best, second in zip(images, rows[::2], rows[1::2], strict=True):
        assert best["runner_up"] == second["class"]
        parts = contributions(model, x[None], best["class"], second["class"])
        values = parts.values[0]
        signs = {phrase.partition(name)[0] for phrase, name in zip(parts.phrases, shown, strict=True)}
        assert signs <= {"", "not ", "less ", "more "}
        for column, sign in (("speaks_for", 1), ("speaks_against", -1)):
            order = [k for k in np.argsort(-sign * values)[:2] if sign * values[k] > 0]
            found = [re.fullmatch(r"(.*) ([+-]\d.*)", part) for part in best[column].split("; ") if part]
            assert [part[1] for part in found] == [parts.phrases[k] for k in order]
            np.testing.assert_allclose([float(part[2]) for part in found], values[order], rtol=5.1e-3, atol=1e-5)
        assert second["speaks_for"] == second["speaks_against"] == second["runner_up"] == ""
    best_row = next(row for row in rows if row["speaks_for"])
    assert re.match(r"[\w :]+ \+\d", best_row["speaks_for"])


def test_the_default_is_three_reasons_of_either_sign(run: Run, images: np.ndarray) -> None:
    succeed(run, "predict model images.npy --out found.csv --reasons")
    assert max(len(row["speaks_for"].split("; ")) for row in read("found.csv")) == 3
    out, _ = succeed(run, "predict model images.npy --reasons 1")
    assert "speaks for" in out
    assert "crown color: red +" in out
    assert "not " in out
    succeed(run, "predict model images.npy --out found.csv")
    assert "speaks_for" not in read("found.csv")[0]
    code, _, err = run("predict model images.npy --reasons 0")
    assert (code, "--reasons" in err) == (2, True)


def test_a_model_whose_descriptions_are_not_stored_has_no_reasons_and_one_note(run: Run, images: np.ndarray) -> None:
    table = ClassTable(["owl", "kea", "emu"], {"text:encoder": np.random.default_rng(0).random((3, 7))})
    ESZSL().fit(images[:20], np.repeat(["owl", "kea"], 10), table).save("by-text")
    _, err = succeed(run, "predict by-text images.npy --out found.csv --reasons")
    assert err.count("note: ") == err.count("descriptions are not stored") == 1
    rows = read("found.csv")
    assert len(rows) == 30
    assert {row["speaks_for"] + row["speaks_against"] for row in rows} == {""}
