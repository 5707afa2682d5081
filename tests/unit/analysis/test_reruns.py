"""Repeated training and adaptation give the same model, measured along the way; panels of the joint embedding figure."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from sightunseen.analysis import reruns
from sightunseen.analysis.joint_spaces import space_models
from sightunseen.analysis.reruns import Rerun, Reruns, prediction_agreement, repeat_adaptation, repeat_training, rerun
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods import ALE, CVC, DEM, ESZSL, GFZSL, LATEM, Foresight, GradientTrainedClassifier, Projection
from sightunseen.methods.cvc.transductive import Adaptation
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.selection.evaluation import evaluate
from sightunseen.training import Hook, Training

pytestmark = pytest.mark.slow

SETTINGS = {"hidden": 32, "n_steps": 400, "learning_rate": 1e-2, "seed": 3, "device": "cpu"}
QUICK = {"rounds": 3, "steps_per_round": 110, "best_per_class": 5}  # rounds longer than a chunk of steps, and not a multiple
PAPERS = ["V→A", "DEM", "CVC", "CVC transductive"]  # panels
NONE = np.array([], dtype=int)


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> CVC:
    """A model stopped early, as with a selected number of steps."""
    train = small_world.train
    return CVC(**SETTINGS, seen_penalty=1.5).fit(train.X, train.y, small_world.classes, stop_after=200)


@pytest.fixture(scope="module")
def adapted(small_world: ZeroShotDataset, tmp_path_factory: pytest.TempPathFactory) -> CVC:
    """A model trained and adapted under the honest protocol, saved and loaded."""
    folder = tmp_path_factory.mktemp("models")
    parameters = {name: value for name, value in SETTINGS.items() if name != "seed"}
    specification = TrainingSpecification(method=CVC, parameters=parameters, search={}, seed=SETTINGS["seed"])
    start = train(specification, small_world, folder / "work")
    found = adapt(AdaptationSpecification(parameters={**QUICK, "seed": 5}, search={}), start, small_world, folder / "work")
    found.set_params(seen_penalty=0.25)
    found.save(folder / "adapted")
    return CVC.load(folder / "adapted")


def assert_same_weights(one: GradientTrainedClassifier, other: GradientTrainedClassifier) -> None:
    found, expected = one._arrays(), other._arrays()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


class Stages(Hook):
    """Record the stages of training."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def on_start(self, training: Training) -> None:
        self.stages.append(training.stage)


# -- training -----------------------------------------------------------------------------------------------------------


