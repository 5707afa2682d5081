"""Whole runs: choose, train, look at the test data, and write down what was done.

``honest`` (default): settings, number of tasks and the penalty on seen classes are chosen on validation classes, the
model is trained again on all training images, and the test data are looked at once. ``paper``: the number of tasks is
chosen on the test data, as the authors did; the record and every table say so.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from numpy.typing import ArrayLike

from sightunseen.checks import check_choice
from sightunseen.data.doctor import Finding, notable
from sightunseen.dataset import ZeroShotDataset, apart
from sightunseen.errors import DataError, SettingsError
from sightunseen.evaluation import evaluate
from sightunseen.methods import AdaptableClassifier, TrainedClassifier, ZeroShotClassifier
from sightunseen.methods.cvc import CVC
from sightunseen.methods.transductive import Adaptation
from sightunseen.records import RunRecord
from sightunseen.seeds import check_seeds, of_seeds, over_seeds, seed_of
from sightunseen.selection import BestOnTest, Fixed, OnValidationClasses, Selection
from sightunseen.training import Hook, Run, train_together
from sightunseen.trials import Choice, fit_together, of_seed

PROTOCOLS = ("honest", "paper")
FINAL_STAGE = "training on all seen classes"

Method = TypeVar("Method", bound=ZeroShotClassifier)
Trained = TypeVar("Trained", bound=TrainedClassifier)


def run_training(
    model: Method,
    data: ZeroShotDataset,
    workspace: Path,
    protocol: str = "honest",
    select: bool = True,
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int | None = None,
    points: int = 10,
    n_seeds: int = 1,
    seed: int = 0,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
) -> Method:
    """Train ``model`` on ``data`` under a protocol; the run record is its ``record_``.

    ``n_seeds`` models, from ``model.seed`` up, make as many choices of their own and are trained together; the one of the
    first seed is returned, and its record has the results of all. Where a method draws nothing at random its seeds are those
    of the folds and held-out images that it is chosen on, from ``seed`` up. ``workspace`` is a folder for what must outlive
    an interruption; the caller removes it when the model is saved.
    """
    _check_protocol(protocol, data, select, grid)
    check_seeds(model, n_seeds, select)
    started = time.monotonic()
    seed = getattr(model, "seed", seed)
    models = of_seeds(model, seed, n_seeds)
    if protocol == "honest":
        selection: Selection = OnValidationClasses(n_folds, points, seed) if select else Fixed()
        choices = selection.choose(models, data, grid, hooks)
        stages = [FINAL_STAGE + of_seed(models, place) for place in range(n_seeds)]
        fit_together(models, choices, [data] * n_seeds, stages, hooks)
    elif isinstance(model, TrainedClassifier):
        choices = _train_the_authors_way(cast(Sequence[TrainedClassifier], models), data, workspace, points, hooks)
    else:
        raise SettingsError(f"the paper's protocol chooses the number of tasks, and {type(model).__name__} has none.")
    results = [results_on_test(model, data) for model in models]
    model.record_ = RunRecord(
        kind="train",
        method=type(model).__name__,
        settings=model.get_params(),
        seed=seed,
        protocol=protocol,
        data=data.describe(),
        selection=choices[0].report,
        findings=notable(findings),
        results=results[0],
        seeds=over_seeds(seed, choices, results) if n_seeds > 1 else {},
        history=tuple(getattr(model, "losses_", ())),
        engine=getattr(model, "engine_", ""),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return model


def run_adaptation(
    model: AdaptableClassifier,
    data: ZeroShotDataset,
    workspace: Path,
    unlabelled: ArrayLike | None = None,
    settings: Mapping[str, Any] | None = None,
    protocol: str = "honest",
    select: bool = True,
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int | None = None,
    hold_out: float = 0.0,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
) -> AdaptableClassifier:
    """Adapt a model to the unlabelled images of the unseen classes; the run record is its ``record_``.

    Without ``unlabelled`` the test images of the unseen classes serve; their labels are used to report how many pseudo
    labels were right, and for nothing else. Under the protocol ``honest`` adapting is rehearsed on validation classes, to
    choose the penalty on seen classes and the settings of ``grid``; under ``paper`` the round with the best H on test is kept.
    ``hold_out`` is the part of those test images that adapting does not meet; results are then measured on it alone. Where
    the images to be answered on are not those adapted to, as with ``unlabelled``, the rehearsal holds images out, too.
    """
    _check_protocol(protocol, data, select, grid)
    adapted_to, measured_on = apart(data, hold_out, seed_of(model))
    if hold_out and (protocol == "paper" or unlabelled is not None):
        raise SettingsError("images are held out of the unseen classes' test images: not under protocol paper or --unlabelled.")
    if protocol == "paper" and not isinstance(model, CVC):
        raise SettingsError(f"the paper's protocol keeps the best round of Algorithm 2, which {type(model).__name__} has not.")
    if unlabelled is None and not len(data.test_unseen):
        raise DataError("there are no images of unseen classes to adapt to. Give their features (--unlabelled FILE).")
    started = time.monotonic()
    selection: Selection = OnValidationClasses(n_folds, seed=seed_of(model)) if protocol == "honest" and select else Fixed()
    unmet = hold_out if unlabelled is None else 0.5
    choice = selection.choose_adaptation(model, data, settings or {}, grid, hooks, unmet)
    chosen = {**(settings or {}), **choice.settings}
    images = adapted_to.test_unseen.X if unlabelled is None else unlabelled
    seen = {"X_seen": data.train.X, "y_seen": data.train.y}
    adapted: AdaptableClassifier
    if isinstance(model, CVC):
        truth = adapted_to.test_unseen.y if unlabelled is None else None
        best = workspace / "best-on-test"
        watch = [BestOnTest(data, best, Adaptation(**chosen).rounds)] if protocol == "paper" else []
        adapted = model.adapt(images, data.unseen, **seen, true_labels=truth, hooks=[*watch, *hooks], **chosen)
        chosen = asdict(adapted.adaptation_)
        if protocol == "paper":
            choice = Choice({}, report=BestOnTest.report(adapted.curve_))
            adapted = _with_learned_weights_of(CVC.load(best), adapted)
    else:
        adapted = model.adapt(images, data.unseen, **seen, **chosen)
    if choice.seen_penalty is not None:
        adapted.set_params(seen_penalty=choice.seen_penalty)
    adapted.calibration_ = choice.calibration
    adapted.record_ = RunRecord(
        kind="adapt",
        method=type(adapted).__name__,
        settings={**adapted.get_params(), "adaptation": chosen, **({"hold_out": hold_out} if hold_out else {})},
        seed=chosen.get("seed", seed_of(adapted)),
        protocol="paper" if "paper" in (protocol, model.record_ and model.record_.protocol) else "honest",
        data=data.describe(),
        selection=choice.report,
        findings=notable(findings),
        results=results_on_test(adapted, measured_on),
        history=tuple(getattr(adapted, "history_", ())),
        engine=getattr(adapted, "engine_", ""),
        parent=None if model.record_ is None else asdict(model.record_),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return adapted


def results_on_test(model: ZeroShotClassifier, data: ZeroShotDataset) -> dict[str, float | None]:
    """T1, U, S, H and AUSUC in percent; empty where the data have no test images."""
    if not len(data.test_seen) and not len(data.test_unseen):
        return {}
    return evaluate(model, data).summary()


def _train_the_authors_way(
    models: Sequence[TrainedClassifier], data: ZeroShotDataset, workspace: Path, points: int, hooks: Sequence[Hook]
) -> list[Choice]:
    folders = [workspace / f"best-on-test-{model.seed}" for model in models]

    def final(place: int) -> Run:
        watch = [BestOnTest(data, folders[place], points), *hooks]
        stage = FINAL_STAGE + of_seed(models, place)
        return models[place].fitting(data.train.X, data.train.y, data.classes, hooks=watch, stage=stage)

    train_together(partial(final, place) for place in range(len(models)))
    for model, folder in zip(models, folders, strict=True):
        _with_learned_weights_of(type(model).load(folder), model)
    return [Choice({}, report=BestOnTest.report(model.curve_)) for model in models]


def _with_learned_weights_of(best: Trained, model: Trained) -> Trained:
    """``model`` as it was when ``best`` was saved, with the history of its whole training."""
    model._take_arrays(best._arrays())
    return model


def _check_protocol(protocol: str, data: ZeroShotDataset, select: bool, grid: Mapping[str, Sequence[Any]] | None) -> None:
    check_choice("protocol", protocol, PROTOCOLS)
    if grid and (protocol == "paper" or not select):
        raise SettingsError("settings are searched for on validation classes: not under protocol paper or with --select none.")
    if protocol == "paper" and not (len(data.test_seen) and len(data.test_unseen)):
        raise DataError("the paper's protocol chooses on test images of seen and unseen classes, and these data lack some.")
