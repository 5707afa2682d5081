"""Tables on the terminal: long paths keep their end, and a pipe gets them whole."""

import re

import pytest

from sightunseen.cli._printing import print_table

FOLDER = "/home/somebody/pictures/of/many/years/and/many/animals/summer"
ROWS = [(f"{FOLDER}/okapi-{k}.jpg", 1, "an animal with stripes", 99.5, False) for k in range(3)]
WHOLE = len(ROWS[0][0]) + len("rank") + len("an animal with stripes") + len("confidence %") + len("False") + 16  # with blanks
COLUMNS = ["path", "rank", "class", "confidence %", "seen"]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


def as_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("width", [200, WHOLE, WHOLE - 1, 100, 80])
def test_on_a_terminal_a_path_loses_its_front(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, width)
    print_table("Predictions", COLUMNS, ROWS, paths="path")
    title, _, _, *lines = printed(capsys)
    assert title == "Predictions"
    assert len(lines) == 3  # none is folded
    for k, line in enumerate(lines):
        assert len(line) <= width
        shown = line.split()[0]
        assert shown.endswith(f"okapi-{k}.jpg")
        assert shown.startswith("…") == (width < WHOLE)
        assert ROWS[k][0].endswith(shown.removeprefix("…"))
        assert "an animal with stripes" in line
    if width < WHOLE:
        assert max(map(len, lines)) >= width - 3  # no more is cut than must be


def test_in_a_pipe_paths_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Predictions", COLUMNS, ROWS, paths="path")
    assert [line.split()[0] for line in printed(capsys)[3:]] == [row[0] for row in ROWS]


def test_wide_letters_take_two_places(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    as_terminal(monkeypatch, 40)
    print_table("Predictions", ["path", "class"], [("/写真/" + "動物" * 20 + "/縞馬.jpg", "zebra")], paths="path")
    lines = printed(capsys)
    assert len(lines) == 4
    assert "縞馬.jpg" in lines[-1]


def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Predictions", COLUMNS, [], paths="path")
    assert printed(capsys)[0] == "Predictions"


def test_beside_long_texts_the_name_is_still_to_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, 80)
    print_table("Predictions", ["path", "reasons"], [(ROWS[0][0], "has stripes +0.42; " * 20)], paths="path")
    assert printed(capsys)[3].split()[0].endswith("/okapi-0.jpg")
