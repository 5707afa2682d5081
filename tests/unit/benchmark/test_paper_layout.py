"""Layout of the paper's Tables 3 and 4, from made-up outcomes."""

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from sightunseen.benchmark.outcome import DONE, FAILED, Outcome
from sightunseen.benchmark.paper_formats import as_paper, as_table
from sightunseen.benchmark.paper_layout import PaperTable, paper_tables
from sightunseen.core.metrics import ACCURACIES, RECORDED


def outcome(method: str, seed: int, t1: float, data: str = "CUB res50", version: int = 1, **changes: Any) -> Outcome:
    """An outcome whose U, S and H are T1 minus 10, 20 and 30."""
    shown = {
        "data": data,
        "published_name": data.split()[0],
        "backbone": "ResNet-50",
        "method": method,
        "label": method,
        "setting": "transductive" if "-tran" in method else "inductive",
        "selection": "validation",
        "seed": seed,
        **changes,
    }
    identity = {
        "data": data,
        "method": {"name": shown["label"], "version": version, "settings": {"seed": seed}},
        "shown": {name: shown[name] for name in ("selection", "label")} | {"budget": shown.get("budget", "")},
        "seed": seed,
    }
    results = dict.fromkeys(RECORDED, 1.0) | dict(zip(ACCURACIES, (t1, t1 - 10, t1 - 20, t1 - 30), strict=True))
    return Outcome(DONE, identity, shown, record={"results": results})


def seeds(method: str, *t1: float, **changes: Any) -> list[Outcome]:
    return [outcome(method, seed, value, **changes) for seed, value in enumerate(t1)]


OUTCOMES = [
    *seeds("CVC", 54.0, 55.0, 56.0, budget="paper-cub"),
    *seeds("CVC", 60.0, 61.0, 62.0, data="SUN res50", budget="paper-sun"),
    *seeds("ESZSL", 53.8, 55.1, 55.9),
    *seeds("ESZSL", 40.0, 41.1, 42.0, data="SUN res50"),
    *seeds("ALE", 40.0, 41.2, 42.0, budget="full"),
    *seeds("Foresight", 55.0, 55.0, 55.2, data="SUN res50"),
    *seeds("SAE", 90.0, 90.0, 91.0, selection="oracle"),
    *seeds("CVC-tran-GXE", 61.0, 62.0, 62.5, budget="paper-cub"),
]


def rows_of(table: PaperTable, form: str = "table") -> dict[str, list[str]]:
    return {row[0]: list(row[1:]) for row in as_table(table, form).rows}


def test_data_sets_are_side_by_side_in_the_order_of_the_paper() -> None:
    inductive, transductive = paper_tables(OUTCOMES)
    assert (inductive.setting, transductive.setting) == ("inductive", "transductive")
    columns = [f"{data} res50 {metric}" for data in ("SUN", "CUB") for metric in ("T1", "U", "S", "H")]
    assert as_table(inductive).columns == ["method", *columns]
    assert transductive.data == ("CUB res50",)
    # A preset per data set is one row; the budget is not named where a method has one.
    assert [list(group) for group in inductive.groups] == [["ALE", "ESZSL"], ["Foresight"], ["CVC"], ["SAE (oracle)"]]


def test_means_and_best_of_each_column() -> None:
    rows = rows_of(paper_tables(OUTCOMES)[0])
    assert rows["CVC"] == ["61.0*", "51.0*", "41.0*", "31.0*", "55.0*", "45.0*", "35.0*", "25.0*"]
    assert rows["ALE"][:4] == ["-"] * 4
    assert rows["ALE"][4] == "41.1"  # significantly worse
    assert rows["SAE (oracle)"][4] == "90.3*"  # compared with what was selected on test data only
    assert rows_of(paper_tables(OUTCOMES)[0], "md")["CVC"][0] == "**61.0**"


def test_results_that_are_not_significantly_worse_are_marked() -> None:
    rows = rows_of(paper_tables(OUTCOMES)[0])
    assert rows["ESZSL"][4:] == ["54.9°", "44.9°", "34.9°", "24.9°"]
    assert rows["ESZSL"][0] == "41.0"
    notes = " ".join(paper_tables(OUTCOMES)[0].notes)
    assert "mean over 3 seeds" in notes
    assert "paired t-test over seeds, Holm's correction, 5%" in notes
    few = paper_tables([one for one in OUTCOMES if one.shown["seed"] < 2])[0]
    assert "°" not in str(as_table(few).rows)
    assert "not tested" in " ".join(few.notes)


def test_results_with_too_few_seeds_are_marked_as_not_tested() -> None:
    (table,) = paper_tables([*seeds("CVC", 54.0, 55.0, 56.0), *seeds("ESZSL", 30.0, 31.0, 32.0), *seeds("SAE", 53.0, 54.0)])
    found = rows_of(table)
    assert (found["SAE"][0], found["ESZSL"][0]) == ("53.5?", "31.0")
    assert "? not tested: fewer than 3 seeds in common with the best." in table.notes
    (table,) = paper_tables([*seeds("CVC", 54.0, 55.0), *seeds("SAE", 53.0, 54.0)])
    assert rows_of(table)["SAE"][0] == "53.5"  # a note says that nothing is tested


def test_equal_numbers_are_all_best() -> None:
    table = paper_tables([*seeds("ESZSL", 50.0, 50.0, 50.0), *seeds("SAE", 50.0, 50.0, 50.0)])[0]
    assert {name: cells[0] for name, cells in rows_of(table).items()} == {"ESZSL": "50.0*", "SAE": "50.0*"}


