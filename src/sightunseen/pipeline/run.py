"""Train or adapt a model from a specification: select, fit on all seen classes, calibrate, evaluate once, record."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from sightunseen.core.dataset import ZeroShotDataset, apart
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.records import RunRecord
from sightunseen.data.doctor import Finding, notable
from sightunseen.methods import AdaptableClassifier, GradientAdaptableClassifier, ZeroShotClassifier
from sightunseen.pipeline.results import over_seeds, tested, told
from sightunseen.pipeline.specification import AdaptationSpecification, AutomaticSpecification, TrainingSpecification
from sightunseen.pipeline.zero_shot import with_zero_shot
from sightunseen.selection.auto import choose_method
from sightunseen.selection.choice import NO_SELECTION, Choice
from sightunseen.selection.on_test import adapt_best_on_test, fit_best_on_test
from sightunseen.selection.on_validation import choose_adaptation_on_validation, choose_on_validation
from sightunseen.selection.search import fit_chosen, of_seed
from sightunseen.training import Hook

FINAL_STAGE = "training on all seen classes"


def train(
    specification: TrainingSpecification | AutomaticSpecification,
    data: ZeroShotDataset,
    workspace: Path,
    findings: Iterable[Finding] = (),
    hooks: Sequence[Hook] = (),
    chosen: Choice | None = None,
) -> ZeroShotClassifier:
    """Train a model.

    Parameters
    ----------
    specification : TrainingSpecification or AutomaticSpecification
        Method, hyperparameters and selection; or that the method is chosen as well, by
        :func:`~sightunseen.selection.auto.choose_method`.
    data : ZeroShotDataset
        Data that passed the split doctor.
    workspace : Path
        Folder for intermediate files that must survive an interruption. The caller removes it when the model is saved.
    findings : iterable of Finding, default=()
        Findings of the split doctor, for the run record.
    hooks : sequence of Hook, default=()
        Called during gradient training.
    chosen : Choice, default=None
        Result of an earlier selection with the same specification; it is not repeated.

    Returns
    -------
    ZeroShotClassifier
        The fitted model with its run record as ``record_``. With several seeds the model of the first seed; its record has
        the results of all.

    Raises
    ------
    DataError
        If the data have too few classes or images for the selection, or lack the test images of protocol ``paper``.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ESZSL
    >>> model = train(TrainingSpecification(method=ESZSL, search={}, folds=1), make_world(World()), Path(mkdtemp()))
    >>> model.record_.protocol, model.record_.selection["by"]
    ('honest', 'H on validation classes')
    """
    if isinstance(specification, AutomaticSpecification):
        return _train_chosen_method(specification, data, workspace, findings, hooks)
    specification.check_data(data)
    started = time.monotonic()
    models = specification.estimators()
    stages = [FINAL_STAGE + of_seed(models, k) for k in range(len(models))]
    if specification.protocol == "paper" and chosen is None:
        found = fit_best_on_test(models, data, specification.grid, workspace, stages, hooks)
        models, choices = [model for model, _ in found], [choice for _, choice in found]
    else:
        choices = [chosen or NO_SELECTION] * len(models)
        if specification.chooses and chosen is None:
            choices = choose_on_validation(models, data, specification.grid, specification.folds, specification.seed, hooks)
        fit_chosen(models, choices, [data] * len(models), stages, hooks)
    model, first = models[0], tested(models[0], data)
    results = [{} if found is None else found.results() for found in (first, *(tested(one, data) for one in models[1:]))]
    seeds = over_seeds(specification.seed, choices, results)
    record = RunRecord(
        kind="train",
        method=type(model).__name__,
        settings=model.get_params(),
        seed=specification.seed,
        protocol=specification.protocol,
        data=data.describe(),
        findings=notable(findings),
        **told(first, choices[0].report, data, specification.protocol, seeds=seeds),
        history=tuple(getattr(model, "losses_", ())),
        engine=getattr(model, "engine_", ""),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    model.record_ = with_zero_shot(record, data)
    return model


def _train_chosen_method(
    specification: AutomaticSpecification,
    data: ZeroShotDataset,
    workspace: Path,
    findings: Iterable[Finding],
    hooks: Sequence[Hook],
) -> ZeroShotClassifier:
    """Choose a method and train with it; the record has the comparison as ``selection["methods"]``."""
    started = time.monotonic()
    found = choose_method(specification.candidates(), data, specification.folds, specification.seed)
    chosen = found.choice if specification.n_seeds == 1 else None  # every seed has hyperparameters of its own
    model = train(specification.using(found.name), data, workspace, findings, hooks, chosen)
    assert model.record_ is not None
    selection = {**model.record_.selection, "methods": found.report}
    model.record_ = replace(model.record_, selection=selection, wall_seconds=round(time.monotonic() - started, 1))
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
    """Adapt a trained model to unlabelled images of the unseen classes (transductive learning).

    Parameters
    ----------
    specification : AdaptationSpecification
        Hyperparameters and selection. Protocol ``honest`` chooses by rehearsing the adaptation on validation classes.
    model : ZeroShotClassifier
        Model that was trained on the training images of ``data``; it is not changed.
    data, workspace, findings, hooks
        See :func:`train`.
    unlabelled : array-like of shape (m, d), default=None
        Features of the images to adapt to. None: the test images of the unseen classes, whose labels only serve to report
        how many pseudo-labels are correct. If images are given, or if ``hold_out`` is set, the rehearsal evaluates on images
        that it did not adapt to.

    Returns
    -------
    AdaptableClassifier
        The adapted model with its run record as ``record_``.

    Raises
    ------
    SettingsError
        If the method cannot be adapted, if a hyperparameter is unknown or not allowed, or if ``hold_out`` is combined with
        ``unlabelled``.
    DataError
        If there are no images to adapt to.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import Foresight
    >>> data, folder = make_world(World()), Path(mkdtemp())
    >>> model = train(TrainingSpecification(method=Foresight, select="none"), data, folder)
    >>> adapted = adapt(AdaptationSpecification(select="none"), model, data, folder)
    >>> adapted.record_.kind, adapted.record_.parent["kind"]
    ('adapt', 'train')
    """
    if not isinstance(model, AdaptableClassifier):
        raise SettingsError(f"{type(model).__name__} has no transductive form, so it cannot be adapted.")
    specification.check_data(data)
    specification.check(model)
    if unlabelled is not None and specification.hold_out:
        raise SettingsError("test images of unseen classes cannot be held out if --unlabelled gives the images to adapt to.")
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
            hold_out = 0.5 if unlabelled is not None else specification.hold_out
            choice = choose_adaptation_on_validation(model, data, fixed, grid, specification.folds, seed, hooks, hold_out)
        adapted = model.adapt(images, data.unseen, **options, **fixed, **choice.settings)
    warned = [*choice.report.get("warnings", ()), *_doubts(adapted)]
    if choice.seen_penalty is not None:
        adapted.set_params(seen_penalty=choice.seen_penalty)
    adapted.calibration_ = choice.calibration
    held_out = {"hold_out": specification.hold_out} if specification.hold_out else {}
    parent = model.record_
    protocol = "paper" if "paper" in (specification.protocol, parent and parent.protocol) else "honest"
    report = {**choice.report, **({"warnings": warned} if warned else {})}
    adapted.record_ = RunRecord(
        kind="adapt",
        method=type(adapted).__name__,
        settings={**adapted.get_params(), "adaptation": adapted.adaptation_, **held_out},
        seed=(adapted.adaptation_ or {}).get("seed", seed),
        protocol=protocol,
        data=data.describe(),
        findings=notable(findings),
        **told(tested(adapted, measured_on), report, measured_on, protocol, before=tested(model, measured_on)),
        history=tuple(getattr(adapted, "history_", ())),
        engine=getattr(adapted, "engine_", ""),
        parent=None if parent is None else asdict(parent),
        wall_seconds=round(time.monotonic() - started, 1),
    )
    return adapted


def _doubts(adapted: AdaptableClassifier) -> list[str]:
    """Name pairs of classes that the adapted model may have exchanged, if the method knows them."""
    pairs = getattr(adapted, "ambiguous_pairs_", [])
    if not pairs:
        return []
    named = ", ".join(f"{one} and {other}" for one, other in pairs[:5]) + (" and others" if len(pairs) > 5 else "")
    return [
        f"the class vectors hardly tell {named} apart, so the adapted model may have exchanged them. Add attributes or words "
        "that distinguish them, or a few labelled images (sightunseen classes add --photos)."
    ]


def seed_of(model: ZeroShotClassifier) -> int:
    """Seed of a fitted model.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.

    Returns
    -------
    int
        Its parameter ``seed``. Of a method without one, the seed of the class folds in its run record; 0 without a record.
    """
    return int(getattr(model, "seed", 0 if model.record_ is None else model.record_.seed))
