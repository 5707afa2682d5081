"""Training many models together: equality with single training, preparation, hooks, interruption and resuming."""

import itertools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SightUnseenError
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.training import (
    CHUNK,
    Hook,
    Optimisation,
    Run,
    Training,
    TrainingInterrupted,
    engines,
    loop,
    train,
    train_together,
)
from sightunseen.training.checkpoints import Checkpoints

from .small_objective import SmallObjective

SETTINGS: dict[str, Any] = {"hidden": 16, "learning_rate": 1e-2, "weight_decay": 1e-3, "device": "cpu"}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread gives a fixed order of sums, so that results are equal bit by bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def three_at_once(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "most_at_once", lambda _: 3)


class Recorded(SmallObjective):
    """Record the chunks as pairs of the first step and the number of steps, and their losses."""

    def __init__(self, round_size: int | None = None, seed: int = 0) -> None:
        super().__init__("cpu", round_size, seed)
        self.chunks: list[tuple[int, int]] = []
        self.losses: list[float] = []

    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        self.chunks.append((steps_done - n_steps, n_steps))
        self.losses.append(loss)


class Diary(Hook):
    """Append all calls to a list that several hooks share."""

    def __init__(self, diary: list[tuple[str, str, int]]) -> None:
        self.diary = diary

    def on_start(self, training: Training) -> None:
        self.diary.append((training.stage, "start", training.steps_done))

    def on_chunk(self, training: Training) -> None:
        self.diary.append((training.stage, "chunk", training.steps_done))

    def on_end(self, training: Training) -> None:
        self.diary.append((training.stage, "end", training.steps_done))


class StopAt(Hook):
    """Raise an exception after this many steps."""

    def __init__(self, steps: int, error: type[Exception] = TrainingInterrupted) -> None:
        self.steps, self.error = steps, error

    def on_chunk(self, training: Training) -> None:
        if training.steps_done == self.steps:
            raise self.error(f"{training.stage} was stopped")


# -- equality with single training -------------------------------------------------------------------------------------

# (n_steps, stop_after, round_size); more runs than are trained at once.
PLANS = [(30, None, None), (250, None, 7), (250, 40, None), (99, 500, 30), (150, 101, None), (1, None, None), (101, 100, 9)]


def small_runs() -> list[Run]:
    schedules = itertools.cycle(["cosine", "constant", "halve every 20"])
    return [
        Run(
            Recorded(round_size, seed),
            Optimisation(n_steps, 0.01 * (seed + 1), schedule, weight_decay=0.01, clip_norm=0.05),
            stop_after=stop_after,
        )
        for seed, ((n_steps, stop_after, round_size), schedule) in enumerate(zip(PLANS, schedules, strict=False))
    ]


def train_small_runs() -> list[Training]:
    together: list[Training] = []
    train_together(lambda run=run: replace(run, finish=together.append) for run in small_runs())
    return together


def assert_as_alone(together: list[Training], equal: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
    for found, run, (n_steps, stop_after, _) in zip(together, small_runs(), PLANS, strict=True):
        alone = train(run)
        assert found.steps_done == alone.steps_done == min(n_steps, stop_after or n_steps)
        for ours, theirs in zip(found.objective.parameters, run.objective.parameters, strict=True):
            equal(ours.detach(), theirs.detach())
        # The chunks differ, but the mean over all steps is the same.
        (mean,), (expected,) = found.loss_curve(most=1), alone.loss_curve(most=1)
        assert mean == {"steps": found.steps_done, "loss": pytest.approx(expected["loss"], rel=1e-12)}


@pytest.mark.usefixtures("three_at_once")
def test_models_trained_together_equal_models_trained_alone() -> None:
    together = train_small_runs()
    assert torch.get_num_threads() == 1
    assert_as_alone(together, lambda ours, theirs: torch.testing.assert_close(ours, theirs, rtol=0, atol=0))


def test_models_trained_on_several_threads_agree_with_models_trained_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "HEAVY", 0)  # every model gets its own thread
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = train_small_runs()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert_as_alone(together, lambda ours, theirs: torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12))


