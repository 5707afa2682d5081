"""Long training on a class fold ends when it stops improving; short training does not."""

from dataclasses import replace

import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import CVC
from sightunseen.selection import search as module
from sightunseen.selection.search import PATIENCE, POINTS, POINTS_OF_LONG, EarlyStopping, search
from sightunseen.training import Hook, Run, Training, train

STEPS = 2000


def validation_run(data: ZeroShotDataset, **hyperparameters: float) -> Run:
    fold = data.validation_folds(1)[0]
    model = CVC(n_steps=STEPS, hidden=8, device="cpu", schedule="constant", **hyperparameters)
    return model.fitting(fold.train.X, fold.train.y, fold.classes, hooks=[EarlyStopping(fold, STEPS)])


def test_training_that_never_improves_ends_after_the_patience(
    small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG", STEPS)
    run = validation_run(small_world, learning_rate=0.0, weight_decay=0.0)
    training = train(run)
    assert len(training.curve) == 1 + PATIENCE
    assert training.steps_done == (1 + PATIENCE) * STEPS // POINTS_OF_LONG
    assert training.optimisation.n_steps == STEPS  # the schedule of the learning rate is unchanged


def test_short_training_has_ten_points_and_goes_to_its_end(small_world: ZeroShotDataset) -> None:
    run = validation_run(small_world, learning_rate=0.0, weight_decay=0.0)
    training = train(run)
    assert len(training.curve) == POINTS
    assert training.steps_done == STEPS


def test_resumed_training_that_had_ended_early_takes_no_more_steps(
    small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG", STEPS)
    run = validation_run(small_world, learning_rate=0.0, weight_decay=0.0)
    ended = train(run)
    again = validation_run(small_world, learning_rate=0.0, weight_decay=0.0)
    training = Training(again, ended.engine, 0)
    training.curve, training.losses, training.steps_done = list(ended.curve), list(ended.losses), ended.steps_done
    again.hooks[0].on_resume(training)
    assert training.finished


def test_points_are_those_that_the_training_of_every_fold_reached(
    small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG", STEPS)
    folds = small_world.validation_folds(2, seed=1)
    model = CVC(n_steps=STEPS, hidden=8, device="cpu")
    ((tried,),) = search([model], [folds], {})
    alone = [search([model], [[fold]], {})[0][0] for fold in folds]
    ends = [entry["points"][-1]["steps"] for entry in alone]
    assert min(ends) < max(ends)
    assert [point["steps"] for point in tried["points"]] == list(range(100, min(ends) + 1, STEPS // POINTS_OF_LONG))
    for k, point in enumerate(tried["points"]):
        assert point["H_of_folds"] == pytest.approx([entry["points"][k]["H_at_best_penalty"] for entry in alone])
    assert tried["steps"] == sum(ends)


def test_points_are_averaged_as_far_as_the_shortest_training() -> None:
    curves = [[{"steps": 100 * (k + 1), "T1": 10.0 * k, "H_at_best_penalty": 10.0 * k} for k in range(n)] for n in (3, 2)]
    (tried,) = module._tried([{}], [curves])
    assert [point["steps"] for point in tried["points"]] == [100, 200]
    assert tried["steps"] == 300 + 200


@pytest.mark.parametrize("stopped", [100, 300])
def test_stopped_training_keeps_its_schedule(small_world: ZeroShotDataset, stopped: int) -> None:
    run = validation_run(small_world)

    class Stop(Hook):
        def on_chunk(self, training: Training) -> None:
            if training.steps_done >= stopped:
                training.stop()

    training = train(replace(run, hooks=[Stop()]))
    assert training.steps_done == stopped
    assert training.finished
