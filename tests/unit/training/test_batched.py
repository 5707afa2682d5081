"""The fused kernels take the same steps as the eager engine in double precision.

Without a GPU the kernels run in Triton's interpreter (see conftest.py), which is slow but gives the same results.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining
from sightunseen.methods.cvc.scores import Score
from sightunseen.methods.cvc.transductive import Adaptation, SelfTraining
from sightunseen.training import Objective, Optimisation, engines
from sightunseen.training.cpu import EagerEngine

pytest.importorskip("triton", reason="Triton is for Linux only")

from sightunseen.training import fused
from sightunseen.training.batched import GRAPH_STEPS, BatchedEngine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXACT = "tf32x3" if DEVICE == "cuda" else "tf32"  # the interpreter always computes in single precision
STEPS = 3  # one to check the gradient, and one for each direction of the last kernel
OPTIMISATION = Optimisation(n_steps=STEPS, learning_rate=0.01, schedule="cosine", weight_decay=0.01, clip_norm=0.05)
# Equivalent to the default, and several times faster in the interpreter.
FEWER_SPANS = replace(fused.FEW_MODELS, layer_spans=2, hidden_spans=2, score_spans=2)
SMALL_TILES = replace(
    FEWER_SPANS,
    second=(32, 32, 2, 3),
    scores=(64, 32, 32, 4, 3),
    gradient=(32, 32, 64, 4, 1),
    hidden=(32, 32, 32, 2, 3),
    step=(32, 32, 16, 32, 2, 1),
    unit=32,
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Sizes:
    """Sizes that are no multiples of the tile sizes."""

    classes: int = 21
    unseen: int = 5
    attributes: int = 13
    hidden: int = 37
    features: int = 35
    images: int = 105
    classes_per_episode: int = 4
    images_per_class: int = 2


SMALL = Sizes()


def pieces(
    seed: int, sizes: Sizes, rectify: bool, dtype: torch.dtype, device: str
) -> tuple[ClassifierGenerator, Score, tuple[Tensor, Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    generator = ClassifierGenerator(sizes.attributes, sizes.hidden, sizes.features, rectify, "he", rng)
    vectors = torch.rand(sizes.classes, sizes.attributes, generator=rng)
    features = torch.randn(sizes.images, sizes.features, generator=rng)
    targets = torch.arange(sizes.images) % sizes.classes
    data = vectors.to(device, dtype), features.to(device, dtype), targets.to(device)
    return generator.to(device, dtype), Score("cosine", 10.0 + seed).to(device, dtype), data


def inductive(
    seed: int, dtype: torch.dtype, device: str, sizes: Sizes = SMALL, rectify: bool = True, episodic: bool = True
) -> EpisodicTraining:
    generator, score, data = pieces(seed, sizes, rectify, dtype, device)
    return EpisodicTraining(
        generator, score, *data, EpisodeShape(sizes.classes_per_episode, sizes.images_per_class, episodic), seed
    )


def transductive(
    seed: int,
    dtype: torch.dtype,
    device: str,
    sizes: Sizes = SMALL,
    rectify: bool = True,
    loss: str = "gxe",
    best_per_class: int = 3,
) -> SelfTraining:
    generator, score, (vectors, features, targets) = pieces(seed, sizes, rectify, dtype, device)
    of_seen = targets >= sizes.unseen
    adaptation = Adaptation(
        loss=loss,
        q=0.3 + 0.1 * seed,
        best_per_class=best_per_class,
        threshold=9.0,
        classes_per_episode=sizes.classes_per_episode,
        images_per_class=sizes.images_per_class,
        seed=seed,
    )
    sides = vectors[sizes.unseen :], vectors[: sizes.unseen], features[of_seen], targets[of_seen] - sizes.unseen
    return SelfTraining(generator, score, *sides, features[~of_seen], adaptation)


@dataclass(frozen=True)
class Case:
    """Models trained together, their individual options, and the tile sizes of the kernels."""

    make: Callable[..., Objective]
    options: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    sizes: Sizes = SMALL
    tiles: fused.Tiles = FEWER_SPANS

    def objectives(self, dtype: torch.dtype, device: str) -> list[Objective]:
        return [self.make(seed, dtype, device, self.sizes, **option) for seed, option in enumerate(self.options)]

    def how(self) -> list[Optimisation]:
        """Different hyperparameters for each model, so that a mix-up is detected."""
        clips = (0.05, None, 1e6, 0.5)
        return [
            replace(OPTIMISATION, learning_rate=0.01 * (k + 1), weight_decay=0.01 * k, clip_norm=clips[k])
            for k in range(len(self.options))
        ]


TINY = Sizes(classes=6, unseen=2, attributes=5, hidden=18, features=17, images=24, classes_per_episode=3, images_per_class=1)
LARGE = Sizes(classes=40, attributes=35, hidden=67, features=69, images=120, classes_per_episode=35)
MANY_FREE = Sizes(classes=51, unseen=18, features=70, images=153, classes_per_episode=3, images_per_class=1)
CASES = {
    "one model, as on an H200": Case(inductive, sizes=TINY, tiles=fused.FEW_MODELS),
    "four models, as on an H200": Case(inductive, [{}] * 4, TINY),
    "three models": Case(inductive, [{}] * 3, TINY),
    "no last relu": Case(inductive, [{"rectify": False}]),
    "all classes": Case(inductive, [{"episodic": False}]),
    "more than a tile in every direction": Case(inductive, sizes=LARGE, tiles=SMALL_TILES),
    "adapting by gxe": Case(transductive, [{}, {}]),
    "adapting by xe": Case(transductive, [{"loss": "xe"}]),
    "adapting without the last relu": Case(transductive, [{"rectify": False}], TINY),
    "adapting with more than a tile of free classifiers": Case(transductive, sizes=MANY_FREE),
    # An image that is the best of two classes leaves one of them without images: batches of different sizes.
    "adapting with pools of different sizes": Case(transductive, [{"best_per_class": 1}, {"best_per_class": 3}]),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def test_cases_cover_the_branches_of_the_kernels() -> None:
    tiles, narrow = SMALL_TILES, 32
    for length, parts in [
        (LARGE.classes_per_episode, [narrow, tiles.scores[1], tiles.gradient[0]]),
        (LARGE.classes_per_episode * LARGE.images_per_class, [tiles.scores[0], tiles.gradient[2]]),
        (LARGE.attributes, [tiles.hidden[2], tiles.step[3]]),
        # Sums in two spans have more than one tile per span.
        (LARGE.hidden, [2 * tiles.second[1], tiles.hidden[0], *tiles.step[1:3], tiles.unit]),
        (
            LARGE.features,
            [tiles.second[0], 2 * tiles.scores[2], tiles.gradient[1], 2 * tiles.hidden[1], tiles.step[0], tiles.unit],
        ),
    ]:
        assert all(length > part for part in parts)
    assert (MANY_FREE.classes - MANY_FREE.unseen) * MANY_FREE.features > fused.FREE_TILE
    counts = {name: case.objectives(torch.float32, "cpu")[0].draw(0, 1)["classes"].shape[1] for name, case in CASES.items()}
    assert counts["no last relu"] <= 16 < counts["all classes"]
    assert counts["adapting by gxe"] <= 16 < counts["adapting with more than a tile of free classifiers"]
    assert len(CASES["four models, as on an H200"].options) >= fused.MANY
    ragged = CASES["adapting with pools of different sizes"].objectives(torch.float32, "cpu")
    assert len({objective.draw(0, 1)["rows"].shape[1] for objective in ragged}) == 2


@dataclass
class Found:
    """Results of one model: pairs of the kernels' result and that of autograd in double precision."""

    loss: tuple[float, float]
    gradients: list[tuple[Tensor, Tensor]]  # clipped, with weight decay
    moved: list[tuple[Tensor, Tensor]]
    rounding: list[float]  # accumulated rounding error of a parameter in single precision


