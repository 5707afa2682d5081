"""Checkpoints and resuming, learning rate schedules, and hooks and errors of the training loop."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save, save_file

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import ModelError, SettingsError, SightUnseenError
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.search import Measurements
from sightunseen.training import Hook, Optimisation, Training, TrainingInterrupted
from sightunseen.training.checkpoints import UNSEALED, Checkpoints, sealed

pytestmark = pytest.mark.slow

# Chunks of 100 steps: four of them, the last one smaller.
SETTINGS: dict[str, Any] = {"hidden": 16, "n_steps": 350, "learning_rate": 1e-2, "weight_decay": 1e-3, "device": "cpu"}
# A round of 150 steps has chunks of 100 and 50 steps: three rounds, six chunks, the odd ones end within a round.
ADAPTATION: dict[str, Any] = {"rounds": 3, "steps_per_round": 150, "schedule": "cosine", "threshold": 1.3, "best_per_class": 3}


class Stop:
    """Request a stop once, after this many chunks."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


class Killed(Exception):
    """Simulated power failure."""


class PowerCut(Hook):
    """Fail after this many chunks."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_chunk(self, _training: Training) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def fit(data: ZeroShotDataset, hooks: Sequence[Hook] = (), **settings: Any) -> CVC:
    watch = [Measurements(data, points=4), *hooks]
    return CVC(**{**SETTINGS, **settings}).fit(data.train.X, data.train.y, data.classes, hooks=watch)


@pytest.fixture(scope="module")
def whole(small_world: ZeroShotDataset) -> CVC:
    return fit(small_world)


@pytest.fixture(scope="module")
def adapt(whole: CVC, small_world: ZeroShotDataset) -> Callable[..., CVC]:
    def adapted(*hooks: Hook) -> CVC:
        images, labels = small_world.test_unseen.X, small_world.test_unseen.y
        watch = [Measurements(small_world, points=3), *hooks]
        return whole.adapt(images, true_labels=labels, hooks=watch, **ADAPTATION)

    return adapted


@pytest.fixture(scope="module")
def whole_adaptation(adapt: Callable[..., CVC]) -> CVC:
    return adapt()


def assert_same_run(found: CVC, expected: CVC) -> None:
    """Compare weights, losses, measurements and the history of rounds bit by bit."""
    for name, tensor in expected.generator_.state_dict().items():
        np.testing.assert_array_equal(found.generator_.state_dict()[name].numpy(), tensor.numpy(), err_msg=name)
    assert found.score_.scale.item() == expected.score_.scale.item()
    np.testing.assert_array_equal(found.classifiers_of("all"), expected.classifiers_of("all"))
    assert found.losses_ == expected.losses_
    assert found.curve_ == expected.curve_
    assert getattr(found, "history_", None) == getattr(expected, "history_", None)


# -- resuming ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_resumed_training_equals_uninterrupted_training(
    chunks: int, whole: CVC, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    with pytest.raises(TrainingInterrupted, match=f"after {100 * chunks} of 350 steps"):
        fit(small_world, [Checkpoints(tmp_path, "a run", seconds=1e9, stop_asked=Stop(chunks))])
    assert_same_run(fit(small_world, [Checkpoints(tmp_path, "a run")]), whole)


@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 5])
def test_resumed_adaptation_equals_uninterrupted_adaptation(
    chunks: int, adapt: Callable[..., CVC], whole_adaptation: CVC, tmp_path: Path
) -> None:
    assert len({entry["pool"] for entry in whole_adaptation.history_}) > 1  # otherwise a lost pool is not detected
    done = [100, 150, 250, 300, 400][chunks - 1]
    with pytest.raises(TrainingInterrupted, match=f"after {done} of 450 steps"):
        adapt(Checkpoints(tmp_path, "a run", seconds=1e9, stop_asked=Stop(chunks)))
    assert_same_run(adapt(Checkpoints(tmp_path, "a run")), whole_adaptation)


def test_run_can_be_stopped_after_every_chunk(adapt: Callable[..., CVC], whole_adaptation: CVC, tmp_path: Path) -> None:
    for _ in range(5):
        with pytest.raises(TrainingInterrupted):
            adapt(Checkpoints(tmp_path, "a run", stop_asked=lambda: True))
    # The sixth chunk is the last one; a finished run is not interrupted.
    assert_same_run(adapt(Checkpoints(tmp_path, "a run", stop_asked=lambda: True)), whole_adaptation)


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_run_resumes_from_a_periodic_checkpoint_after_a_crash(
    chunks: int, whole: CVC, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        fit(small_world, [PowerCut(chunks), Checkpoints(tmp_path, "a run", seconds=0)])  # fails before this chunk is saved
    assert_same_run(fit(small_world, [Checkpoints(tmp_path, "a run")]), whole)


def test_no_checkpoint_is_saved_before_the_interval_has_passed(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        fit(small_world, [Checkpoints(tmp_path / "kept", "a run", seconds=1e9), PowerCut(2)])
    assert not (tmp_path / "kept").exists()


def test_finished_run_is_not_trained_again(whole: CVC, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    fit(small_world, [Checkpoints(tmp_path, "a run")])
    assert_same_run(fit(small_world, [Checkpoints(tmp_path, "a run"), PowerCut(1)]), whole)


def test_run_with_stop_after_can_be_continued(whole: CVC, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = CVC(**SETTINGS)
    model.fit(*_training(small_world), hooks=[Checkpoints(tmp_path, "a run")], stop_after=200)
    model.fit(*_training(small_world), hooks=[Checkpoints(tmp_path, "a run")])
    np.testing.assert_array_equal(model.classifiers_of("all"), whole.classifiers_of("all"))


def _training(data: ZeroShotDataset) -> tuple[Any, Any, Any]:
    return data.train.X, data.train.y, data.classes


def test_each_stage_has_its_own_checkpoint(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    for stage in ("one stage", "another stage"):
        CVC(**SETTINGS).fit(*_training(small_world), hooks=[Checkpoints(tmp_path, "a run")], stage=stage)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another-stage.safetensors", "one-stage.safetensors"]


def test_checkpoint_of_other_hyperparameters_raises_and_is_kept(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        fit(small_world, [Checkpoints(tmp_path, "hidden 16", stop_asked=lambda: True)])
    before = (tmp_path / "training.safetensors").read_bytes()
    with pytest.raises(ModelError, match="other data or settings"):
        fit(small_world, [Checkpoints(tmp_path, "hidden 17")], hidden=17)
    assert (tmp_path / "training.safetensors").read_bytes() == before


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, -1])
def test_truncated_checkpoint_raises(kept: float, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        fit(small_world, [Checkpoints(tmp_path, "a run", stop_asked=lambda: True)])
    path = tmp_path / "training.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if kept == 0.5 else int(kept)])
    with pytest.raises(ModelError, match=r"training\.safetensors is damaged.* Delete .* and start again"):
        fit(small_world, [Checkpoints(tmp_path, "a run")])


@pytest.mark.parametrize("metadata", [None, {"progress": "{"}, {"progress": "{}"}, {"other": "1"}])
def test_file_that_is_not_a_checkpoint_raises(
    metadata: dict[str, str] | None, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    save_file({"0.value": np.zeros(3)}, tmp_path / "training.safetensors", metadata)
    with pytest.raises(ModelError, match=r"training\.safetensors"):
        fit(small_world, [Checkpoints(tmp_path, "a run")])


@pytest.fixture(scope="module")
def checkpoint(small_world: ZeroShotDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint of a training after 200 of 350 steps."""
    folder = tmp_path_factory.mktemp("checkpoint")
    with pytest.raises(TrainingInterrupted):
        fit(small_world, [Checkpoints(folder, "a run", seconds=1e9, stop_asked=Stop(2))])
    return folder / "training.safetensors"


