"""Tables on the terminal: long paths are shortened from the left, but not in a pipe."""

import re

import pytest

from sightunseen.cli._printing import print_calibration, print_choice, print_table
from sightunseen.core.calibration import Calibration
from sightunseen.core.records import RunRecord

FOLDER = "/home/somebody/pictures/of/many/years/and/many/animals/summer"
ROWS = [(f"{FOLDER}/okapi-{k}.jpg", 1, "an animal with stripes", 99.5, False) for k in range(3)]
WHOLE = len(ROWS[0][0]) + len("rank") + len("an animal with stripes") + len("confidence %") + len("False") + 16  # with spaces
COLUMNS = ["path", "rank", "class", "confidence %", "seen"]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


def as_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("width", [200, WHOLE, WHOLE - 1, 100, 80])
def test_paths_are_shortened_from_the_left_on_a_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, width)
    print_table("Predictions", COLUMNS, ROWS, paths="path")
    title, _, _, *lines = printed(capsys)
    assert title == "Predictions"
    assert len(lines) == 3  # no line is folded
    for k, line in enumerate(lines):
        assert len(line) <= width
        shown = line.split()[0]
        assert shown.endswith(f"okapi-{k}.jpg")
        assert shown.startswith("…") == (width < WHOLE)
        assert ROWS[k][0].endswith(shown.removeprefix("…"))
        assert "an animal with stripes" in line
    if width < WHOLE:
        assert max(map(len, lines)) >= width - 3  # not shortened more than needed


def test_paths_are_complete_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Predictions", COLUMNS, ROWS, paths="path")
    assert [line.split()[0] for line in printed(capsys)[3:]] == [row[0] for row in ROWS]


def test_wide_characters_count_as_two_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    as_terminal(monkeypatch, 40)
    print_table("Predictions", ["path", "class"], [("/写真/" + "動物" * 20 + "/縞馬.jpg", "zebra")], paths="path")
    lines = printed(capsys)
    assert len(lines) == 4
    assert "縞馬.jpg" in lines[-1]


def test_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Predictions", COLUMNS, [], paths="path")
    assert printed(capsys)[0] == "Predictions"


def test_file_names_stay_readable_next_to_long_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, 80)
    print_table("Predictions", ["path", "reasons"], [(ROWS[0][0], "has stripes +0.42; " * 20)], paths="path")
    assert printed(capsys)[3].split()[0].endswith("/okapi-0.jpg")


@pytest.mark.parametrize(
    ("by", "first"), [("H on validation classes", "noise 0.1"), ("T1 + H on validation classes", "noise 1")]
)
def test_tried_combinations_are_sorted_by_what_they_are_selected_by(
    by: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = [(0.1, 50.0, 41.0), (1.0, 60.0, 40.0)]
    tried = [
        {"settings": {"noise": noise}, "points": [{"T1": t1, "H_at_best_penalty": h, "AUSUC": 20.0, "best_penalty": 1.0}]}
        for noise, t1, h in numbers
    ]
    selection = {"by": by, "folds": [{"validation_classes": 3}], "tried": tried, "chosen": {"noise": 1.0, "seen_penalty": 1.0}}
    print_choice(RunRecord("train", "Foresight", {}, 0, "honest", {}, selection=selection), verbose=True)
    lines = printed(capsys)
    assert re.match(rf"\s*{first}\s", lines[3])
    assert lines[-1].startswith("Chosen on 1 class fold of 3 validation classes: noise 1, seen penalty 1")


def test_missing_rejection_threshold_is_always_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = Calibration(temperature=2.0, ECE=1.0, ECE_before=2.0, AUROC=50.0)
    sentence = "No rejection threshold is better than chance on validation classes: the model never answers 'none of these'."
    print_calibration(found, verbose=False)
    assert printed(capsys) == [sentence]
    print_calibration(found, verbose=True)
    assert printed(capsys)[0] == sentence
    print_calibration(Calibration(temperature=2.0, ECE=1.0, ECE_before=2.0, none_below=0.3), verbose=False)
    assert printed(capsys) == []
