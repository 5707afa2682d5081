"""``train --method auto``: the comparison is printed, recorded and part of the report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numpy.linalg import LinAlgError

from sightunseen.methods import DAP, METHODS
from sightunseen.methods.catalogue import CARDS
from sightunseen.pipeline import AutomaticSpecification

Run = Callable[[str], tuple[int, str, str]]

QUICK = [name for name, card in CARDS.items() if card.quick]


def record(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "record.json").read_text("utf-8"))
    return found


def row_of(out: str, name: str) -> list[str]:
    return next(line.split() for line in out.splitlines() if line.split()[:1] == [name])


def test_methods_are_compared_and_one_is_trained(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in QUICK:
        monkeypatch.setattr(METHODS[CARDS[name].estimator], "search_space", {})
    code, out, err = run("train data --method auto --verbose --out chosen")
    assert code == 0, err
    assert f"comparing {', '.join(QUICK)} on class folds" in err
    comparison = record("chosen")["selection"]["methods"]
    assert {row["method"] for row in comparison["compared"]} == set(QUICK)
    for row in comparison["compared"]:
        cells = row_of(out, row["method"])
        assert cells[1:5] == [f"{row[name]:.1f}" for name in ("T1", "H", "T1 + H", "standard_error")]
    chosen = record("chosen")["method"]
    assert chosen == comparison["chosen"]
    assert f"\n{comparison['why']}\n" in out
    assert comparison["why"].startswith(f"{chosen} was chosen: ")
    assert run(f"train data --method {chosen} --out named")[0] == 0
    assert record("chosen")["results"] == record("named")["results"]
    code, out, err = run("report chosen data --quick --out page.html")
    assert code == 0, err
    page = Path("page.html").read_text("utf-8")
    assert "Methods compared on validation classes" in page
    assert f"{chosen} was chosen: " in page


def test_failing_method_is_a_note_and_seeds_share_the_method(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DAP, *args: Any, **others: Any) -> None:
        raise LinAlgError("Singular matrix")

    monkeypatch.setattr(DAP, "fit", fail)
    monkeypatch.setattr(
        AutomaticSpecification, "candidates", lambda self: {name: self.using(name).estimators()[0] for name in ("DAP", "GFZSL")}
    )
    code, out, err = run("train data --method auto --seeds 2 --out chosen")
    assert code == 0, err
    assert "note: DAP was left out: Singular matrix" in out
    assert "The method was chosen with seed 0 for all seeds." in out
    found = record("chosen")
    assert found["method"] == "GFZSL"
    assert len(found["seeds"]["results"]) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--set noise=1", "--set needs a named method. Give --method NAME."),
        ("--preset paper-cub", "--preset paper-cub needs a named method"),
        ("--search-scaling", "--search-scaling needs a named method"),
        ("--select none", "--select none needs a named method"),
        ("--search noise=1,2", "a search space needs a named method"),
        ("--protocol paper", "protocol paper needs a named method"),
    ],
)
def test_options_that_need_a_named_method(run: Run, desk: Path, options: str, words: str) -> None:
    code, out, err = run(f"train data --method auto {options} --out chosen")
    assert (code, out) == (2, "")
    assert words in err
    assert not Path("chosen").exists()


def test_help_names_it(run: Run) -> None:
    assert "auto" in run("train --help")[1]