def test_budgets_of_a_method_are_rows_of_their_own() -> None:
    table = paper_tables([*seeds("ALE", 50.0, 51.0, budget="quick"), *seeds("ALE", 52.0, 53.0, budget="full")])[0]
    assert {name: cells[0] for name, cells in rows_of(table).items()} == {"ALE": "50.5", "ALE (full)": "52.5*"}
    quick = seeds("CVC", 1.0, 1.0, budget="quick")
    assert list(rows_of(paper_tables([*OUTCOMES, *quick])[0]))[-3:-1] == ["CVC", "CVC (paper)"]


def test_newest_version_of_a_method_is_shown() -> None:
    old, new = seeds("ESZSL", 10.0, 10.0, 10.0), seeds("ESZSL", 50.0, 51.0, version=2)
    (row,) = rows_of(paper_tables([*new, *old])[0]).values()
    assert row[0] == "50.5*"


def test_newest_version_is_that_on_the_data_set() -> None:
    old, new = seeds("ESZSL", 10.0, 10.0, data="SUN res50"), seeds("ESZSL", 50.0, 51.0, version=2)
    (row,) = rows_of(paper_tables([*new, *old])[0]).values()
    assert (row[0], row[4]) == ("10.0*", "50.5*")


def test_seeds_of_different_results_are_not_mixed() -> None:
    old, new = seeds("ESZSL", 10.0, 10.0, 10.0), seeds("ESZSL", 50.0, 51.0)
    other = [replace(one, identity={**one.identity, "search": {"regularisation": [1.0]}}) for one in new]
    (row,) = rows_of(paper_tables([*old, *other])[0]).values()
    assert row[0] == "10.0*"  # the result with most seeds; 37.0 would be the mean of both


def test_note_says_one_seed() -> None:
    assert paper_tables(seeds("ESZSL", 50.0))[0].notes[0] == "Percent, mean over 1 seed."


def test_short_training_is_marked_for_its_data_set() -> None:
    trained = {"settings": {"n_steps": 200}, "selection": {"chosen": {"steps": 200, "seen_penalty": 0.0}}}
    short = [replace(one, record={**one.record, **trained}) for one in seeds("ALE", 50.0, 51.0, 52.0)]
    table = paper_tables([*short, *seeds("ALE", 50.0, 51.0, 52.0, data="SUN res50")])[0]
    assert rows_of(table)["ALE"] == ["51.0*", "41.0*", "31.0*", "21.0*", "51.0*‡", "41.0*", "31.0*", "21.0*"]
    assert any(note.startswith("‡ may be undertrained") for note in table.notes)


def test_failed_jobs_have_no_numbers() -> None:
    failed = [replace(one, state=FAILED, record={}) for one in seeds("SAE", 0.0, 0.0)]
    assert list(rows_of(paper_tables([*OUTCOMES, *failed])[0])) == list(rows_of(paper_tables(OUTCOMES)[0]))
    assert paper_tables(failed) == []


def test_latex_has_labels_headers_of_the_data_sets_and_bold_numbers() -> None:
    text = as_paper(paper_tables(OUTCOMES), "latex")
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 2
    assert r"\label{tab:inductive}" in text
    assert r"\label{tab:transductive}" in text
    assert r"\multicolumn{4}{c||}{\textbf{SUN res50}} & \multicolumn{4}{c}{\textbf{CUB res50}} \\ \cline{2-9}" in text
    assert r"ESZSL & 41.0 & 31.0 & 21.0 & 11.0 & 54.9$^\circ$ & 44.9$^\circ$" in text
    assert r"CVC & \textbf{61.0} & \textbf{51.0}" in text
    assert "°" not in text
    assert r"5\%" in text
    for part in text.split("\n\n"):
        cells = [re.sub(r"\\multicolumn\{(\d)\}", lambda match: "& " * (int(match[1]) - 1), line) for line in part.splitlines()]
        counts = {line.count("&") for line in cells if "&" in line}
        assert len(counts) == 1, counts


def test_latex_escapes_names_and_balances_braces() -> None:
    label = r"[a_1] 50% & #2 {x} ~ 10^3 \ <b>"
    text = as_paper(paper_tables(seeds("ALE", 50.0, 51.0, 52.0, label=label, data="cats_and_dogs")), "latex")
    assert (
        r"{[}a\_1] 50\% \& \#2 \{x\} \textasciitilde{} 10\textasciicircum{}3 \textbackslash{} $<$b$>$ & \textbf{51.0}" in text
    )
    assert r"\textbf{cats\_and\_dogs}" in text
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0


@pytest.mark.parametrize("form", ["md", "csv", "json"])
def test_markdown_csv_and_json_have_the_rows_of_both_settings(form: str) -> None:
    text = as_paper(paper_tables(OUTCOMES), form)
    assert "Transductive zero-shot learning accuracy" in text
    if form == "csv":
        found = list(csv.DictReader(io.StringIO(text)))
        assert [row["method"] for row in found][-1] == "CVC-tran-GXE"
        assert found[-1]["CUB res50 T1"] == "61.8"
    elif form == "json":
        found = json.loads(text)
        assert [table["title"] for table in found][-1] == "Transductive zero-shot learning accuracy"
        assert found[-1]["rows"] == [["CVC-tran-GXE", "61.8*", "51.8*", "41.8*", "31.8*"]]
        assert all(table["notes"][0] == "* the best of its column." for table in found)
    else:
        assert "| CVC | **61.0** | **51.0** |" in text
