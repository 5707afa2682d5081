"""Choice of the method: the one-standard-error rule, and comparisons whose winner is known by construction."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import Fold, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import DAP, ESZSL, GFZSL, Foresight
from sightunseen.selection import auto
from sightunseen.selection.auto import choose_method, columns_of, one_standard_error
from sightunseen.selection.evaluation import measure


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small search spaces."""
    monkeypatch.setattr(ESZSL, "search_space", {"feature_penalty": [0.1, 1.0]})
    monkeypatch.setattr(GFZSL, "search_space", {"mean_penalty": [0.1]})
    monkeypatch.setattr(Foresight, "search_space", {"noise": [0.1, 1.0]})


class Failing(ESZSL):
    """Cannot be fitted: it raises ``error``."""

    error: Exception = LinAlgError("Singular matrix")

    def fit(self, *args: Any, **others: Any) -> Any:
        raise self.error


def graded_world() -> ZeroShotDataset:
    """Features that are a linear map of three graded attributes: eight binary patterns for 16 classes."""
    rng = np.random.default_rng(0)
    vectors = rng.uniform(0.0, 1.0, (16, 3))
    labels = np.array([f"class {k:02}" for k in range(16)])
    y = np.repeat(labels, 15)
    X = np.repeat(vectors @ rng.normal(size=(3, 20)), 15, axis=0) + 0.05 * rng.normal(size=(240, 20))
    split = np.where(np.isin(y, labels[:12]), "train", "test_unseen")
    return ZeroShotDataset.from_arrays(X, y, ClassTable(labels, vectors), split=split)


# -- the rule --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sums", "chosen", "words"),
    [
        ({"Foresight": [100, 110, 120], "A": [99, 109, 119]}, "Foresight", "best T1 + H on 3 class folds"),
        ({"Foresight": [100, 110, 120], "A": [100, 110, 120]}, "Foresight", "best T1 + H"),
        # Differences 1, 2, 3: mean 2, standard error 0.58, although the sums themselves vary by 10.
        (
            {"Foresight": [100, 110, 120], "A": [101, 112, 123]},
            "A",
            "T1 + H 2.0 points above Foresight's on 3 class folds, more than its standard error of 0.6",
        ),
        # Differences -4, 2, 5: mean 1, standard error 2.65.
        ({"Foresight": [100, 110, 120], "A": [96, 112, 125]}, "Foresight", "A is 1.0 points higher on 3 class folds, not more"),
        # A is best but within its standard error (differences -6, 2, 10); B is better by 1 on every fold.
        ({"A": [94, 112, 130], "Foresight": [100, 110, 120], "B": [101, 111, 121]}, "B", "1.0 points above"),
        # Both are better by more than one standard error.
        ({"A": [101, 111, 121], "B": [103, 113, 123], "Foresight": [100, 110, 120]}, "B", "3.0 points above"),
        ({"A": [50, 60], "B": [70, 80]}, "B", "best T1 + H on 2 class folds"),
    ],
    ids=["preferred is best", "tie", "paired", "within", "second is certain", "best of certain", "preferred is missing"],
)
def test_rule_of_one_standard_error(sums: dict[str, list[float]], chosen: str, words: str) -> None:
    name, why = one_standard_error(sums)
    assert name == chosen
    assert why.startswith(f"{chosen} was chosen: ")
    assert words in why


def test_difference_of_exactly_one_standard_error_is_not_enough() -> None:
    # Differences 0 and 2: mean 1, standard error 1.
    assert one_standard_error({"A": [100, 102], "Foresight": [100, 100]})[0] == "Foresight"
    assert one_standard_error({"A": [100.1, 102], "Foresight": [100, 100]})[0] == "A"


# -- comparisons -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_binarised_attributes_lose_on_graded_ones() -> None:
    found = choose_method({"DAP": DAP(), "GFZSL": GFZSL()}, graded_world())
    best, other = found.report["compared"]
    assert (found.name, best["method"], other["method"]) == ("GFZSL", "GFZSL", "DAP")
    assert best["T1 + H"] > other["T1 + H"] + 20
    assert found.report["why"] == "GFZSL was chosen: best T1 + H on 5 class folds."


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("crippled", "chosen"), [("GFZSL", "Foresight"), ("Foresight", "GFZSL")])
def test_method_whose_class_means_are_all_equal_loses(
    small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch, crippled: str, chosen: str
) -> None:
    method, parameter = {"GFZSL": (GFZSL, "mean_penalty"), "Foresight": (Foresight, "noise")}[crippled]
    monkeypatch.setattr(method, "search_space", {parameter: [1e9]})
    found = choose_method({"GFZSL": GFZSL(), "Foresight": Foresight()}, small_world)
    assert found.name == chosen
    assert ("points above Foresight's" in found.report["why"]) == (chosen == "GFZSL")
    assert [row["method"] for row in found.report["compared"]] == [chosen, crippled]


