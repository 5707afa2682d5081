"""Open data for a run: load them from any supported source, check them with the split doctor and against a model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.trust import check_recorded_name
from sightunseen.data import open_data
from sightunseen.data.doctor import PASS, WARN, Finding, examine, repair, stop_on_failures, stopping
from sightunseen.data.doctor.finding import some
from sightunseen.data.gbu import is_gbu_folder
from sightunseen.data.photo_lists import is_photos
from sightunseen.data.source import DataSource
from sightunseen.features.backbones import Backbone, open_backbone
from sightunseen.features.feature_files import backbone_of
from sightunseen.features.photo_datasets import load_photos
from sightunseen.semantics.describe import ENCODED

if TYPE_CHECKING:
    from sightunseen.methods import ZeroShotClassifier

ABOUT_TRAINING = (
    *("training-images", "classes-without-images", "test-seen-classes"),
    *("similar-classes", "uninformative-attributes", "hub-classes"),
)

Tell = Callable[[str], None]
Watch = Callable[[Iterable[Any], int], Iterator[Any]]


@dataclass(frozen=True)
class Opened:
    """Data that passed the split doctor, with its findings.

    Parameters
    ----------
    data : ZeroShotDataset
        The data, repaired where possible.
    findings : sequence of Finding, default=()
        All findings of the split doctor.
    differing : sequence of str, default=()
        Files that differ from those that the model was trained on.
    """

    data: ZeroShotDataset
    findings: Sequence[Finding] = ()
    differing: Sequence[str] = ()


@dataclass(frozen=True)
class Progress:
    """Callbacks that show progress.

    Parameters
    ----------
    tell : callable
        Called with lines of text. The default ignores them.
    watch : callable
        Called with the batches of photos and their number; returns an iterator over the batches, such as a progress bar.
    """

    tell: Tell = lambda _line: None
    watch: Watch = lambda batches, _total: iter(batches)


QUIET = Progress()
DEFAULT_BACKBONE = "efficientnet_lite0"  # of photos, where neither the user nor a model names one


def open_for_training(
    source: DataSource, semantics: str | None = None, allowed: Sequence[str] = (), progress: Progress = QUIET
) -> Opened:
    """Open data to train on.

    The split doctor checks the data. Unambiguous faults are repaired; any other failed check stops the run.

    Parameters
    ----------
    source : DataSource
        Path and loading options.
    semantics : str, default=None
        Name of the class vectors, if the source does not name any.
    allowed : sequence of str, default=()
        Names of failed checks to ignore.
    progress : Progress, default=QUIET
        Shows messages and progress.

    Returns
    -------
    Opened
        The data with the findings.

    Raises
    ------
    DataError
        If the data cannot be read, or if a check fails.
    MissingDependencyError
        If the data are photos and the packages of the backbone are not installed.
    """
    data = open_source(replace(source, semantics=source.semantics or semantics), None, progress)
    return _examined(data, examine(data), allowed, progress)


def open_for_model(
    source: DataSource, model: "ZeroShotClassifier", allowed: Sequence[str] = (), progress: Progress = QUIET
) -> Opened:
    """Open data to evaluate or adapt a model on, and check that they fit the model.

    Parameters
    ----------
    source : DataSource
        Path and loading options.
    model : ZeroShotClassifier
        The model; its class vectors and backbone are the default.
    allowed : sequence of str, default=()
        Names of failed checks to ignore, in addition to those ignored when the model was trained.
    progress : Progress, default=QUIET
        Shows messages and progress.

    Returns
    -------
    Opened
        The data with the findings.

    Raises
    ------
    DataError
        If the data cannot be read, if a check fails, or if numbers of features, class vectors or the backbone differ from
        those of the model.
    SettingsError
        If the source names other class vectors than the model's.
    """
    _check_semantics(model, source.semantics)
    if source.semantics is None and not (source.classes is None and is_photos(Path(source.path))):
        kind, _, encoder = model.table_.use.partition(":")
        if kind in ENCODED:  # the table of classes is encoded with the encoder that the model names
            check_recorded_name(encoder, "text encoder")
    data = open_source(replace(source, semantics=source.semantics or model.table_.use), model, progress)
    findings = examine(data)
    if not len(data.train):  # test data of a trained model need no training images
        findings = [finding for finding in findings if finding.check not in ABOUT_TRAINING]
    findings = [*findings, *_examples_of_test_classes(model, data)]
    opened = _examined(data, findings, [*allowed, *_allowed_before(model)], progress)
    _check_sizes(model, data)
    return replace(opened, differing=_differing_sources(model, data))


def known_backbone(model: "ZeroShotClassifier | None") -> dict[str, Any] | None:
    """Description of the backbone of a model's features.

    Parameters
    ----------
    model : ZeroShotClassifier or None
        The model.

    Returns
    -------
    dict or None
        The description in the model's run record; None if it has none.

    Raises
    ------
    ModelError
        If the description lacks the name or the fingerprint.
    """
    found = model.record_.data.get("backbone") if model is not None and model.record_ is not None else None
    if found is None:
        return None
    if not isinstance(found, Mapping) or not all(isinstance(found.get(key), str) for key in ("name", "fingerprint")):
        raise ModelError(
            f"the record of the model describes its backbone by {quoted(found)}; expected name and fingerprint. Copy the model "
            "folder again, or train again."
        )
    return dict(found)


def open_for_photos(name: str | None, model: "ZeroShotClassifier | None" = None, progress: Progress = QUIET) -> Backbone:
    """Open the backbone for photos.

    Parameters
    ----------
    name : str or None
        Name of the backbone. None: that of the model; without a model, efficientnet_lite0.
    model : ZeroShotClassifier, default=None
        The model that the features are for.
    progress : Progress, default=QUIET
        Shows which backbone was taken by default.

    Returns
    -------
    Backbone
        The backbone.

    Raises
    ------
    SettingsError
        If no backbone is named and the model's is unknown or could download something; see :mod:`sightunseen.core.trust`.
    MissingDependencyError
        If the packages of the backbone are not installed.
    DataError
        If the backbone differs from the model's.
    """
    own = known_backbone(model)
    if name is None and model is None:
        name = DEFAULT_BACKBONE
        progress.tell(f"backbone {name}, the default for photos (--backbone NAME for another one)")
    if name is None and own is None:
        raise SettingsError(
            "the model was trained on features of an unknown backbone, so it is not known how to embed photos. Give features: "
            "sightunseen embed PHOTOS --backbone NAME --out features.parquet, with the backbone of the training features."
        )
    if name is None:
        assert own is not None
        name = check_recorded_name(own["name"], "backbone")
    backbone = open_backbone(name)
    check_backbone(model, backbone.describe(), f"backbone {backbone.name}")
    return backbone


def check_backbone(model: "ZeroShotClassifier | None", found: Any, where: str) -> None:
    """Check that features come from the backbone of the model, with the same weights and preprocessing.

    Parameters
    ----------
    model : ZeroShotClassifier or None
        The model. Without a model, or if its backbone is unknown, nothing is checked.
    found : mapping or None
        Description of the backbone of the features; None: unknown, not checked.
    where : str
        Source of the features, for the error message.

    Raises
    ------
    DataError
        If the backbones differ.
    """
    own = known_backbone(model)
    if own is None or found is None or own["fingerprint"] == found["fingerprint"]:
        return
    what = "other weights or preprocessing" if own["name"] == found["name"] else f"'{found['name']}'"
    raise DataError(f"the model needs features of '{own['name']}'; {where} has features of {what}. Extract them again.")


def open_source(source: DataSource, model: "ZeroShotClassifier | None" = None, progress: Progress = QUIET) -> ZeroShotDataset:
    """Load data without running the split doctor.

    Parameters
    ----------
    source : DataSource
        Path and loading options.
    model : ZeroShotClassifier, default=None
        Model that the data are for; its backbone and class table are the default for photos.
    progress : Progress, default=QUIET
        Shows messages and progress.

    Returns
    -------
    ZeroShotDataset
        The data.

    Raises
    ------
    DataError
        If the data cannot be read, or if their backbone differs from the model's.
    SettingsError
        If the data are photos, no backbone is named and the model's is unknown.
    """
    path = Path(source.path)
    if not is_photos(path):
        backbone_of_features = _backbone_of_tables(path)
        semantics = _encoded_by(backbone_of_features, source.semantics, progress)
        data = open_data(path, source.features, source.splits, semantics, source.classes)
        data = replace(data, backbone=backbone_of_features)
        check_backbone(model, data.backbone, source.path)
        return data
    backbone = open_for_photos(source.backbone, model, progress)
    classes = model.table_ if source.classes is None and model is not None else source.classes
    seen = None if model is None else model.seen_classes_.tolist()
    return load_photos(path, backbone, classes, source.semantics or "auto", seen, progress.tell, progress.watch)


def _backbone_of_tables(path: Path) -> dict[str, Any] | None:
    """Description of the backbone in the metadata of a feature table; None for benchmark folders."""
    return None if is_gbu_folder(path) else backbone_of(path)


def _encoded_by(backbone: Mapping[str, Any] | None, semantics: str | None, progress: Progress) -> str | None:
    """Semantics with the text side of a dual encoder, if the features come from one and no encoder is named."""
    encoder = (backbone or {}).get("text_encoder")
    if encoder is None or semantics == "attributes" or ":" in (semantics or ""):
        return semantics
    try:
        return f"{semantics or 'auto'}:{check_recorded_name(encoder, 'text encoder')}"
    except SettingsError as error:
        if semantics is not None and semantics != "auto":
            raise
        progress.tell(f"the text side of the features' dual encoder is not used: {error}")
        return semantics


def _examined(data: ZeroShotDataset, found: Sequence[Finding], allowed: Sequence[str], progress: Progress) -> Opened:
    data, findings = repair(data, found)
    in_the_error = stopping(findings, allowed)
    for finding in findings:
        if finding.level != PASS and finding not in in_the_error:
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
    return sorted({str(each.get("check")) for each in findings if each.get("level") == "FAIL" and not each.get("repaired")})


def _examples_of_test_classes(model: "ZeroShotClassifier", data: ZeroShotDataset) -> list[Finding]:
    """Warn if the model has labelled examples of unseen test classes; from their sums it cannot tell which images they were."""
    tested = set(data.test_unseen.y.tolist())
    known = {label: count for label, count in model.example_counts.items() if label in tested}
    if not known:
        return []
    what = f"the model has labelled examples of unseen test classes: {some(f'{one} {count}' for one, count in known.items())}."
    why = "Results on these classes are those of few-shot learning, and the examples may be among the test images."
    remedy = "Test on other images than the examples, or evaluate the model as it was before they were added."
    return [Finding("examples-of-test-classes", WARN, what, why, remedy)]


def _check_sizes(model: "ZeroShotClassifier", data: ZeroShotDataset) -> None:
    pairs = {
        "features": (model.n_features_in_, data.features.shape[1]),
        "dimensions per class vector": (model.table_.vectors.shape[1], data.classes.vectors.shape[1]),
    }
    for what, (wanted, found) in pairs.items():
        if wanted != found:
            raise DataError(f"the model was trained with {wanted} {what}; {data.name} has {found}. Use data of the same kind.")


def _differing_sources(model: "ZeroShotClassifier", data: ZeroShotDataset) -> list[str]:
    recorded = model.record_.data.get("fingerprints") if model.record_ else None
    trained_on = recorded if isinstance(recorded, Mapping) else {}
    other = sorted(name for name, found in data.sources.items() if trained_on.get(name, found) != found)
    return other + (sorted(set(data.sources) - set(trained_on)) if trained_on else [])
