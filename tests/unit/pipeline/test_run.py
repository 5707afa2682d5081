"""Training and adaptation from a specification: protocols and run records."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError, SightUnseenError
from sightunseen.core.records import RunRecord
from sightunseen.methods import CVC
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.selection.evaluation import evaluate

SETTINGS: dict[str, Any] = {"hidden": 32, "initial_scale": 20.0, "n_steps": 300, "learning_rate": 1e-2, "device": "cpu"}
ADAPTATION = {"rounds": 2, "steps_per_round": 20}


def without(data: ZeroShotDataset, *parts: str) -> ZeroShotDataset:
    return replace(data, **{f"{part}_rows": np.array([], dtype=np.intp) for part in parts})


def assert_same_weights(one: CVC, other: CVC) -> None:
    np.testing.assert_array_equal(one.classifiers_of("all"), other.classifiers_of("all"))
    assert one.score_.scale.item() == other.score_.scale.item()


def specified(parameters: dict[str, Any], **how: Any) -> TrainingSpecification:
    """CVC with these hyperparameters and, by default, an empty search space."""
    return TrainingSpecification(method=CVC, parameters=parameters, **{"search": {}, **how})


# -- no selection -------------------------------------------------------------------------------------------------------


def test_select_none_takes_hyperparameters_as_given(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(specified(SETTINGS, select="none"), small_world, tmp_path)
    plain = CVC(**SETTINGS).fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert_same_weights(model, plain)
    assert model.get_params() == plain.get_params()
    assert "as given" in model.record_.selection["by"]


def test_unknown_protocol_raises_an_error() -> None:
    for specify in (lambda: specified(SETTINGS, protocol="dishonest"), lambda: AdaptationSpecification(protocol="dishonest")):
        with pytest.raises(SettingsError, match="honest, paper; got 'dishonest'"):
            specify()


# -- protocol paper -----------------------------------------------------------------------------------------------------


def test_protocol_paper_keeps_the_best_h_on_test_and_records_it(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    settings = {**SETTINGS, "n_steps": 600, "schedule": "constant"}
    model = train(specified(settings, protocol="paper"), small_world, tmp_path)
    record = model.record_
    assert record.protocol == "paper"
    assert "TEST" in record.selection["by"]
    ((_, curve),) = (entry.values() for entry in record.selection["tried"])
    assert [point["steps"] for point in curve] == list(range(60, 601, 60))
    best = max(point["H"] for point in curve)
    assert record.selection["test"]["H"] == record.results["H"] == best
    assert curve[-1]["H"] < best  # otherwise keeping the last model or that of the best T1 would pass, too
    assert max(curve, key=lambda point: point["T1"])["H"] < best
    steps = record.selection["chosen"]["steps"]
    again = CVC(**settings).fit(small_world.train.X, small_world.train.y, small_world.classes, stop_after=steps)
    assert_same_weights(model, again)


def test_adaptation_with_protocol_paper_keeps_the_best_round_and_records_it(
    small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    model = train(specified(SETTINGS, select="none"), small_world, tmp_path)
    # A learning rate so high that H fluctuates, and a seed with which it ends below its best.
    settings = {"rounds": 5, "steps_per_round": 20, "learning_rate": 0.1, "seed": 1}
    adapted = adapt(AdaptationSpecification(parameters=settings, protocol="paper", search={}), model, small_world, tmp_path)
    record = adapted.record_
    assert (record.protocol, record.kind, len(record.history)) == ("paper", "adapt", 5)
    ((_, curve),) = (entry.values() for entry in record.selection["tried"])
    assert [point["steps"] for point in curve] == [20, 40, 60, 80, 100]
    best = max(point["H"] for point in curve)
    assert record.results["H"] == record.selection["test"]["H"] == best
    assert curve[-1]["H"] < best
    assert max(curve, key=lambda point: point["T1"])["H"] < best
    assert record.results == evaluate(adapted, small_world).results()
    assert record.parent["protocol"] == "honest"


def test_adaptation_does_not_change_the_number_of_training_steps(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    """A later selection of adaptation trains its fold models for ``n_steps_`` steps."""
    model = train(specified(SETTINGS, select="none"), small_world, tmp_path)
    for protocol in ("honest", "paper"):
        adapted = adapt(
            AdaptationSpecification(parameters=ADAPTATION, protocol=protocol, search={}),
            model,
            small_world,
            tmp_path / protocol,
        )
        assert adapted.n_steps_ == model.n_steps_ == 300, protocol


def test_protocol_paper_is_kept_after_adaptation(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(specified(SETTINGS, protocol="paper"), small_world, tmp_path)
    adapted = adapt(AdaptationSpecification(parameters=ADAPTATION, search={}), model, small_world, tmp_path)
    assert adapted.record_.protocol == "paper"
    assert adapted.record_.parent["selection"] == model.record_.selection


def test_protocol_paper_needs_seen_and_unseen_test_images(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(SightUnseenError, match="test"):
        train(specified(SETTINGS, protocol="paper"), without(small_world, "test_seen"), tmp_path)


# -- records ------------------------------------------------------------------------------------------------------------


def test_results_of_the_record_match_evaluate(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(specified(SETTINGS), small_world, tmp_path)
    adapted = adapt(AdaptationSpecification(parameters=ADAPTATION, search={}), model, small_world, tmp_path)
    for made in (model, adapted):
        assert made.record_.results == evaluate(made, small_world).results()
        assert made.record_.data["images"] == {
            "train": len(small_world.train_rows),
            "test_seen": len(small_world.test_seen_rows),
            "test_unseen": len(small_world.test_unseen_rows),
        }
        assert RunRecord.from_json(made.record_.to_json()).to_json() == made.record_.to_json()
    assert adapted.record_.settings["adaptation"]["rounds"] == 2
    assert [entry["round"] for entry in adapted.record_.history] == [1, 2]
    assert adapted.record_.parent["results"] == model.record_.results


def test_record_is_saved_with_the_model(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(specified(SETTINGS, select="none"), small_world, tmp_path)
    model.save(tmp_path / "model")
    assert CVC.load(tmp_path / "model").record_.to_json() == model.record_.to_json()


def test_results_are_empty_without_test_images(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    data = without(small_world, "test_seen", "test_unseen")
    model = train(specified(SETTINGS), data, tmp_path)
    assert model.record_.results == {}
    np.testing.assert_array_equal(model.unseen_classes_, small_world.unseen)
    with pytest.raises(DataError, match="no test images"):
        evaluate(model, data)
    how = AdaptationSpecification(parameters=ADAPTATION, search={})
    adapted = adapt(how, model, data, tmp_path, small_world.test_unseen.X)
    assert adapted.record_.results == {}
    assert "pool_accuracy" not in adapted.record_.history[0]


def test_adaptation_without_images_names_the_option(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    data = without(small_world, "test_unseen")
    model = train(specified(SETTINGS, select="none"), data, tmp_path)
    with pytest.raises(DataError, match="unlabelled"):
        adapt(AdaptationSpecification(parameters=ADAPTATION, search={}), model, data, tmp_path)