@pytest.mark.usefixtures("quick")
def test_candidates_are_compared_on_other_folds_than_they_are_tuned_on(
    small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = small_world.seen[:9], small_world.seen[9:]
    data = replace(small_world, validation=(listed,))
    folds: list[Fold] = []
    monkeypatch.setattr(auto, "measure", lambda model, fold: folds.append(fold) or measure(model, fold))
    candidates = {"ESZSL": ESZSL(), "GFZSL": GFZSL()}
    found = choose_method(candidates, data, seed=2)
    assert len(folds) == 2 * found.report["folds"] == 10
    blocks = [tuple(fold.unseen) for fold in folds]
    assert blocks[:5] == blocks[5:]  # the same for all candidates
    tuned = {tuple(fold.unseen) for fold in data.validation_folds(5, seed=2)}
    assert tuple(listed[1]) in tuned
    assert tuned.isdisjoint(blocks)
    assert len(set(blocks)) > 1


@pytest.mark.usefixtures("quick")
def test_report_has_means_and_standard_errors_at_the_best_penalty(
    small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds: list[Fold] = []
    monkeypatch.setattr(auto, "measure", lambda model, fold: folds.append(fold) or measure(model, fold))
    found = choose_method({"ESZSL": ESZSL()}, small_world)
    (row,) = found.report["compared"]
    points = []
    for fold in folds:
        points.append(measure(ESZSL(**found.choice.settings).fit(fold.train.X, fold.train.y, fold.classes), fold))
    sums = [point["T1"] + point["H_at_best_penalty"] for point in points]
    assert row["T1"] == pytest.approx(np.mean([point["T1"] for point in points]), abs=0.01)
    assert row["H"] == pytest.approx(np.mean([point["H_at_best_penalty"] for point in points]), abs=0.01)
    assert row["T1 + H"] == pytest.approx(np.mean(sums), abs=0.01)
    assert row["standard_error"] == pytest.approx(np.std(sums, ddof=1) / 5**0.5, abs=0.01)
    assert list(columns_of(found.report)) == ["method", "T1", "H", "T1 + H", "± s.e."]  # nothing to differ from


@pytest.mark.usefixtures("quick")
def test_differences_are_from_the_preferred_method(small_world: ZeroShotDataset) -> None:
    found = choose_method({"ESZSL": ESZSL(), "Foresight": Foresight()}, small_world)
    rows = {row["method"]: row for row in found.report["compared"]}
    assert rows["ESZSL"]["difference"] == pytest.approx(rows["ESZSL"]["T1 + H"] - rows["Foresight"]["T1 + H"], abs=0.02)
    assert "difference" not in rows["Foresight"]
    columns = columns_of(found.report)
    shown = dict(zip(columns["method"], columns["above Foresight ± s.e."], strict=True))
    assert shown["Foresight"] is None
    assert shown["ESZSL"].startswith(f"{rows['ESZSL']['difference']:+.1f} ± ")


@pytest.mark.usefixtures("quick")
def test_test_images_are_not_used(small_world: ZeroShotDataset) -> None:
    features = small_world.features.copy()
    features[np.concatenate([small_world.test_seen_rows, small_world.test_unseen_rows])] = np.nan
    candidates = {"ESZSL": ESZSL(), "GFZSL": GFZSL()}
    found, other = (choose_method(candidates, data) for data in (small_world, replace(small_world, features=features)))
    assert found.report == other.report


# -- failures --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "error", [LinAlgError("Singular matrix"), DataError("too few attributes.")], ids=lambda e: type(e).__name__
)
def test_failing_candidate_is_left_out(small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(Failing, "error", error)
    found = choose_method({"Foresight": Failing(), "ESZSL": ESZSL()}, small_world)
    assert found.name == "ESZSL"
    assert found.report["left_out"] == {"Foresight": str(error)}
    assert [row["method"] for row in found.report["compared"]] == ["ESZSL"]


@pytest.mark.usefixtures("quick")
def test_programming_errors_are_raised(small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "error", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        choose_method({"ESZSL": ESZSL(), "A": Failing()}, small_world)


@pytest.mark.usefixtures("quick")
def test_no_candidate_is_left(small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match=r"none of the methods can be fitted to the data\. A: Singular matrix; B: Singular"):
        choose_method({"A": Failing(), "B": Failing()}, small_world)


def test_too_few_classes_are_reported_once() -> None:
    data = make_world(World(n_seen=3, n_unseen=2, n_attributes=4, n_features=6, images_per_class=5))
    with pytest.raises(DataError, match=r"^choosing on validation classes needs at least 4 seen classes"):
        choose_method({"ESZSL": ESZSL()}, data)
