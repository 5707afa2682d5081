"""Jobs of a plan as runs of the pipeline: train and, for transductive methods, adapt."""

import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sightunseen.benchmark.draws import Draw, draw_split
from sightunseen.benchmark.entries import DataEntry
from sightunseen.benchmark.variant_names import SEARCHED
from sightunseen.benchmark.variants import Job
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.files import sha256_of
from sightunseen.core.records import RunRecord
from sightunseen.methods import AdaptableClassifier, method_class
from sightunseen.methods.base.serialisation import method_name
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE, card_of
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, open_for_training, train
from sightunseen.pipeline.data import Opened
from sightunseen.selection.choice import Choice
from sightunseen.selection.search import POINTS


@lru_cache(maxsize=2)
def opened(entry: DataEntry) -> Opened:
    """Open the data set of a plan entry; the two last used are cached.

    Parameters
    ----------
    entry : DataEntry
        Data set of the plan.

    Returns
    -------
    Opened
        The data set with the findings of the split doctor.

    Raises
    ------
    DataError
        If the data cannot be read, or have no test images of seen or of unseen classes.
    """
    found = open_for_training(entry.source)
    if not (len(found.data.test_seen) and len(found.data.test_unseen)):
        raise DataError("the data need test images of seen and of unseen classes; add test_seen or test_unseen to the split.")
    return found


def data_of(job: Job) -> ZeroShotDataset:
    """Open the data of a job, with its class split; the last split that was drawn is cached.

    Parameters
    ----------
    job : Job
        Job of a plan.

    Returns
    -------
    ZeroShotDataset
        The data set of the job, or a random class split of it.

    Raises
    ------
    DataError
        If the data cannot be read, or the draw leaves fewer than two unseen classes.
    """
    return opened(job.data).data if job.draw is None else _drawn(job.data, job.draw, job.seed)


@lru_cache(maxsize=1)
def _drawn(entry: DataEntry, draw: Draw, seed: int) -> ZeroShotDataset:
    return draw_split(opened(entry).data, draw.seen, seed, draw.unequal)


def specifications_of(job: Job) -> tuple[TrainingSpecification, AdaptationSpecification | None]:
    """Translate a job into specifications of the pipeline.

    Parameters
    ----------
    job : Job
        Job of a plan.

    Returns
    -------
    training : TrainingSpecification
        How the method is trained.
    adaptation : AdaptationSpecification or None
        How the method is adapted; None for inductive methods.

    Raises
    ------
    SettingsError
        If the method does not have a hyperparameter or does not allow its value.
    """
    entry, card = job.method, card_of(job.method.name)
    how: dict[str, Any] = {
        "select": "none" if job.selection == "none" else "validation",
        "protocol": "paper" if job.selection == "oracle" else "honest",
        "folds": job.folds,
    }
    method = method_class(card.estimator)
    training = TrainingSpecification(
        method=method,
        parameters=entry.settings,
        search=entry.search,
        search_scaling=job.scaling == SEARCHED,
        seed=job.seed,
        **how,
    )
    if card.setting == INDUCTIVE:
        if entry.adaptation or entry.adaptation_search:
            raise SettingsError(
                f"adaptation is for transductive methods, and {entry.name} is inductive. Remove it, or name the -tran method."
            )
        return training, None
    if not issubclass(method, AdaptableClassifier):
        raise SettingsError(
            f"{entry.name} has no transductive form: its class is not an AdaptableClassifier. Name the method without -tran."
        )
    adaptation = AdaptationSpecification(parameters=entry.adaptation, search=entry.adaptation_search, **how)
    adaptation.check(training.estimators()[0])
    return training, adaptation


def identity_of(job: Job) -> dict[str, Any]:
    """Collect everything that determines the result of a job.

    Parameters
    ----------
    job : Job
        Job of a plan.

    Returns
    -------
    dict
        Fingerprints of the data, method with version and hyperparameters (of a plug-in also its code), search space, selection,
        seed and, for a random class split, the draw, as JSON data.
    """
    training, adaptation = specifications_of(job)
    data, card = opened(job.data).data, card_of(job.method.name)
    model = training.estimators()[0]
    identity = {
        "data": {"fingerprints": sorted(data.sources.values()), "semantics": data.classes.use},
        "method": {**_code_of(type(model)), "version": model.version, "settings": model.get_params()},
        "setting": card.setting,
        "search": training.grid,
        "adaptation": None if adaptation is None else {**adaptation.parameters, "search": adaptation.grid(type(model))},
        "selection": {"by": job.selection, "folds": job.folds, "points": POINTS},
        "seed": job.seed,
        **({} if job.draw is None else {"draw": job.draw.as_dict()}),
    }
    found: dict[str, Any] = json.loads(json.dumps(identity))  # equal to what is read back from a file
    return found


def _code_of(method: type) -> dict[str, str]:
    """Name of a method and, of a plug-in, the hash of its module: plug-ins change without a new version number."""
    name = method_name(method)
    file = sys.modules[method.__module__].__file__
    return {"name": name} if name == method.__name__ or file is None else {"name": name, "module": sha256_of(Path(file))}


def base_identity_of(identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the identity of the inductive job that a transductive job builds on.

    Parameters
    ----------
    identity : mapping
        Identity of a job.

    Returns
    -------
    dict or None
        None if the job is inductive.
    """
    if identity["setting"] != TRANSDUCTIVE:
        return None
    return {**identity, "setting": INDUCTIVE, "adaptation": None}


def carry_out(job: Job, base: Mapping[str, Any] | None = None, work: Path | None = None) -> RunRecord:
    """Run a job.

    Parameters
    ----------
    job : Job
        Job of a plan.
    base : mapping, optional
        Run record of the inductive job that a transductive job builds on. Its selected hyperparameters are reused.
    work : Path, optional
        Folder for intermediate files. Default: that of the system.

    Returns
    -------
    RunRecord
        Record of the run, with its results.
    """
    training, adaptation = specifications_of(job)
    data, findings = data_of(job), opened(job.data).findings
    chosen = None if base is None else Choice.from_report(base["selection"])
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=work) as workspace:
        model = train(training, data, Path(workspace), findings, chosen=chosen)
        if adaptation is not None:
            model = adapt(adaptation, model, data, Path(workspace), findings=findings)
    assert model.record_ is not None
    return model.record_


def record_as_dict(record: RunRecord) -> dict[str, Any]:
    """Convert a run record to plain JSON data, which can be sent to another process; NaN is a ``ValueError``."""
    found: dict[str, Any] = json.loads(record.to_json())
    return found