def found_and_expected(case: Case, precision: str, monkeypatch: pytest.MonkeyPatch) -> list[Found]:
    monkeypatch.setattr(fused, "FEW_MODELS", case.tiles)
    ours, start, exact = (
        case.objectives(dtype, device)
        for dtype, device in [(torch.float32, DEVICE), (torch.float32, "cpu"), (torch.float64, "cpu")]
    )
    with torch.no_grad():
        for single, double in zip(start, exact, strict=True):
            for value, parameter in zip(single.parameters, double.parameters, strict=True):
                parameter.copy_(value)
    models = len(ours)
    engine = BatchedEngine(ours, case.how(), precision)
    sums = np.array(engine.run([objective.draw(0, 1) for objective in ours], [0] * models, [True] * models))
    # Adam's first moment after one step is a tenth of the gradient.
    gradients = [[10 * engine.state(k)[f"{n}.exp_avg"] for n in range(len(ours[0].parameters))] for k in range(models)]
    sums += engine.run([objective.draw(1, STEPS - 1) for objective in ours], [1] * models, [True] * models)
    found = []
    for k, (objective, single, double, how) in enumerate(zip(ours, start, exact, case.how(), strict=True)):
        first = {name: array[0] for name, array in single.draw(0, 1).items()}
        slopes = torch.autograd.grad(double.loss(first), double.parameters)
        norm = float(torch.sqrt(sum((slope**2).sum() for slope in slopes)))
        factor = 1.0 if how.clip_norm is None else min(1.0, how.clip_norm / (norm + 1e-6))
        wanted = [factor * slope + how.weight_decay * p.detach() for slope, p in zip(slopes, double.parameters, strict=True)]
        expected = EagerEngine(double, how).run(single.draw(0, STEPS), 0)
        ends = zip(objective.parameters, double.parameters, single.parameters, strict=True)
        moved = [((p.detach().cpu() - was).detach(), (q - was).detach()) for p, q, was in ends]
        pairs = [(gradient.double(), theirs) for gradient, theirs in zip(gradients[k], wanted, strict=True)]
        rounding = [STEPS * 2**-24 * float(was.detach().abs().mean()) for was in single.parameters]
        found.append(Found((sums[k], expected), pairs, moved, rounding))
    return found


