"""A job of a plan as runs of the pipeline: train and, where the method is transductive, adapt."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sightunseen.benchmark.plan import DataEntry, Job
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.records import RunRecord
from sightunseen.methods import METHODS
from sightunseen.methods.catalogue import CARDS, INDUCTIVE, TRANSDUCTIVE
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, open_for_training, train
from sightunseen.pipeline.data import Opened
from sightunseen.selection.choice import Choice
from sightunseen.selection.search import POINTS


@lru_cache(maxsize=2)
def opened(entry: DataEntry) -> Opened:
    """The data set of an entry, which must have test images of seen and unseen classes."""
    found = open_for_training(entry.source)
    if not (len(found.data.test_seen) and len(found.data.test_unseen)):
        raise DataError("a benchmark needs test images of seen and of unseen classes, and these data lack some.")
    return found


def specifications_of(job: Job) -> tuple[TrainingSpecification, AdaptationSpecification | None]:
    """How the job's method is trained and, if it is transductive, adapted; unknown hyperparameters are an error."""
    entry, card = job.method, CARDS[job.method.name]
    how: dict[str, Any] = {
        "select": "none" if job.selection == "none" else "validation",
        "protocol": "paper" if job.selection == "oracle" else "honest",
        "folds": job.folds,
    }
    method = METHODS[card.estimator]
    training = TrainingSpecification(method=method, parameters=entry.settings, search=entry.search, seed=job.seed, **how)
    if card.setting == INDUCTIVE:
        if entry.adaptation or entry.adaptation_search:
            raise SettingsError(f"{entry.name} is not adapted, so it has no adaptation; its transductive form may have one.")
        return training, None
    parameters = {**card.adaptation, **entry.adaptation}
    adaptation = AdaptationSpecification(parameters=parameters, search=entry.adaptation_search, **how)
    adaptation.check(training.estimators()[0])
    return training, adaptation


def identity_of(job: Job) -> dict[str, Any]:
    """All that changes the answer of a job: data by content, method with its version and hyperparameters, seed, selection."""
    training, adaptation = specifications_of(job)
    data, card = opened(job.data).data, CARDS[job.method.name]
    model = training.estimators()[0]
    identity = {
        "data": {"fingerprints": sorted(data.sources.values()), "semantics": data.classes.use},
        "method": {"name": card.estimator, "version": model.version, "settings": model.get_params()},
        "setting": card.setting,
        "search": training.grid,
        "adaptation": None if adaptation is None else {**adaptation.parameters, "search": adaptation.grid(type(model))},
        "selection": {"by": job.selection, "folds": job.folds, "points": POINTS},
        "seed": job.seed,
    }
    found: dict[str, Any] = json.loads(json.dumps(identity))  # as it will be read back
    return found


def base_identity_of(identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The identity of the inductive job whose choice a transductive job begins with; None for an inductive one."""
    if identity["setting"] != TRANSDUCTIVE:
        return None
    return {**identity, "setting": INDUCTIVE, "adaptation": None}


def carry_out(job: Job, base: Mapping[str, Any] | None = None) -> RunRecord:
    """Run a job; its run record.

    ``base`` is the record of the inductive job that a transductive one begins with, where that is done already: what was
    chosen there need not be chosen again.
    """
    training, adaptation = specifications_of(job)
    data, findings = opened(job.data).data, opened(job.data).findings
    chosen = None if base is None else Choice.from_report(base["selection"])
    with TemporaryDirectory() as workspace:
        model = train(training, data, Path(workspace), findings, chosen=chosen)
        if adaptation is not None:
            model = adapt(adaptation, model, data, Path(workspace), findings=findings)
    assert model.record_ is not None
    return model.record_


def record_as_dict(record: RunRecord) -> dict[str, Any]:
    """A record as plain JSON data, which goes from one process to another."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return found
