"""Adaptation to some images of unseen classes, and evaluation on others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset, apart
from sightunseen.core.errors import SettingsError
from sightunseen.methods import Foresight
from sightunseen.pipeline import AdaptationSpecification, adapt
from sightunseen.selection.choice import search_space
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.on_validation import choose_adaptation_on_validation


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> Foresight:
    return Foresight(noise=0.2).fit(small_world.train.X, small_world.train.y, small_world.classes)


def test_held_out_images_do_not_influence_the_adapted_model(
    model: Foresight, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    held = apart(small_world, 0.5)[1].test_unseen_rows
    features = small_world.features.copy()
    features[held] = 7.0
    others = replace(small_world, features=features)
    adapted, again = (
        adapt(AdaptationSpecification(search={}, hold_out=0.5), model, data, tmp_path) for data in (small_world, others)
    )
    X = small_world.test_seen.X
    np.testing.assert_array_equal(adapted.decision_function(X), again.decision_function(X))
    assert adapted.record_.results != again.record_.results


def test_results_are_those_of_the_held_out_images(model: Foresight, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    adapted = adapt(AdaptationSpecification(search={}, hold_out=0.25), model, small_world, tmp_path)
    on = apart(small_world, 0.25)[1]
    assert adapted.record_.results == evaluate(adapted, on).results()
    assert adapted.record_.settings["hold_out"] == 0.25


def test_rehearsed_images_are_drawn_by_the_seed(
    model: Foresight, small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    for module in ("search", "on_validation"):
        name = f"sightunseen.selection.{module}.apart"
        monkeypatch.setattr(name, lambda data, hold_out, seed: drawn.append(seed) or apart(data, hold_out, seed))
    choose_adaptation_on_validation(model, small_world, {}, {}, n_folds=1, seed=7, hold_out=0.5)
    assert set(drawn) == {7}


def test_rehearsal_evaluates_on_held_out_images(
    model: Foresight, small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[np.ndarray] = []
    plain = Foresight.adapt
    monkeypatch.setattr(Foresight, "adapt", lambda self, X, *rest, **others: given.append(X) or plain(self, X, *rest, **others))
    measured: list[np.ndarray] = []
    monkeypatch.setattr(
        "sightunseen.selection.search.measure", lambda adapted, part: measured.append(part.test_unseen.X) or MEASURED
    )
    choose_adaptation_on_validation(model, small_world, {}, {}, n_folds=1, hold_out=0.5)
    (adapted_to,), (on,) = given, measured
    assert not {row.tobytes() for row in adapted_to} & {row.tobytes() for row in on}
    fold = small_world.validation_folds()[0]
    assert len(adapted_to) + len(on) == len(fold.test_unseen)


MEASURED = {
    **dict.fromkeys(("T1", "H_at_best_penalty", "AUSUC", "best_penalty"), 1.0),
    "calibration": {"temperature": 1.0, "ECE": 0.0, "ECE_before": 0.0},
}


def test_hold_out_with_given_images_raises_an_error(model: Foresight, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="held out"):
        adapt(AdaptationSpecification(hold_out=0.5), model, small_world, tmp_path, small_world.test_unseen.X)


def test_search_space_excludes_fixed_and_prefers_given_values() -> None:
    default = {"noise": (0.1, 0.3), "shrinkage": (0.1, 0.9)}
    assert search_space(default, {}) == {"noise": [0.1, 0.3], "shrinkage": [0.1, 0.9]}
    assert search_space(default, {"noise": 1.0}) == {"shrinkage": [0.1, 0.9]}
    assert search_space(default, {}, {"generator": ["wide"]}) == {"generator": ["wide"]}
    assert search_space(default, {}, {}) == {}
