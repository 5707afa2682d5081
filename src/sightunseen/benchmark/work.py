"""What a job does: open its data, choose, fit, adapt where it is transductive, and evaluate once."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from sightunseen.benchmark.plan import DataEntry, Job
from sightunseen.catalogue import CARDS, INDUCTIVE, TRANSDUCTIVE
from sightunseen.data import open_data
from sightunseen.data.doctor import Finding, examine, notable, repair, stop_on_failures
from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import DataError, SettingsError
from sightunseen.evaluation import evaluate
from sightunseen.methods import METHODS, AdaptableClassifier, ZeroShotClassifier
from sightunseen.metrics import harmonic_mean
from sightunseen.records import RunRecord
from sightunseen.selection import Fixed, OnTestData, OnValidationClasses, Selection
from sightunseen.trials import Choice, fit_together

POINTS = 5  # along training at which a model is measured: half as many as in a single run, for half the time


@lru_cache(maxsize=2)
def opened(entry: DataEntry) -> tuple[ZeroShotDataset, tuple[Finding, ...]]:
    """The data set of an entry, repaired where that needs no guess, with what the split doctor found."""
    data = open_data(entry.path, entry.features, entry.splits, entry.semantics, entry.classes)
    data, findings = repair(data, examine(data))
    stop_on_failures(findings, ())
    if not (len(data.test_seen) and len(data.test_unseen)):
        raise DataError("a benchmark needs test images of seen and of unseen classes, and these data lack some.")
    return data, tuple(findings)


def identity_of(job: Job) -> dict[str, Any]:
    """All that changes the answer of a job: data by content, method with its version and every setting, seed, selection."""
    _check_names(job)
    data, _ = opened(job.data)
    model, card = _model(job), CARDS[job.method.name]
    transductive = card.setting == TRANSDUCTIVE
    identity = {
        "data": {"fingerprints": sorted(data.sources.values()), "semantics": data.classes.use},
        "method": {"name": card.estimator, "version": model.version, "settings": model.get_params()},
        "setting": card.setting,
        "search": _search(job),
        "adaptation": {**_adaptation(job), "search": _adaptation_search(job)} if transductive else None,
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
    """Do a job; the record of what came out.

    ``base`` is the record of the inductive job that a transductive one begins with, where that is done already: what was
    chosen there need not be chosen again.
    """
    started = time.monotonic()
    data, findings = opened(job.data)
    model, selection = _model(job), _selection(job)
    choice = selection.choose([model], data, _search(job))[0] if base is None else _choice_of(base, job)
    fit_together([model], [choice], [data], ["training"])
    report = dict(choice.report)
    if CARDS[job.method.name].setting == TRANSDUCTIVE:
        model, report["adaptation"] = _adapted(model, job, data, selection)
    return RunRecord(
        kind="benchmark",
        method=type(model).__name__,
        settings=model.get_params(),
        seed=job.seed,
        protocol="paper" if job.selection == "oracle" else "honest",
        data=data.describe(),
        selection=report,
        findings=notable(findings),
        results=_results(model, data),
        engine=getattr(model, "engine_", ""),
        wall_seconds=round(time.monotonic() - started, 1),
    )


def _check_names(job: Job) -> None:
    """Refuse settings that the method does not have, before any job is begun."""
    entry, card = job.method, CARDS[job.method.name]
    kind = METHODS[card.estimator]
    _refuse_unknown(entry.name, {*entry.settings, *(entry.search or {})}, kind._get_param_names())
    adaptable = issubclass(kind, AdaptableClassifier) and card.setting == TRANSDUCTIVE
    known = kind.adaptation_settings() if adaptable else []
    _refuse_unknown(f"adapting {entry.name}", {*entry.adaptation, *(entry.adaptation_search or {})}, known)


def _refuse_unknown(what: str, given: set[str], known: Sequence[str]) -> None:
    unknown = sorted(given - set(known))
    if unknown:
        raise SettingsError(f"{what} has no setting '{unknown[0]}'; it has {', '.join(known) or 'none'}.")


def _model(job: Job) -> ZeroShotClassifier:
    kind = METHODS[CARDS[job.method.name].estimator]
    model = kind(**job.method.settings)
    return model.set_params(seed=job.seed) if "seed" in kind._get_param_names() else model


def _selection(job: Job) -> Selection:
    selections: dict[str, Selection] = {
        "fixed": Fixed(),
        "validation": OnValidationClasses(job.folds, POINTS, job.seed),
        "oracle": OnTestData(POINTS),
    }
    return selections[job.selection]


def _choice_of(base: Mapping[str, Any], job: Job) -> Choice:
    report = base["selection"]
    chosen = report.get("chosen", {})
    settings = {name: chosen[name] for name in _search(job) if name in chosen}
    return Choice(settings, chosen.get("seen_penalty"), chosen.get("tasks"), report)


def _search(job: Job) -> dict[str, list[Any]]:
    """The settings to choose among: the method's own, without those that the plan fixes, or the plan's."""
    space = METHODS[CARDS[job.method.name].estimator].search_space if job.method.search is None else job.method.search
    return {name: list(values) for name, values in space.items() if name not in job.method.settings}


def _adaptation(job: Job) -> dict[str, Any]:
    return {**CARDS[job.method.name].adaptation, **job.method.adaptation}


def _adaptation_search(job: Job) -> dict[str, list[Any]]:
    kind = METHODS[CARDS[job.method.name].estimator]
    assert issubclass(kind, AdaptableClassifier)
    space = kind.adaptation_space if job.method.adaptation_search is None else job.method.adaptation_search
    return {name: list(values) for name, values in space.items() if name not in _adaptation(job)}


def _adapted(
    model: ZeroShotClassifier, job: Job, data: ZeroShotDataset, selection: Selection
) -> tuple[ZeroShotClassifier, dict[str, Any]]:
    """The model adapted to the unseen test images, without their labels, and how that was chosen."""
    assert isinstance(model, AdaptableClassifier)
    settings = _adaptation(job)
    choice = selection.choose_adaptation(model, data, settings, _adaptation_search(job))
    adapted = model.adapt(data.test_unseen.X, data.unseen, **{**settings, **choice.settings})
    if choice.seen_penalty is not None:
        adapted.set_params(seen_penalty=choice.seen_penalty)
    return adapted, {**choice.report, "settings": {**settings, **choice.settings}}


def _results(model: ZeroShotClassifier, data: ZeroShotDataset) -> dict[str, float | None]:
    """The five numbers in percent; and U, S and H without the penalty on seen classes, as most papers report them."""
    evaluation = evaluate(model, data)
    assert evaluation.curve is not None
    unseen, seen = evaluation.curve.at(-model.seen_penalty)
    plain = {"U_plain": unseen, "S_plain": seen, "H_plain": harmonic_mean(unseen, seen)}
    return {**evaluation.summary(), **{name: round(100 * value, 2) for name, value in plain.items()}}


def record_as_dict(record: RunRecord) -> dict[str, Any]:
    """A record as plain JSON data, which goes from one process to another."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return found