def test_repeated_training_gives_the_same_weights(model: CVC, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    stages = Stages()
    repeated = repeat_training(CVC.load(tmp_path / "model"), small_world, hooks=[stages])
    assert_same_weights(repeated.model, model)
    assert stages.stages == ["repeating training"]
    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    assert prediction_agreement(model, repeated.model, X) == 1.0
    assert [point["steps"] for point in repeated.curve] == [40, 80, 120, 160, 200]  # hooks are called after every tenth of 400
    end = evaluate(model, small_world).summary()
    assert {name: repeated.curve[-1][name] for name in end} == end  # with the model's own seen-class bias
    assert repeated.curve[-1].keys() == {"steps", "loss", *end}
    assert [point["loss"] for point in repeated.curve] == [point["loss"] for point in model.losses_]


def test_measurements_are_spread_over_the_steps_that_were_trained(model: CVC, small_world: ZeroShotDataset) -> None:
    repeated = repeat_training(model, small_world, points=2)
    # Measured at the first calls of hooks, every 40 steps, after 100 and 200. Spread over the whole schedule it would be one.
    assert [point["steps"] for point in repeated.curve] == [120, 200]


def test_agreement_is_the_share_of_equal_predictions(model: CVC, small_world: ZeroShotDataset) -> None:
    other = ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    X = small_world.test_unseen.X
    pairs = zip(model.predict(X).tolist(), other.predict(X).tolist(), strict=True)
    same = sum(one == two for one, two in pairs)
    assert 0 < same < len(X)
    assert prediction_agreement(model, other, X) == pytest.approx(same / len(X))


def test_without_test_images_only_the_loss_is_measured(model: CVC, small_world: ZeroShotDataset) -> None:
    found = rerun(model, replace(small_world, test_seen_rows=NONE, test_unseen_rows=NONE))
    assert found.training.curve == model.losses_
    assert (found.adaptation, found.before, found.agreement) == (None, None, None)


def test_repeat_training_requires_gradient_steps(small_world: ZeroShotDataset) -> None:
    fitted = ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    with pytest.raises(SettingsError, match="ESZSL is not trained by gradient steps"):
        repeat_training(fitted, small_world)
    assert rerun(fitted, small_world) == Reruns(agreement=1.0)  # solved again


def test_a_changed_closed_form_model_disagrees_with_its_rerun(small_world: ZeroShotDataset) -> None:
    fitted = Foresight().fit(small_world.train.X, small_world.train.y, small_world.classes)
    fitted.generator_ = replace(fitted.generator_, weights=-fitted.generator_.weights)
    assert rerun(fitted, small_world).agreement < 0.5


@pytest.mark.parametrize("method", [Foresight, GFZSL])
def test_closed_form_methods_are_adapted_and_fitted_again(
    method: type[Foresight], small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    start = train(TrainingSpecification(method=method, search={}), small_world, tmp_path)
    found = rerun(start, small_world)
    test = small_world.test_unseen
    plain = start.adapt(test.X, small_world.unseen)
    np.testing.assert_array_equal(found.adaptation.model.decision_function(test.X), plain.decision_function(test.X))
    assert (found.adaptation.curve, found.training, found.before, found.agreement) == (plain.history_, None, None, 1.0)
    adapted = adapt(AdaptationSpecification(search={}), start, small_world, tmp_path)
    adapted.save(tmp_path / "adapted")
    again = rerun(method.load(tmp_path / "adapted"), small_world)
    np.testing.assert_allclose(again.before.decision_function(test.X), start.decision_function(test.X), rtol=1e-6)
    assert again.before.seen_penalty == start.seen_penalty != adapted.seen_penalty
    assert (again.training, again.adaptation, again.agreement) == (None, None, None)


# -- adaptation ---------------------------------------------------------------------------------------------------------


def test_measurements_do_not_change_the_adaptation_and_are_taken_after_each_round(
    model: CVC, small_world: ZeroShotDataset
) -> None:
    test = small_world.test_unseen
    repeated = repeat_adaptation(model, small_world, QUICK)
    plain = model.adapt(test.X, small_world.unseen, true_labels=test.y, **QUICK)
    assert_same_weights(repeated.model, plain)
    np.testing.assert_array_equal(repeated.model.decision_function(test.X), plain.decision_function(test.X))
    assert [point["round"] for point in repeated.curve] == [1, 2, 3]
    for point, note in zip(repeated.curve, plain.history_, strict=True):
        assert {name: point[name] for name in note} == note
        # With a constant learning rate, fewer rounds are the same rounds.
        until = model.adapt(test.X, small_world.unseen, **{**QUICK, "rounds": point["round"]})
        measured = evaluate(until, small_world).summary()
        assert {name: point[name] for name in measured} == measured
    assert {"round", "loss", "pool", "changed_labels", "pool_accuracy", "T1", "U", "S", "H"} <= repeated.curve[0].keys()


def test_adaptation_requires_test_images_of_unseen_classes(model: CVC, small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="nothing to adapt to"):
        repeat_adaptation(model, replace(small_world, test_unseen_rows=NONE))


def test_adaptation_is_repeated_from_the_run_record(adapted: CVC, small_world: ZeroShotDataset) -> None:
    found = rerun(adapted, small_world)
    assert found.agreement == 1.0
    assert_same_weights(found.adaptation.model, adapted)
    assert found.adaptation.model.adaptation_ == asdict(Adaptation(**QUICK, seed=5))
    # Each has its own seen-class bias; that of the training is in the parent's record.
    assert found.before is found.training.model
    assert found.before.seen_penalty == adapted.record_.parent["settings"]["seen_penalty"] != 0.25
    ends = adapted.record_.parent["results"], evaluate(adapted, small_world).summary()
    for repeated, expected in zip((found.training, found.adaptation), ends, strict=True):
        wanted = {name: value for name, value in expected.items() if not name.endswith("_plain")}
        assert {name: repeated.curve[-1][name] for name in wanted} == wanted


def test_no_agreement_is_computed_if_no_equal_model_is_expected(adapted: CVC) -> None:
    other_images = tuple({k: v for k, v in note.items() if k != "pool_accuracy"} for note in adapted.record_.history)
    other = CVC()
    for changed, expected in (({"protocol": "paper"}, False), ({"history": other_images}, False), ({}, True)):
        other.record_ = replace(adapted.record_, **changed)
        assert reruns._is_last_round(other) == expected


# -- panels -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _quick_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Default hyperparameters that train quickly."""
    for method in (Projection, DEM, CVC):
        names = method.__init__.__code__.co_varnames[1 : 1 + len(method.__init__.__defaults__)]
        changed = {"hidden": 16, "n_steps": 100}
        defaults = tuple(changed.get(name, value) for name, value in zip(names, method.__init__.__defaults__, strict=True))
        monkeypatch.setattr(method.__init__, "__defaults__", defaults)
    monkeypatch.setattr(Adaptation.__init__, "__defaults__", (1, 20, *Adaptation.__init__.__defaults__[2:]))


@pytest.mark.usefixtures("_quick_defaults")
def test_panels_of_an_inductive_model(model: CVC, small_world: ZeroShotDataset) -> None:
    found = rerun(model, small_world)
    stages = Stages()
    panels = dict(space_models(model, found, small_world, [stages]))
    assert list(panels) == PAPERS
    assert stages.stages == ["training V to A", "training DEM"]
    assert panels["CVC"] is model
    assert panels["CVC transductive"] is found.adaptation.model
    assert found.adaptation.model.learned_classifiers_ is not None
    assert isinstance(panels["V→A"], Projection)
    assert panels["V→A"].space == "attributes"
    assert isinstance(panels["DEM"], DEM)
    assert {panel.seed for panel in panels.values()} == {3}
    assert all(panel.compared(small_world.test_unseen.X, "all")[1].shape[0] == 16 for panel in panels.values())


@pytest.mark.usefixtures("_quick_defaults")
def test_panels_of_an_adapted_model(adapted: CVC, small_world: ZeroShotDataset) -> None:
    before = CVC().fit(small_world.train.X, small_world.train.y, small_world.classes)
    panels = dict(space_models(adapted, Reruns(Rerun(before, []), None, before), small_world))
    assert list(panels) == PAPERS
    assert panels["CVC"] is before
    assert panels["CVC transductive"] is adapted


@pytest.mark.usefixtures("_quick_defaults")
def test_panels_of_other_models(small_world: ZeroShotDataset) -> None:
    train = small_world.train
    quick = {"n_steps": 10, "device": "cpu"}
    fresh = [DEM(**quick), Projection(**quick), Projection("between", **quick)]
    others = [[], [], ["Projection"]]
    for start, more in zip(fresh, others, strict=True):
        fitted = start.fit(train.X, train.y, small_world.classes)
        panels = dict(space_models(fitted, Reruns(), small_world))
        assert list(panels) == PAPERS + more
        assert panels["CVC transductive"].learned_classifiers_ is not None
        assert panels["CVC"].learned_classifiers_ is None
        for name in more:
            assert panels[name] is fitted
    nothing_to_adapt_to = replace(small_world, test_unseen_rows=NONE)
    assert [name for name, _ in space_models(fitted, Reruns(), nothing_to_adapt_to)] == [*PAPERS[:3], "Projection"]


def test_panels_of_methods_outside_the_papers_figure(small_world: ZeroShotDataset) -> None:
    train, quick = small_world.train, {"n_steps": 10, "device": "cpu"}
    for start, names in ((ESZSL(), ["ESZSL"]), (LATEM(**quick), []), (ALE(**quick), ["ALE"])):
        fitted = start.fit(train.X, train.y, small_world.classes)
        panels = dict(space_models(fitted, Reruns(), small_world))
        assert list(panels) == names
        assert all(panel is fitted for panel in panels.values())
    fitted = Foresight().fit(train.X, train.y, small_world.classes)
    adapted = fitted.adapt(small_world.test_unseen.X)
    of_inductive = Reruns(adaptation=Rerun(adapted, []))
    for model, found in ((fitted, of_inductive), (adapted, Reruns(before=fitted))):
        panels = dict(space_models(model, found, small_world))
        assert panels == {"Foresight": fitted, "Foresight transductive": adapted}
