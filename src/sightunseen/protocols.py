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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from sightunseen.checks import check_choice, check_whole
from sightunseen.data.doctor import PASS, Finding
from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import DataError, SettingsError
from sightunseen.evaluation import evaluate
from sightunseen.methods.cvc import CVC
from sightunseen.methods.transductive import Adaptation
from sightunseen.records import RunRecord
from sightunseen.selection import (
    BestOnTest,
    Choice,
    adaptation_on_validation_classes,
    each_on_validation_classes,
    fixed,
    of_seed,
)
from sightunseen.training import Hook, Run, train_together

PROTOCOLS = ("honest", "paper")
FINAL_STAGE = "training on all seen classes"


def run_training(
    model: CVC,
    data: ZeroShotDataset,
    workspace: Path,
    protocol: str = "honest",
    select: bool = True,
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int = 1,
    points: int = 10,
    n_seeds: int = 1,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
) -> CVC:
    """Train ``model`` on ``data`` under a protocol; the run record is its ``record_``.

    ``n_seeds`` models, from ``model.seed`` up, make as many choices of their own and are trained together; the one of the
    first seed is returned, and its record has the results of all. ``workspace`` is a folder for what must outlive an
    interruption; the caller removes it when the model is saved.
    """
    _check_protocol(protocol, data, select, grid)
    check_whole("n_seeds", n_seeds, 1)
    started = time.monotonic()
    models = [model, *(clone(model).set_params(seed=model.seed + k) for k in range(1, n_seeds))]
    if protocol == "honest":
        choices = each_on_validation_classes(models, data, grid, n_folds, points, hooks) if select else [fixed()] * n_seeds
        _train_as_chosen(models, choices, data, hooks)
    else:
        choices = _train_the_authors_way(models, data, workspace, points, hooks)
    results = [results_on_test(model, data) for model in models]
    model.record_ = RunRecord(
        kind="train",
        method=type(model).__name__,
        settings=model.get_params(),
        seed=model.seed,
        protocol=protocol,
        data=describe(data),
        selection=choices[0].report,
        findings=_notable(findings),
        results=results[0],
        seeds=_over_seeds(models, choices, results) if n_seeds > 1 else {},
        history=tuple(model.losses_),
        engine=model.engine_,
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return model


def run_adaptation(
    model: CVC,
    data: ZeroShotDataset,
    workspace: Path,
    unlabelled: ArrayLike | None = None,
    settings: Mapping[str, Any] | None = None,
    protocol: str = "honest",
    select: bool = True,
    grid: Mapping[str, Sequence[Any]] | None = None,
    n_folds: int = 1,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
) -> CVC:
    """Adapt a model to the unlabelled images of the unseen classes (Algorithm 2); the run record is its ``record_``.

    Without ``unlabelled`` the test images of the unseen classes serve; their labels are used to report how many pseudo
    labels were right, and for nothing else. Under the protocol ``honest`` adapting is rehearsed on validation classes, to
    choose the penalty on seen classes and the settings of ``grid``; under ``paper`` the round with the best H on test is kept.
    """
    _check_protocol(protocol, data, select, grid)
    if unlabelled is None and not len(data.test_unseen):
        raise DataError("there are no images of unseen classes to adapt to. Give their features (--unlabelled FILE).")
    started = time.monotonic()
    chosen, choice = dict(settings or {}), fixed()
    if protocol == "honest" and select:
        choice = adaptation_on_validation_classes(model, data, chosen, grid, n_folds, hooks)
        chosen |= choice.settings
    report = choice.report
    best = workspace / "best-on-test"
    watch = [BestOnTest(data, best, Adaptation(**chosen).rounds)] if protocol == "paper" else []
    adapted = model.adapt(
        data.test_unseen.X if unlabelled is None else unlabelled,
        data.unseen,
        X_seen=data.train.X,
        y_seen=data.train.y,
        true_labels=data.test_unseen.y if unlabelled is None else None,
        hooks=[*watch, *hooks],
        **chosen,
    )
    if choice.seen_penalty is not None:
        adapted.set_params(seen_penalty=choice.seen_penalty)
    if protocol == "paper":
        report = BestOnTest.report(adapted.curve_)
        adapted = _with_learned_weights_of(CVC.load(best), adapted)
    adapted.record_ = RunRecord(
        kind="adapt",
        method=type(adapted).__name__,
        settings={**adapted.get_params(), "adaptation": asdict(adapted.adaptation_)},
        seed=adapted.adaptation_.seed,
        protocol="paper" if "paper" in (protocol, model.record_ and model.record_.protocol) else "honest",
        data=describe(data),
        selection=report,
        findings=_notable(findings),
        results=results_on_test(adapted, data),
        history=tuple(adapted.history_),
        engine=adapted.engine_,
        parent=None if model.record_ is None else asdict(model.record_),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return adapted


def results_on_test(model: CVC, data: ZeroShotDataset) -> dict[str, float | None]:
    """T1, U, S, H and AUSUC in percent; empty where the data have no test images."""
    if not len(data.test_seen) and not len(data.test_unseen):
        return {}
    return evaluate(model, data).summary()


def describe(data: ZeroShotDataset) -> dict[str, Any]:
    """What a record says about its data."""
    return {
        "name": data.name,
        "fingerprints": dict(data.sources),
        "options": dict(data.options),
        "semantics": data.classes.use,
        "images": {"train": len(data.train), "test_seen": len(data.test_seen), "test_unseen": len(data.test_unseen)},
        "classes": {"seen": len(data.seen), "unseen": len(data.unseen)},
        "features": int(data.features.shape[1]),
    }


def _train_as_chosen(models: Sequence[CVC], choices: Sequence[Choice], data: ZeroShotDataset, hooks: Sequence[Hook]) -> None:
    def final(place: int) -> Run:
        model, choice = models[place], choices[place]
        model.set_params(**choice.settings)
        if choice.seen_penalty is not None:
            model.set_params(seen_penalty=choice.seen_penalty)
        stage = FINAL_STAGE + of_seed(models, place)
        images = data.train
        return model.fitting(images.X, images.y, data.classes, hooks=hooks, stage=stage, stop_after=choice.stop_after)

    train_together(partial(final, place) for place in range(len(models)))


def _train_the_authors_way(
    models: Sequence[CVC], data: ZeroShotDataset, workspace: Path, points: int, hooks: Sequence[Hook]
) -> list[Choice]:
    folders = [workspace / f"best-on-test-{model.seed}" for model in models]

    def final(place: int) -> Run:
        watch = [BestOnTest(data, folders[place], points), *hooks]
        stage = FINAL_STAGE + of_seed(models, place)
        return models[place].fitting(data.train.X, data.train.y, data.classes, hooks=watch, stage=stage)

    train_together(partial(final, place) for place in range(len(models)))
    for model, folder in zip(models, folders, strict=True):
        _with_learned_weights_of(CVC.load(folder), model)
    return [Choice({}, report=BestOnTest.report(model.curve_)) for model in models]


def _over_seeds(models: Sequence[CVC], choices: Sequence[Choice], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What came out for each seed, with mean and standard deviation over seeds (of a sample: divided by n - 1)."""
    names = [name for name, value in results[0].items() if value is not None]
    columns = {name: [result[name] for result in results] for name in names}
    return {
        "seeds": [model.seed for model in models],
        "chosen": [choice.report.get("chosen", {}) for choice in choices],
        "results": list(results),
        "mean": {name: round(float(np.mean(column)), 2) for name, column in columns.items()},
        "std": {name: round(float(np.std(column, ddof=1)), 2) for name, column in columns.items()},
    }


def _with_learned_weights_of(best: CVC, model: CVC) -> CVC:
    """``model`` as it was when ``best`` was saved, with the history of its whole training."""
    model._take_arrays(best._arrays())
    return model


def _check_protocol(protocol: str, data: ZeroShotDataset, select: bool, grid: Mapping[str, Sequence[Any]] | None) -> None:
    check_choice("protocol", protocol, PROTOCOLS)
    if grid and (protocol == "paper" or not select):
        raise SettingsError("settings are searched for on validation classes: not under protocol paper or with --select none.")
    if protocol == "paper" and not (len(data.test_seen) and len(data.test_unseen)):
        raise DataError("the paper's protocol chooses on test images of seen and unseen classes, and these data lack some.")


def _notable(findings: Iterable[Finding]) -> tuple[dict[str, Any], ...]:
    return tuple(finding.as_dict() for finding in findings if finding.level != PASS)
