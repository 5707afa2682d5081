"""Opening data for a run: whatever a path leads to, examined by the split doctor, and checked against a model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data import open_data
from sightunseen.data.doctor import PASS, Finding, examine, repair, stop_on_failures, stopping
from sightunseen.data.photo_lists import is_photos
from sightunseen.data.source import DataSource
from sightunseen.features.backbones import Backbone, open_backbone
from sightunseen.features.feature_files import backbone_of
from sightunseen.features.photo_datasets import load_photos

if TYPE_CHECKING:
    from sightunseen.methods import ZeroShotClassifier

ABOUT_TRAINING = ("training-images", "classes-without-images", "test-seen-classes")

Tell = Callable[[str], None]
Watch = Callable[[Iterable[Any], int], Iterator[Any]]


@dataclass(frozen=True)
class Opened:
    """Data that may be used, with the split doctor's findings.

    ``differing`` names the files that are not those that the model at hand was trained on.
    """

    data: ZeroShotDataset
    findings: Sequence[Finding] = ()
    differing: Sequence[str] = ()


@dataclass(frozen=True)
class Progress:
    """Told lines of text, and given the batches of photos with their number, to show progress."""

    tell: Tell = lambda _line: None
    watch: Watch = lambda batches, _total: iter(batches)


QUIET = Progress()


def open_for_training(
    source: DataSource, semantics: str | None = None, allowed: Sequence[str] = (), progress: Progress = QUIET
) -> Opened:
    """Open data to train on: repair what needs no guess, and stop on any other FAIL that is not ``allowed`` by name.

    ``semantics`` are the class vectors where the source does not name any.
    """
    data = open_source(replace(source, semantics=source.semantics or semantics), None, progress)
    return _examined(data, examine(data), allowed, progress)


def open_for_model(
    source: DataSource, model: "ZeroShotClassifier", allowed: Sequence[str] = (), progress: Progress = QUIET
) -> Opened:
    """Open data to test or adapt a model on; class vectors, sizes and backbone other than the model's are refused.

    A FAIL that was allowed when the model was trained need not be allowed again.
    """
    _check_semantics(model, source.semantics)
    data = open_source(replace(source, semantics=source.semantics or model.table_.use), model, progress)
    findings = examine(data)
    if not len(data.train):  # the model has met its own training images; these data only test it
        findings = [finding for finding in findings if finding.check not in ABOUT_TRAINING]
    opened = _examined(data, findings, [*allowed, *_allowed_before(model)], progress)
    _check_sizes(model, data)
    return replace(opened, differing=_differing_sources(model, data))


def known_backbone(model: "ZeroShotClassifier | None") -> dict[str, Any] | None:
    """What a model's record says about the backbone of its features."""
    found = model.record_.data.get("backbone") if model is not None and model.record_ is not None else None
    return None if found is None else dict(found)


def open_for_photos(name: str | None, model: "ZeroShotClassifier | None" = None) -> Backbone:
    """The backbone of this name, or the one that the model was trained with."""
    own = known_backbone(model)
    if name is None and own is None:
        raise SettingsError("these are photos. Say what turns them into features, such as --backbone efficientnet_lite0")
    backbone = open_backbone(str(name or own["name"]))  # type: ignore[index]
    check_backbone(model, backbone.describe(), f"backbone {backbone.name}")
    return backbone


def check_backbone(model: "ZeroShotClassifier | None", found: Any, where: str) -> None:
    """Refuse features of another backbone, or of one with other weights or preprocessing, than the model's."""
    own = known_backbone(model)
    if own is None or found is None or own["fingerprint"] == found["fingerprint"]:
        return
    what = "other weights or preprocessing" if own["name"] == found["name"] else f"'{found['name']}'"
    raise DataError(f"the model needs features of '{own['name']}'; those of {where} are of {what}. Extract them again.")


def open_source(source: DataSource, model: "ZeroShotClassifier | None" = None, progress: Progress = QUIET) -> ZeroShotDataset:
    """Open data as they are, not yet examined; photos with the backbone that is asked for, or the model's own."""
    path = Path(source.path)
    if not is_photos(path):
        data = open_data(path, source.features, source.splits, source.semantics, source.classes)
        data = replace(data, backbone=_backbone_of_tables(path))
        check_backbone(model, data.backbone, source.path)
        return data
    backbone = open_for_photos(source.backbone, model)
    classes = model.table_ if source.classes is None and model is not None else source.classes
    seen = None if model is None else model.seen_classes_.tolist()
    return load_photos(path, backbone, classes, source.semantics or "auto", seen, progress.tell, progress.watch)


def _backbone_of_tables(path: Path) -> dict[str, Any] | None:
    """What the table of features says about its backbone; nothing in a benchmark folder."""
    tables = [path / f"features{ending}" for ending in (".npz", ".parquet")] if path.is_dir() else [path]
    return next((backbone_of(table) for table in tables if table.is_file()), None)


def _examined(data: ZeroShotDataset, found: Sequence[Finding], allowed: Sequence[str], progress: Progress) -> Opened:
    data, findings = repair(data, found)
    told_by_the_error = stopping(findings, allowed)
    for finding in findings:
        if finding.level != PASS and finding not in told_by_the_error:
            progress.tell(f"split doctor: {finding.level} {finding.check}: {finding.what} {finding.remedy}")
    stop_on_failures(findings, allowed)
    return Opened(data, findings)


def _check_semantics(model: "ZeroShotClassifier", semantics: str | None) -> None:
    trained_on = model.table_.use
    if semantics is not None and semantics not in (trained_on, trained_on.partition(":")[0]):
        raise SettingsError(
            f"the model was trained on the class vectors '{trained_on}', not '{semantics}'. Leave --semantics out."
        )


def _allowed_before(model: "ZeroShotClassifier") -> list[str]:
    findings = model.record_.findings if model.record_ else ()
    return sorted({finding["check"] for finding in findings if finding["level"] == "FAIL" and not finding["repaired"]})


def _check_sizes(model: "ZeroShotClassifier", data: ZeroShotDataset) -> None:
    pairs = {
        "features": (model.n_features_in_, data.features.shape[1]),
        "numbers in a class vector": (model.table_.vectors.shape[1], data.classes.vectors.shape[1]),
    }
    for what, (wanted, found) in pairs.items():
        if wanted != found:
            raise DataError(
                f"the model was trained with {wanted} {what}; {data.name} has {found}. Use the data it was made for."
            )


def _differing_sources(model: "ZeroShotClassifier", data: ZeroShotDataset) -> list[str]:
    trained_on = dict(model.record_.data["fingerprints"]) if model.record_ else {}
    other = sorted(name for name, found in data.sources.items() if trained_on.get(name, found) != found)
    return other + (sorted(set(data.sources) - set(trained_on)) if trained_on else [])