@every_case
def test_fused_steps_agree_with_autograd_in_double_precision(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in found_and_expected(case, EXACT, monkeypatch):
        np.testing.assert_allclose(*found.loss, rtol=1e-5)
        for ours, theirs in found.gradients:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))
        for (ours, theirs), rounding in zip(found.moved, found.rounding, strict=True):
            # Adam divides by the size of the gradient, which amplifies rounding where it is tiny: hence the mean.
            difference = float((ours - theirs).abs().mean())
            assert difference < 1e-4 * float(theirs.abs().mean()) + rounding, tuple(ours.shape)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@every_case
def test_tf32_products_are_accurate_to_two_percent(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ReLU switched by rounding changes a whole row slightly: hence the mean."""
    for found in found_and_expected(case, "tf32", monkeypatch):
        np.testing.assert_allclose(*found.loss, rtol=2e-2)
        for ours, theirs in (*found.gradients, *found.moved):
            assert (ours - theirs).abs().mean() < 2e-2 * theirs.abs().mean(), tuple(ours.shape)


def test_inactive_model_keeps_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "FEW_MODELS", FEWER_SPANS)
    objectives = [inductive(seed, torch.float32, DEVICE, TINY) for seed in range(2)]
    engine = BatchedEngine(objectives, [OPTIMISATION] * 2)
    before = [[p.detach().clone() for p in objective.parameters] for objective in objectives]
    engine.run([objective.draw(0, 2) for objective in objectives], [0, 0], [True, False])
    active, inactive = (
        [not torch.equal(p.detach(), was) for p, was in zip(objective.parameters, start, strict=True)]
        for objective, start in zip(objectives, before, strict=True)
    )
    assert all(active)
    assert not any(inactive)


def test_a_graph_is_captured_only_after_steps_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "FEW_MODELS", FEWER_SPANS)
    objective = inductive(0, torch.float32, DEVICE, TINY)
    engine = BatchedEngine([objective], [OPTIMISATION])
    found = []
    for first, n_steps in ((0, 1), (1, 2), (3, 1)):
        engine.run([objective.draw(first, n_steps)], [first], [True])
        found.append(engine.warm)
    assert found == [False, True, True]


@pytest.mark.parametrize("make", [inductive, transductive])
def test_state_can_be_restored_by_another_engine(make: Callable[..., Objective], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "FEW_MODELS", FEWER_SPANS)
    whole = make(0, torch.float32, "cpu", TINY)
    first, last = whole.draw(0, 2), whole.draw(2, 1)
    slow = EagerEngine(whole, OPTIMISATION)
    slow.run(first, 0)
    half = slow.state()
    slow.run(last, 2)
    objective = make(0, torch.float32, DEVICE, TINY)
    quick = BatchedEngine([objective], [OPTIMISATION], EXACT)
    quick.restore(0, half)
    quick.run([{name: array.to(DEVICE) for name, array in last.items()}], [2], [True])
    state = quick.state(0)
    quick.release()
    for ours, theirs in zip(objective.parameters, whole.parameters, strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-3, atol=1e-5)
    again = EagerEngine(make(0, torch.float32, "cpu", TINY), OPTIMISATION)
    again.restore(state)
    found, expected = again.state(), slow.state()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    assert float(found["0.step"]) == 3


def test_released_models_share_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "FEW_MODELS", FEWER_SPANS)
    objectives = [transductive(seed, torch.float32, DEVICE, TINY) for seed in range(2)]
    engine = BatchedEngine(objectives, [OPTIMISATION] * 2)
    engine.run([objective.draw(0, 1) for objective in objectives], [0, 0], [True, True])
    before = [[p.detach().clone() for p in objective.parameters] for objective in objectives]
    engine.release()
    for objective, values in zip(objectives, before, strict=True):
        for parameter, value in zip(objective.parameters, values, strict=True):
            assert torch.equal(parameter, value)
            assert parameter.untyped_storage().nbytes() == parameter.nbytes


# -- grouping of models ------------------------------------------------------------------------------------------------


def test_models_of_equal_shape_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_fusible", lambda objective: objective.fused_form() is not None)

    def training(sizes: Sizes = SMALL, **options: Any) -> Objective:
        return inductive(0, torch.float32, "cpu", sizes, **options)

    def adapting(sizes: Sizes = SMALL, **options: Any) -> Objective:
        return transductive(0, torch.float32, "cpu", sizes, **options)

    dot = training()
    dot.score = Score("dot", 1.0)
    groups = {
        "training": [training(), training(replace(SMALL, images_per_class=3)), training(replace(SMALL, images=63))],
        "of more classes": [training(replace(SMALL, classes_per_episode=7))],
        "of all classes": [training(episodic=False)],
        "wider": [training(replace(SMALL, hidden=38))],
        "of longer vectors": [training(replace(SMALL, attributes=14))],
        "of more features": [training(replace(SMALL, features=36))],
        "without the last relu": [training(rectify=False)],
        "nothing to fuse": [dot],
        # The loss, its q and the size of the pool are arguments of the kernels, not part of the shape.
        "adapting": [adapting(), adapting(loss="xe"), adapting(best_per_class=1)],
        "adapting without the last relu": [adapting(rectify=False)],
        "adapting to more classes": [adapting(replace(SMALL, classes=22, unseen=6))],
        "adapting with more seen classes": [adapting(replace(SMALL, classes=22))],
    }
    mixed = [(name, objective) for name, group in groups.items() for objective in group]
    order = np.random.default_rng(0).permutation(len(mixed))
    found = engines.group_by_shape([mixed[k][1] for k in order])
    assert sorted(k for group in found for k in group) == list(range(len(mixed)))
    assert sorted(sorted(mixed[order[k]][0] for k in group) for group in found) == sorted(
        [name] * len(group) for name, group in groups.items()
    )
    assert all(group == sorted(group) for group in found)


def test_all_models_on_a_cpu_form_one_group() -> None:
    different = [inductive(0, torch.float32, "cpu", sizes) for sizes in (TINY, SMALL, MANY_FREE)]
    assert engines.group_by_shape(different) == [[0, 1, 2]]
    assert engines.engine_for(different, [OPTIMISATION] * 3).name == "cpu, float32"


@pytest.mark.parametrize(
    ("device", "form", "classes", "fused_there"),
    [
        ("cuda", "a form", engines.MOST_CLASSES, True),
        ("cuda", "a form", engines.MOST_CLASSES + 1, False),
        ("cuda", None, 5, False),
        ("cpu", "a form", 5, False),
    ],
)
def test_fusible_requires_a_fused_form_a_gpu_and_few_classes(
    device: str, form: str | None, classes: int, fused_there: bool
) -> None:
    objective: Any = SimpleNamespace(
        parameters=[SimpleNamespace(is_cuda=device == "cuda")],
        fused_form=lambda: form,
        draw=lambda _first, n_steps: {"classes": torch.empty(n_steps, classes)},
    )
    assert engines._fusible(objective) == fused_there


# -- graphs ------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_replayed_graph_equals_single_launches() -> None:
    how = Optimisation(10 * GRAPH_STEPS, 1e-3, "cosine", 1e-4, 1.0)
    launched, replayed = (inductive(0, torch.float32, DEVICE) for _ in range(2))
    one_by_one, graph = BatchedEngine([launched], [how]), BatchedEngine([replayed], [how])
    for first in range(0, 4 * GRAPH_STEPS, GRAPH_STEPS):
        graph.run([replayed.draw(first, GRAPH_STEPS)], [first], [True])
        for start in range(first, first + GRAPH_STEPS, GRAPH_STEPS // 2):
            one_by_one.run([launched.draw(start, GRAPH_STEPS // 2)], [start], [True])
    assert graph.graph is not None
    assert all(torch.equal(a, b) for a, b in zip(launched.parameters, replayed.parameters, strict=True))
