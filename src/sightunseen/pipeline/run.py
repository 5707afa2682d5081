"""Training and adapting from a specification: select, fit on all seen classes, calibrate, evaluate once, record."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightunseen.core.dataset import ZeroShotDataset, apart
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.records import RunRecord
from sightunseen.data.doctor import Finding, notable
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, ZeroShotClassifier
from sightunseen.pipeline.specification import AdaptationSpecification, TrainingSpecification
from sightunseen.selection.choice import NO_SELECTION, Choice
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.on_test import adapt_best_on_test, fit_best_on_test
from sightunseen.selection.on_validation import choose_adaptation_on_validation, choose_on_validation
from sightunseen.selection.search import fit_chosen, of_seed
from sightunseen.training import Hook

FINAL_STAGE = "training on all seen classes"


def train(
    specification: TrainingSpecification,
    data: ZeroShotDataset,
    workspace: Path,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
    chosen: Choice | None = None,
) -> ZeroShotClassifier:
    """Train a model on data that the split doctor has examined.

    Parameters
    ----------
    specification : what is trained, and how it is chosen. Of several seeds the model of the first is returned; its record
        has the results of all.
    data, findings : as opened.
    workspace : a folder for what must outlive an interruption; the caller removes it once the model is saved.
    hooks : told how gradient training goes.
    chosen : an earlier choice of the same specification, which need not be made again.

    Returns
    -------
    ZeroShotClassifier
        Fitted, with its run record as ``record_``.
    """
    specification.check_data(data)
    started = time.monotonic()
    models = specification.estimators()
    stages = [FINAL_STAGE + of_seed(models, k) for k in range(len(models))]
    if specification.protocol == "paper" and chosen is None:
        found = fit_best_on_test(models, data, specification.grid, workspace, stages, hooks)
        models, choices = [model for model, _ in found], [choice for _, choice in found]
    else:
        choices = _choices(specification, models, data, hooks) if chosen is None else [chosen]
        fit_chosen(models, choices, [data] * len(models), stages, hooks)
    results = [results_on_test(model, data) for model in models]
    model = models[0]
    model.record_ = RunRecord(
        kind="train",
        method=type(model).__name__,
        settings=model.get_params(),
        seed=specification.seed,
        protocol=specification.protocol,
        data=data.describe(),
        selection=choices[0].report,
        findings=notable(findings),
        results=results[0],
        seeds=over_seeds(specification.seed, choices, results) if len(models) > 1 else {},
        history=tuple(getattr(model, "losses_", ())),
        engine=getattr(model, "engine_", ""),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return model


def adapt(
    specification: AdaptationSpecification,
    model: ZeroShotClassifier,
    data: ZeroShotDataset,
    workspace: Path,
    unlabelled: ArrayLike | None = None,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
) -> AdaptableClassifier:
    """Adapt a trained model to unlabelled images of the unseen classes.

    Parameters
    ----------
    specification : how it is adapted, and how that is chosen: ``honest``, by a rehearsal on validation classes.
    model : trained on the training images of ``data``.
    unlabelled : (m, d) images; None: the test images of the unseen classes, whose labels serve to report how many pseudo
        labels were right, and for nothing else. With images of one's own, and with ``hold_out``, the rehearsal measures on
        images that it did not adapt to.
    data, workspace, findings, hooks : as for :func:`train`.

    Returns
    -------
    AdaptableClassifier
        Another model, with its run record as ``record_``.
    """
    model = _adaptable(model)
    specification.check_data(data)
    specification.check(model)
    if unlabelled is not None and specification.hold_out:
        raise SettingsError("images are held out of the unseen classes' test images: not of those of --unlabelled.")
    if unlabelled is None and not len(data.test_unseen):
        raise DataError("there are no images of unseen classes to adapt to. Give their features (--unlabelled FILE).")
    started = time.monotonic()
    seed, grid = seed_of(model), specification.grid(type(model))
    adapted_to, measured_on = apart(data, specification.hold_out, seed)
    images = adapted_to.test_unseen.X if unlabelled is None else unlabelled
    options: dict[str, Any] = {"X_seen": data.train.X, "y_seen": data.train.y}
    if isinstance(model, GradientAdaptableClassifier):
        options |= {"hooks": hooks, "true_labels": adapted_to.test_unseen.y if unlabelled is None else None}
    fixed = dict(specification.parameters)
    if specification.protocol == "paper":
        adapted, choice = adapt_best_on_test(model, data, images, fixed, grid, workspace, options)
    else:
        choice = NO_SELECTION
        if specification.chooses:
            unmet = 0.5 if unlabelled is not None else specification.hold_out
            folds = specification.folds
            choice = choose_adaptation_on_validation(model, data, fixed, grid, folds, seed, hooks, unmet)
        adapted = model.adapt(images, data.unseen, **options, **fixed, **choice.settings)
    if choice.seen_penalty is not None:
        adapted.set_params(seen_penalty=choice.seen_penalty)
    adapted.calibration_ = choice.calibration
    held_out = {"hold_out": specification.hold_out} if specification.hold_out else {}
    parent = model.record_
    adapted.record_ = RunRecord(
        kind="adapt",
        method=type(adapted).__name__,
        settings={**adapted.get_params(), "adaptation": adapted.adaptation_, **held_out},
        seed=(adapted.adaptation_ or {}).get("seed", seed),
        protocol="paper" if "paper" in (specification.protocol, parent and parent.protocol) else "honest",
        data=data.describe(),
        selection=choice.report,
        findings=notable(findings),
        results=results_on_test(adapted, measured_on),
        history=tuple(getattr(adapted, "history_", ())),
        engine=getattr(adapted, "engine_", ""),
        parent=None if parent is None else asdict(parent),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return adapted


def results_on_test(model: ZeroShotClassifier, data: ZeroShotDataset) -> dict[str, float | None]:
    """T1, U, S, H and AUSUC in percent, and U, S, H without seen penalty; empty where the data have no test images."""
    if not len(data.test_seen) and not len(data.test_unseen):
        return {}
    return evaluate(model, data).results()


def seed_of(model: ZeroShotClassifier) -> int:
    """The seed of a fitted model; of one whose method draws nothing at random, that of the folds it was chosen on."""
    return int(getattr(model, "seed", 0 if model.record_ is None else model.record_.seed))


def over_seeds(first: int, choices: Sequence[Choice], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The results of each seed from the first up, with mean and standard deviation (of a sample: divided by n - 1)."""
    names = [name for name, value in results[0].items() if value is not None]
    columns = {name: [result[name] for result in results] for name in names}
    return {
        "seeds": [first + k for k in range(len(results))],
        "chosen": [choice.report.get("chosen", {}) for choice in choices],
        "results": list(results),
        "mean": {name: round(float(np.mean(column)), 2) for name, column in columns.items()},
        "std": {name: round(float(np.std(column, ddof=1)), 2) for name, column in columns.items()},
    }


def _choices(
    specification: TrainingSpecification, models: Sequence[ZeroShotClassifier], data: ZeroShotDataset, hooks: Sequence[Hook]
) -> list[Choice]:
    if not specification.chooses:
        return [NO_SELECTION] * len(models)
    return choose_on_validation(models, data, specification.grid, specification.folds, specification.seed, hooks)


def _adaptable(model: ZeroShotClassifier) -> AdaptableClassifier:
    if not isinstance(model, AdaptableClassifier):
        raise SettingsError(f"{type(model).__name__} has no transductive form, so it cannot be adapted.")
    return model
