"""Rehearsed adaptations: class folds with twins, and the judgement whether an adaptation helps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.warnings import AdaptationWarning
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import Foresight
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.selection.choice import Choice
from sightunseen.selection.folds import rehearsal_folds, twins
from sightunseen.selection.rehearsal import judge
from sightunseen.selection.search_cv import ZeroShotSearchCV

CALIBRATION = {"temperature": 2.0, "ECE": 1.0, "ECE_before": 2.0}


def rehearsed(T1: list[float], H: list[float]) -> Choice:
    point = {"T1_of_folds": T1, "H_of_folds": H, "best_penalty": 0.5, "temperature_of_folds": [3.0, 7.0]}
    report = {"tried": [{"settings": {"temperature": 2.0}, "points": [point]}]}
    return Choice({"temperature": 2.0}, 0.5, None, report, Calibration(**CALIBRATION))


def before(T1: list[float], H: list[float]) -> list[dict[str, Any]]:
    pairs = zip(T1, H, strict=True)
    return [{"T1": t, "H_at_best_penalty": h, "best_penalty": 3.0, "calibration": CALIBRATION} for t, h in pairs]


# -- judgement ---------------------------------------------------------------------------------------------------------


def test_adaptation_that_helps_everywhere_passes_without_a_warning() -> None:
    choice = judge(rehearsed([60.0, 71.0], [50.0, 51.0]), before([50.0, 70.0], [40.0, 50.0]), optional=True)
    assert choice.report["warnings"] == []
    assert choice.settings == {"temperature": 2.0}
    assert choice.report["rehearsal"]["T1_before"] == 60.0
    assert choice.report["rehearsal"]["T1_after"] == 65.5
    assert choice.report["rehearsal"]["worst_change_of_T1"] == 1.0


def test_confidence_is_that_of_the_least_certain_rehearsal() -> None:
    choice = judge(rehearsed([60.0, 71.0], [50.0, 51.0]), before([50.0, 70.0], [40.0, 50.0]), optional=True)
    assert choice.calibration is not None
    assert choice.calibration.temperature == 7.0
    assert choice.report["calibration"]["temperature"] == 7.0


def test_adaptation_that_does_not_help_leaves_the_model_as_it_is() -> None:
    own = Calibration(temperature=5.0, ECE=1.0, ECE_before=2.0)
    choice = judge(rehearsed([49.0, 70.0], [40.0, 50.0]), before([50.0, 70.0], [40.0, 50.0]), True, 4.0, own)
    assert choice.settings == {"temperature": 2.0, "trust": 0.0}
    assert (choice.seen_penalty, choice.calibration) == (4.0, own)
    assert choice.report["chosen"]["seen_penalty"] == 4.0
    (warning,) = choice.report["warnings"]
    assert "did not help" in warning
    assert "--set trust=1" in warning


def test_method_that_must_adapt_warns_if_it_does_not_help() -> None:
    choice = judge(rehearsed([49.0, 70.0], [40.0, 50.0]), before([50.0, 70.0], [40.0, 50.0]), optional=False)
    assert choice.settings == {"temperature": 2.0}
    assert "did not help" in choice.report["warnings"][0]


@pytest.mark.parametrize(("worst", "warned"), [(49.1, False), (48.9, True)])
def test_more_than_a_point_of_T1_lost_in_one_fold_is_a_warning(worst: float, warned: bool) -> None:  # noqa: N802
    choice = judge(rehearsed([worst, 90.0], [50.0, 60.0]), before([50.0, 70.0], [40.0, 50.0]), optional=True)
    assert bool(choice.report["warnings"]) == warned
    assert "trust" not in choice.settings


# -- folds -------------------------------------------------------------------------------------------------------------


def paired_world(n_pairs: int = 8, images: int = 6) -> ZeroShotDataset:
    """Seen classes in pairs with nearly equal class vectors: a0 and b0, a1 and b1, ..."""
    rng = np.random.default_rng(0)
    labels = [f"{side}{k}" for k in range(n_pairs) for side in "ab"]
    vectors = np.repeat(rng.normal(size=(n_pairs, 10)), 2, axis=0) + 0.01 * rng.normal(size=(2 * n_pairs, 10))
    X, y = rng.normal(size=(images * len(labels), 5)), np.repeat(labels, images)
    table = ClassTable([*labels, "x", "y", "z"], np.concatenate([vectors, rng.normal(size=(3, 10))]))
    return ZeroShotDataset.from_arrays(X, y, table)


@pytest.mark.parametrize("seed", range(5))
def test_twins_come_in_pairs(seed: int) -> None:
    drawn = twins(paired_world(), 6, seed).tolist()
    assert len(drawn) == len(set(drawn)) == 6
    numbers = [label[1:] for label in drawn]
    assert all(numbers.count(number) == 2 for number in numbers)


def test_odd_number_of_twins() -> None:
    assert len(twins(paired_world(), 5)) == 5


def test_every_second_rehearsal_has_twins_and_folds_are_disjoint() -> None:
    folds = rehearsal_folds(paired_world(), n_folds=6)
    for k, fold in enumerate(folds):
        assert set(fold.seen).isdisjoint(fold.unseen)
        numbers = [label[1:] for label in fold.unseen.tolist()]
        paired = sum(numbers.count(number) == 2 for number in numbers)
        assert k % 2 == 0 or paired >= len(numbers) - 1


def test_rehearsals_stop_at_ten_folds_or_fifty_classes() -> None:
    assert len(rehearsal_folds(paired_world())) == 10


# -- the pipeline ------------------------------------------------------------------------------------------------------


def useless_vectors() -> ZeroShotDataset:
    """A data set with class vectors at random: an adaptation by them cannot be trusted."""
    data = make_world(World(n_seen=12, n_unseen=4))
    vectors = np.random.default_rng(0).normal(size=data.classes.vectors.shape)
    return ZeroShotDataset.from_arrays(data.features, data.labels, ClassTable(data.classes.labels, vectors), split_of(data))


def test_useless_class_vectors_are_not_adapted_with(tmp_path: Path) -> None:
    data = useless_vectors()
    model = train(TrainingSpecification(method=Foresight, search={}), data, tmp_path)
    adapted = adapt(AdaptationSpecification(), model, data, tmp_path)
    assert adapted.record_ is not None
    assert adapted.record_.selection["warnings"]


@pytest.mark.parametrize("trust", [0.0, 1.0])
def test_trust_that_is_set_is_kept_with_a_warning_if_adapting_does_not_help(trust: float) -> None:
    data = useless_vectors()
    search = ZeroShotSearchCV(Foresight(), {}, cv=4).fit(data.train.X, data.train.y, data.classes)
    with pytest.warns(AdaptationWarning, match=r"did not help on validation classes \(.*class folds\)\.$"):
        adapted = search.adapt(data.test_unseen.X, trust=trust)
    assert adapted.adaptation_["trust"] == trust


def test_search_warns_that_a_model_is_left_as_it_is() -> None:
    data = useless_vectors()
    search = ZeroShotSearchCV(Foresight(), {}, cv=4).fit(data.train.X, data.train.y, data.classes)
    with pytest.warns(AdaptationWarning, match="so the model was left as it is") as caught:
        adapted = search.adapt(data.test_unseen.X)
    assert (adapted.adaptation_["trust"], caught[0].filename) == (0.0, __file__)


def split_of(data: ZeroShotDataset) -> list[str]:
    words = np.full(len(data.labels), "test_unseen")
    words[data.train_rows], words[data.test_seen_rows] = "train", "test_seen"
    return words.tolist()