@pytest.mark.parametrize("share", np.linspace(0, 0.999, 15).round(3).tolist())
def test_flipped_bit_raises(share: float, checkpoint: Path, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    content = bytearray(checkpoint.read_bytes())
    position = int(share * len(content))
    content[position] ^= 1 << position % 8
    (tmp_path / "training.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=r"training\.safetensors is damaged.* Delete .* and start again"):
        fit(small_world, [Checkpoints(tmp_path, "a run")])


def test_flipped_bit_of_the_header_raises(checkpoint: Path, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    content = checkpoint.read_bytes()
    for word in (b'"seal"', b'"progress"', b"F32", b"0.value", content[content.index(b'"seal":"') + 8 :][:32]):
        damaged = content.replace(word, word[:-1] + bytes([word[-1] ^ 1]), 1)
        (tmp_path / "training.safetensors").write_bytes(damaged)
        with pytest.raises(ModelError, match="is damaged"):
            fit(small_world, [Checkpoints(tmp_path, "a run")])


Arrays = dict[str, Any]


def rewrite(source: Path, target: Path, change: Callable[[Arrays, dict[str, Any]], Any]) -> None:
    """Write a changed checkpoint with a valid seal."""
    with safe_open(source, framework="numpy") as file:
        arrays, progress = {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["progress"])
    change(arrays, progress)
    target.write_bytes(sealed(save(arrays, {"progress": json.dumps(progress), "seal": UNSEALED})))


def test_rewritten_checkpoint_is_resumed(checkpoint: Path, whole: CVC, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    rewrite(checkpoint, tmp_path / checkpoint.name, lambda arrays, progress: None)
    assert_same_run(fit(small_world, [Checkpoints(tmp_path, "a run")]), whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, _: arrays.pop("0.value"), "it has no tensor 0.value"),
        (lambda arrays, _: arrays.pop("1.exp_avg"), "it has no tensor 1.exp_avg"),
        (lambda arrays, _: arrays.update({"9.value": np.zeros(1)}), "an unknown tensor 9.value"),
        (lambda arrays, _: arrays.update({"0.value": arrays["0.value"][:-1].copy()}), "0.value has type .* and shape"),
        (lambda arrays, _: arrays.update({"0.value": arrays["0.value"].astype("f8")}), "0.value has type torch.float64"),
        (lambda arrays, _: arrays.update({"0.exp_avg_sq": np.zeros(3, "f4")}), "0.exp_avg_sq has type"),
        (lambda arrays, _: arrays.update({"0.step": np.array(1e9, "f4")}), "0.step does not fit 200 steps"),
        (lambda arrays, _: arrays["0.value"].fill(np.nan), "0.value has values that are not finite"),
        (lambda _, progress: progress.update(steps_done=351), "351 steps do not fit a training of 350 steps"),
        (lambda _, progress: progress.update(steps_done=-1), "-1 steps do not fit"),
        (lambda _, progress: progress.update(steps_done="200"), "steps_done: Input should be a valid integer"),
        (lambda _, progress: progress.update(steps_done=10**400), "steps do not fit|valid integer"),
        (lambda _, progress: progress.update(losses=[]), "steps do not fit"),
        (lambda _, progress: progress.update(losses=[[200, 1.0], [100, 1.0]]), "steps do not fit"),
        (
            lambda _, progress: progress.update(losses=[[100, 1.0], [200, math.nan]]),
            "losses.1.1: Input should be a finite number",
        ),
        (lambda _, progress: progress.update(losses=[[200]]), "losses.0"),
        (lambda _, progress: progress["curve"][0].update(T1=math.inf), "not JSON compliant"),
        (lambda _, progress: progress.update(curve={}), "curve: Input should be a valid array"),
        (lambda _, progress: progress.update(notes=[{"round": 1}]), "its notes do not fit"),
        (lambda _, progress: progress.update(notes=None), "notes: Input should be a valid array"),
        (lambda _, progress: progress.pop("identity"), "identity: Field required"),
        (lambda _, progress: progress.update(mood="good"), "mood"),
    ],
)
def test_sealed_checkpoint_of_other_content_raises(
    change: Callable[[Arrays, dict[str, Any]], Any],
    message: str,
    checkpoint: Path,
    small_world: ZeroShotDataset,
    tmp_path: Path,
) -> None:
    rewrite(checkpoint, tmp_path / checkpoint.name, change)
    with pytest.raises(ModelError, match=rf"training\.safetensors is damaged: .*({message}).* Delete .* and start again"):
        fit(small_world, [Checkpoints(tmp_path, "a run")])


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, _: arrays.pop("memory.pool_rows"),
        lambda arrays, _: arrays.update({"memory.round_loss": np.zeros(2)}),
        lambda arrays, _: arrays.update({"memory.pool_labels": arrays["memory.pool_labels"].astype("i4")}),
        lambda _, progress: progress["notes"].pop(),
        lambda _, progress: progress["notes"][0].pop("loss"),
        lambda _, progress: progress["notes"][0].update(pool="many"),
    ],
)
def test_sealed_checkpoint_of_another_round_raises(
    change: Callable[[Arrays, dict[str, Any]], Any], adapt: Callable[..., CVC], tmp_path: Path
) -> None:
    with pytest.raises(TrainingInterrupted):
        adapt(Checkpoints(tmp_path, "a run", stop_asked=Stop(3)))
    (path,) = tmp_path.iterdir()
    rewrite(path, path, change)
    with pytest.raises(ModelError, match="is damaged"):
        adapt(Checkpoints(tmp_path, "a run"))