@pytest.mark.usefixtures("three_at_once")
def test_fitting_and_adapting_together_equals_fit_and_adapt(small_world: ZeroShotDataset) -> None:
    images = small_world.train.X, small_world.train.y, small_world.classes
    plans = [({"n_steps": 150}, None), ({"n_steps": 120, "similarity": "dot"}, 60), ({"n_steps": 250, "episodic": False}, None)]
    models = [CVC(**SETTINGS, **settings) for settings, _ in plans]
    train_together(lambda m=m, s=s: m.fitting(*images, stop_after=s) for m, (_, s) in zip(models, plans, strict=True))
    alone = [CVC(**SETTINGS, **settings).fit(*images, stop_after=stop_after) for settings, stop_after in plans]
    adaptations: list[dict[str, Any]] = [{"rounds": 3, "steps_per_round": 20}, {"rounds": 2, "steps_per_round": 45, "q": 0.8}]
    unlabelled = small_world.test_unseen.X
    runs = [alone[0].adaptation_run(unlabelled, **s) for s in adaptations]
    train_together(lambda run=run: run for run in runs)
    models += [run.model for run in runs]
    alone += [alone[0].adapt(unlabelled, **s) for s in adaptations]
    for ours, theirs in zip(models, alone, strict=True):
        np.testing.assert_array_equal(ours.classifiers_of("all"), theirs.classifiers_of("all"))
        assert ours.score_.scale.item() == theirs.score_.scale.item()
        assert ours.n_steps_ == theirs.n_steps_
        assert ours.losses_[-1]["steps"] == theirs.losses_[-1]["steps"]
    for ours, theirs in zip(models[3:], alone[3:], strict=True):
        assert [entry["pool"] for entry in ours.history_] == [entry["pool"] for entry in theirs.history_]
        losses = [[entry["loss"] for entry in model.history_] for model in (ours, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-12)


# -- preparation and finish --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1, 2, 3, 9])
def test_runs_are_prepared_late_and_finished_once(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "most_at_once", lambda _: room)
    prepared: list[Run] = []
    finished: list[Training] = []
    waiting: list[int] = []

    def prepare(number: int) -> Run:
        waiting.append(len(prepared) - len(finished))
        prepared.append(Run(Recorded(seed=number), Optimisation(5 + number, 0.01), stage=str(number), finish=finished.append))
        return prepared[-1]

    train_together((lambda number=number: prepare(number)) for number in range(7))
    assert waiting == [number % room for number in range(7)]
    assert [training.run for training in finished] == prepared
    assert [(training.stage, training.steps_done) for training in finished] == [(str(k), 5 + k) for k in range(7)]
    assert all(training.finished for training in finished)


@pytest.mark.parametrize("room", [1, 2, 3])
def test_memory_of_a_run_is_freed_after_its_end(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "most_at_once", lambda _: room)
    alive: weakref.WeakSet[Recorded] = weakref.WeakSet()
    most = []

    def prepare(number: int) -> Run:
        objective = Recorded(seed=number)
        alive.add(objective)
        most.append(len(alive))
        return Run(objective, Optimisation(3, 0.01))

    train_together((lambda number=number: prepare(number)) for number in range(9))
    assert len(alive) == 0  # immediately, without the garbage collector
    assert max(most) <= room


def test_training_no_models() -> None:
    train_together([])


def test_interrupted_run_is_not_finished() -> None:
    finished: list[Training] = []
    with pytest.raises(TrainingInterrupted):
        train(Run(Recorded(), Optimisation(20, 0.01), [StopAt(20)], finish=finished.append))
    assert finished == []


# -- chunks ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("three_at_once")
def test_chunks_cover_all_steps_and_do_not_cross_rounds() -> None:
    objectives = [Recorded(70, 0), Recorded(None, 1), Recorded(45, 2)]
    lengths = [350, 260, 333]
    train_together(
        lambda objective=objective, n=n: Run(objective, Optimisation(n, 0.01))
        for objective, n in zip(objectives, lengths, strict=True)
    )
    for objective, n_steps in zip(objectives, lengths, strict=True):
        steps = [first + k for first, size in objective.chunks for k in range(size)]
        assert steps == list(range(n_steps))
        for first, size in objective.chunks:
            assert 1 <= size <= CHUNK
            if objective.round_size is not None:
                assert first // objective.round_size == (first + size - 1) // objective.round_size


def test_long_round_is_split_into_chunks() -> None:
    objective = Recorded(CHUNK + CHUNK // 2)
    train(Run(objective, Optimisation(4 * CHUNK, 0.01)))
    sizes = [size for _, size in objective.chunks]
    assert sizes == [CHUNK, CHUNK // 2, CHUNK, CHUNK // 2, CHUNK]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(n_steps=st.integers(1, 1500))
def test_hooks_can_measure_ten_points_of_any_training(n_steps: int) -> None:
    objective = Recorded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "CHUNKS", 10)  # as outside this folder
        train(Run(objective, Optimisation(n_steps, 0.01)))
    ends = [first + size for first, size in objective.chunks]
    assert ends[-1] == n_steps
    assert len({10 * end // n_steps for end in ends} - {0}) == min(n_steps, 10)


class Before(Hook):
    """Record the number of steps before each chunk."""

    def __init__(self) -> None:
        self.before: list[int] = []

    def on_chunk(self, training: Training) -> None:
        self.before.append(training.steps_before)
        assert training.losses[-1] == (training.steps_done, training.objective.losses[-1])


def test_hooks_and_objective_get_the_last_chunk() -> None:
    objective, hook = Recorded(70), Before()
    train(Run(objective, Optimisation(250, 0.01), [hook]))
    assert hook.before == [first for first, _ in objective.chunks] == [0, 70, 140, 210]


def under_way(losses: list[tuple[int, float]]) -> Training:
    run = Run(Recorded(), Optimisation(10**6, 0.01))
    training = Training(run, engines.engine_for([run.objective], [run.optimisation]), 0)
    training.losses = losses
    return training


def test_loss_curve_weights_chunks_by_size() -> None:
    training = under_way([(100, 1.0), (130, 5.0), (230, 2.0), (240, 7.0)])
    assert training.loss_curve(most=4) == [
        {"steps": steps, "loss": loss} for steps, loss in [(100, 1.0), (130, 5.0), (230, 2.0), (240, 7.0)]
    ]
    assert training.loss_curve(most=2) == [
        {"steps": 130, "loss": pytest.approx((100 * 1.0 + 30 * 5.0) / 130)},
        {"steps": 240, "loss": pytest.approx((100 * 2.0 + 10 * 7.0) / 110)},
    ]
    assert under_way([]).loss_curve() == []


@settings(deadline=None, max_examples=50, derandomize=True)
@given(chunks=st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100)), min_size=1, max_size=30), most=st.integers(1, 40))
def test_loss_curve_preserves_the_mean_over_all_steps(chunks: list[tuple[int, float]], most: int) -> None:
    sizes, losses = zip(*chunks, strict=True)
    by_step = np.repeat(losses, sizes)
    curve = under_way(list(zip(itertools.accumulate(sizes), losses, strict=True))).loss_curve(most)
    assert len(curve) <= most
    assert curve[-1]["steps"] == len(by_step)
    for before, point in zip([0, *(point["steps"] for point in curve)], curve, strict=False):
        assert point["loss"] == pytest.approx(by_step[before : point["steps"]].mean(), rel=1e-9, abs=1e-9)


@pytest.mark.usefixtures("three_at_once")
def test_divergence_of_one_of_several_models_raises() -> None:
    wild = Optimisation(200, 1e300)
    with pytest.raises(SightUnseenError, match="training diverged"):
        train_together(
            lambda seed=seed, how=how: Run(Recorded(seed=seed), how) for seed, how in enumerate([Optimisation(200, 0.01), wild])
        )


# -- stopping and resuming ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("three_at_once")
@pytest.mark.parametrize("which", [0, 1, 2])
def test_hooks_of_all_models_run_before_an_interruption_is_raised(which: int) -> None:
    diary: list[tuple[str, str, int]] = []
    stages = ["first", "second", "third"]
    hooks = [[Diary(diary)] for _ in stages]
    hooks[which].insert(0, StopAt(2 * CHUNK))
    with pytest.raises(TrainingInterrupted, match=f"{stages[which]} was stopped"):
        train_together(
            lambda stage=stage, told=told: Run(Recorded(), Optimisation(5 * CHUNK, 0.01), told, stage)
            for stage, told in zip(stages, hooks, strict=True)
        )
    events = [("start", 0), ("chunk", CHUNK), ("chunk", 2 * CHUNK), ("end", 2 * CHUNK)]
    assert diary == [(stage, *event) for event in events for stage in stages]


@pytest.mark.usefixtures("three_at_once")
def test_other_errors_are_raised_immediately_after_on_end_of_all_models() -> None:
    diary: list[tuple[str, str, int]] = []
    with pytest.raises(ZeroDivisionError):
        train_together(
            lambda stage=stage, told=told: Run(Recorded(), Optimisation(2 * CHUNK, 0.01), told, stage)
            for stage, told in [("a", [StopAt(CHUNK, ZeroDivisionError), Diary(diary)]), ("b", [Diary(diary)])]
        )
    assert diary == [("a", "start", 0), ("b", "start", 0), ("a", "end", CHUNK), ("b", "end", CHUNK)]


@pytest.mark.usefixtures("three_at_once")
def test_hooks_of_a_finished_model_are_not_called() -> None:
    diary: list[tuple[str, str, int]] = []
    train_together(
        lambda stage=stage, n=n: Run(Recorded(), Optimisation(2 * CHUNK, 0.01), [Diary(diary)], stage, stop_after=n)
        for stage, n in [("short", 30), ("long", None)]
    )
    assert [done for stage, event, done in diary if (stage, event) == ("short", "chunk")] == [30]
    assert [done for stage, event, done in diary if (stage, event) == ("long", "chunk")] == [CHUNK, 2 * CHUNK]
    assert diary[-2:] == [("short", "end", 30), ("long", "end", 2 * CHUNK)]


LENGTHS = {"one": 350, "two": 420, "three": 260, "four": 150}  # the fourth is trained after the others


def fit_all(data: ZeroShotDataset, folder: Path | None = None, stop_asked: Callable[[], bool] = lambda: False) -> list[CVC]:
    models = [CVC(**SETTINGS, n_steps=n, seed=k) for k, n in enumerate(LENGTHS.values())]
    hooks = [] if folder is None else [Checkpoints(folder, "a run", seconds=1e9, stop_asked=stop_asked)]
    train_together(
        lambda model=model, stage=stage: model.fitting(data.train.X, data.train.y, data.classes, hooks=hooks, stage=stage)
        for model, stage in zip(models, LENGTHS, strict=True)
    )
    return models


@pytest.fixture(scope="module")
def whole(small_world: ZeroShotDataset) -> list[CVC]:
    """All models, trained without interruption."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "most_at_once", lambda _: 3)
        models = fit_all(small_world)
    torch.set_num_threads(threads)
    return models


def assert_same_models(found: list[CVC], expected: list[CVC]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.classifiers_of("all"), theirs.classifiers_of("all"))
        assert ours.score_.scale.item() == theirs.score_.scale.item()
        assert ours.losses_ == theirs.losses_


class After:
    """Return True from the n-th call on."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


def kept(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.iterdir())


# Called for three models after 100, 200 and 260 steps, for two after 350 and once after 420; then for the fourth.
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (1, ["one", "three", "two"]),
        (4, ["one", "three", "two"]),
        (7, ["one", "three", "two"]),
        (10, ["one", "three", "two"]),
        (13, ["four", "one", "three", "two"]),
    ],
)
@pytest.mark.usefixtures("three_at_once")
def test_resumed_models_equal_uninterrupted_models(
    asked: int, expected: list[str], whole: list[CVC], small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    with pytest.raises(TrainingInterrupted):
        fit_all(small_world, tmp_path, After(asked))
    assert kept(tmp_path) == expected
    assert_same_models(fit_all(small_world, tmp_path), whole)


@pytest.mark.usefixtures("three_at_once")
def test_model_without_checkpoint_restarts_while_others_resume(
    whole: list[CVC], small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    with pytest.raises(TrainingInterrupted):
        fit_all(small_world, tmp_path, After(4))
    (tmp_path / "two.safetensors").unlink()
    for ours, theirs in zip(fit_all(small_world, tmp_path), whole, strict=True):
        np.testing.assert_array_equal(ours.classifiers_of("all"), theirs.classifiers_of("all"))


@pytest.mark.usefixtures("three_at_once")
def test_models_stopped_after_every_chunk_equal_uninterrupted_models(
    whole: list[CVC], small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    # After 100, 200, 260 and 350 steps of the first three models, and 100 of the fourth.
    for _ in range(5):
        with pytest.raises(TrainingInterrupted):
            fit_all(small_world, tmp_path, lambda: True)
    assert_same_models(fit_all(small_world, tmp_path, lambda: True), whole)