class Inspector(Hook):
    """Refuse every checkpoint."""

    def on_resume(self, training: Training) -> None:
        raise ModelError(f"{len(training.curve)} measurements after {training.steps_done} steps")


def test_hooks_can_refuse_a_checkpoint(checkpoint: Path, small_world: ZeroShotDataset) -> None:
    with pytest.raises(ModelError, match=r"is damaged: 2 measurements after 200 steps\. Delete"):
        fit(small_world, [Inspector(), Checkpoints(checkpoint.parent, "a run")])


# -- learning rate schedules -------------------------------------------------------------------------------------------


def test_constant_schedule() -> None:
    optimisation = Optimisation(n_steps=10, learning_rate=0.3)
    assert optimisation.learning_rates(0, 10).tolist() == [0.3] * 10


def test_cosine_schedule_decays_to_zero() -> None:
    optimisation = Optimisation(n_steps=1000, learning_rate=0.3, schedule="cosine")
    rates = optimisation.learning_rates(0, 1001).tolist()
    assert rates[0] == 0.3
    assert rates[500] == pytest.approx(0.15)
    assert rates[1000] == pytest.approx(0, abs=1e-15)
    # Equivalently, the squared cosine of half the angle.
    assert rates == pytest.approx([0.3 * math.cos(math.pi * step / 2000) ** 2 for step in range(1001)], abs=1e-15)


def test_halving_schedule() -> None:
    optimisation = Optimisation(n_steps=10, learning_rate=0.8, schedule="halve every 3")
    rates = optimisation.learning_rates(0, 10).tolist()
    assert rates == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_steps", 0),
        ("n_steps", -3),
        ("learning_rate", -0.1),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("weight_decay", -1.0),
        ("weight_decay", math.nan),
        ("clip_norm", -1.0),
        ("clip_norm", math.inf),
        ("schedule", "linear"),
        ("schedule", "halve every"),
        ("schedule", "halve every 0"),
        ("schedule", "halve every 2.5"),
        ("schedule", "halve every -1"),
        ("schedule", ""),
    ],
)
def test_invalid_hyperparameter_of_the_optimiser_is_named(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        Optimisation(**{"n_steps": 10, "learning_rate": 0.1, name: value})


# -- the loop ----------------------------------------------------------------------------------------------------------


class Witness(Hook):
    """Record the calls, and the weights after every chunk."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.weights: list[np.ndarray] = []

    def on_start(self, training: Training) -> None:
        self.training = training
        self.told.append("start")

    def on_chunk(self, training: Training) -> None:
        self.told.append(str(training.steps_done))
        self.weights.append(training.objective.parameters[0].detach().numpy().copy())

    def on_end(self, _training: Training) -> None:
        self.told.append("end")


def test_hooks_are_called_at_start_chunks_and_end(small_world: ZeroShotDataset) -> None:
    witness = Witness()
    fit(small_world, [witness])
    assert witness.told == ["start", "100", "200", "300", "350", "end"]


def test_on_end_is_called_after_an_exception(small_world: ZeroShotDataset) -> None:
    witness = Witness()
    with pytest.raises(Killed):
        fit(small_world, [witness, PowerCut(2)])
    assert witness.told == ["start", "100", "200", "end"]


def test_stop_after_gives_the_first_steps_of_the_whole_run(small_world: ZeroShotDataset) -> None:
    witness = Witness()
    fit(small_world, [witness])
    model = CVC(**SETTINGS).fit(*_training(small_world), stop_after=200)
    np.testing.assert_array_equal(model.generator_.first.weight.detach().numpy(), witness.weights[1])
    assert [point["steps"] for point in model.losses_] == [100, 200]
    assert not np.array_equal(witness.weights[1], witness.weights[-1])


@pytest.mark.parametrize("steps", [0, -1])
def test_stop_after_less_than_one_raises(steps: int, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="stop_after"):
        CVC(**SETTINGS).fit(*_training(small_world), stop_after=steps)


def test_long_loss_curve_is_averaged(small_world: ZeroShotDataset) -> None:
    witness = Witness()
    CVC(**{**SETTINGS, "n_steps": 650}).fit(*_training(small_world), hooks=[witness])
    steps, losses = zip(*witness.training.losses, strict=True)
    assert steps == (100, 200, 300, 400, 500, 600, 650)
    averaged = witness.training.loss_curve(most=3)
    assert [point["steps"] for point in averaged] == [300, 600, 650]
    expected = [sum(losses[:3]) / 3, sum(losses[3:6]) / 3, losses[6]]
    assert [point["loss"] for point in averaged] == pytest.approx(expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"similarity": "dot", "learning_rate": 1e30, "clip_norm": None},
        {"learning_rate": 1e30},
    ],
    ids=["dot products explode", "cosines of infinite classifiers"],
)
def test_diverging_training_raises_with_advice(settings: dict[str, Any], small_world: ZeroShotDataset) -> None:
    with pytest.raises(SightUnseenError, match=r"training diverged\. Lower the learning rate"):
        fit(small_world, **settings)


def test_diverging_adaptation_raises(whole: CVC, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SightUnseenError, match=r"training diverged\. Lower the learning rate"):
        whole.adapt(small_world.test_unseen.X, learning_rate=1e30, **{**ADAPTATION, "rounds": 1})


@pytest.mark.parametrize(
    "settings",
    [{"episodic": False}, {"similarity": "dot"}, {"episodic": False, "similarity": "dot"}],
    ids=["without episodes", "dot products", "both"],
)
def test_ablations_learn(settings: dict[str, Any], small_world: ZeroShotDataset) -> None:
    model = fit(small_world, **settings)
    assert model.losses_[-1]["loss"] < 0.7 * model.losses_[0]["loss"]
    found = evaluate(model, small_world)
    assert found.T1 > 35  # chance is 25
    assert found.S > 20  # chance is 6
    # The dot product has no learnable scale.
    assert (model.score_.scale.item() == model.initial_scale) == ("similarity" in settings)
    adapted = model.adapt(small_world.test_unseen.X, rounds=2, steps_per_round=20)
    assert evaluate(adapted, small_world).T1 > 35


def test_mini_batches_without_episodes_use_all_seen_classes(small_world: ZeroShotDataset) -> None:
    witness = Witness()
    CVC(**SETTINGS, episodic=False, classes_per_episode=5, images_per_class=3).fit(*_training(small_world), hooks=[witness])
    drawn = witness.training.objective.draw(0, 50)
    assert drawn["rows"].shape == drawn["labels"].shape == (50, 15)
    assert drawn["classes"].tolist() == [list(range(12))] * 50
    np.testing.assert_array_equal(small_world.seen[drawn["labels"].numpy()], small_world.train.y[drawn["rows"].numpy()])
    assert len({row for batch in drawn["rows"].tolist() for row in batch}) > 150  # 750 draws from 192 images
