"""Page on a model: its results, its mistakes and how far the results can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers, ask
from sightunseen.analysis.confusion import Confusion, destinations, leaks, most_confused
from sightunseen.analysis.hubness import Hubness, hubness
from sightunseen.analysis.reruns import Reruns
from sightunseen.core.dataset import Split, ZeroShotDataset
from sightunseen.core.metrics import METRICS
from sightunseen.core.names import readable_names
from sightunseen.data.doctor import Finding
from sightunseen.methods import ZeroShotClassifier
from sightunseen.pipeline.results import called
from sightunseen.report.attribute_figures import reasons_blocks
from sightunseen.report.class_figures import accuracy_figure, destinations_figure, hubness_figure, seen_accuracy_figure
from sightunseen.report.confusion_figures import confusion_figure
from sightunseen.report.curve_figures import reliability_figure, seen_unseen
from sightunseen.report.figures import columns_of
from sightunseen.report.gallery import best_images_gallery, mistakes_gallery
from sightunseen.report.page import Block, DataTable, Note, Page, Section, Tile
from sightunseen.report.run_sections import record_section, training_section, trust_section
from sightunseen.report.space_figures import Space, classes_figure, images_figure
from sightunseen.report.thumbnails import Photos
from sightunseen.selection.evaluation import Evaluation, evaluate
from sightunseen.selection.verdict import verdict


@dataclass(frozen=True)
class ModelReport:
    """A model, its test data and further material for its page.

    Parameters
    ----------
    title : str
        Title of the page.
    model : ZeroShotClassifier
        A fitted model.
    data : ZeroShotDataset
        Data with test images.
    findings : sequence of Finding, default=()
        Findings of the split doctor on the data.
    reruns : Reruns
        Repeated training and adaptation; by default none.
    spaces : sequence of Space, default=()
        Embeddings of the joint embedding spaces to draw.
    photos : Photos, default=None
        Photos of the images; by default images are shown by name.
    """

    title: str
    model: ZeroShotClassifier
    data: ZeroShotDataset
    findings: Sequence[Finding] = ()
    reruns: Reruns = field(default_factory=Reruns)
    spaces: Sequence[Space] = ()
    photos: Photos | None = None

    @cached_property
    def names(self) -> dict[Any, str]:
        """Readable names of all classes."""
        added = np.setdiff1d(self.model.classes_, self.data.classes.labels)  # by ``classes add``
        return readable_names([*self.data.classes.labels.tolist(), *added.tolist()])

    @cached_property
    def evaluation(self) -> Evaluation:
        """Results on the test images."""
        return evaluate(self.model, self.data)

    @cached_property
    def zsl(self) -> Answers:
        """Predictions for test images of unseen classes, among unseen classes."""
        return self._answers(self.data.test_unseen, self.data.unseen)

    @cached_property
    def gzsl(self) -> Answers:
        """Predictions for test images of unseen classes, among all classes."""
        return self._answers(self.data.test_unseen, np.union1d(self.data.seen, self.data.unseen))

    @cached_property
    def seen(self) -> Answers:
        """Predictions for test images of seen classes, among all classes."""
        return self._answers(self.data.test_seen, np.union1d(self.data.seen, self.data.unseen))

    @cached_property
    def both(self) -> Answers:
        """Predictions for all test images, among all classes."""
        parts = [self.gzsl] if len(self.data.test_unseen) else []
        parts += [self.seen] if len(self.data.test_seen) else []
        return replace(
            parts[0],
            scores=np.concatenate([part.scores for part in parts]),
            names=np.concatenate([part.names for part in parts]),
            truth=np.concatenate([part.known_truth for part in parts]),
        )

    def _answers(self, split: Split, candidates: Any) -> Answers:
        return ask(self.model, split.X, candidates, image_names(self.data, split), split.y)


def model_page(report: ModelReport) -> Page:
    """Create the page on a model.

    Parameters
    ----------
    report : ModelReport
        The model and its data; sections without material are left out.

    Returns
    -------
    Page
        The page.

    Raises
    ------
    DataError
        If the data have no test images.
    """
    data, tested = report.data, len(report.data.test_unseen) > 0
    sizes = data.describe()
    subtitle = (
        f"{type(report.model).__name__} on {data.name}: {sizes['classes']['seen']} seen classes with "
        f"{sizes['images']['train']:,} training images; tested on {sizes['images']['test_unseen']:,} images of "
        f"{sizes['classes']['unseen']} unseen and {sizes['images']['test_seen']:,} of seen classes."
    )
    sections = [trust_section(report.model, report.findings, report.reruns.agreement)]
    if report.evaluation.curve is not None:
        blocks = [seen_unseen(report.evaluation.curve, report.model.seen_penalty)]
        sections.append(Section("seen-and-unseen", "Seen and unseen", blocks))
    sections.append(_classes(report))
    if tested:
        sections += [_confidence(report), _attributes(report)]
    sections.append(training_section(report.model, report.reruns))
    if report.spaces:
        figures = [classes_figure(report.spaces, data.seen, report.names), images_figure(report.spaces, report.names)]
        sections.append(Section("spaces", "Spaces", figures))
    galleries: list[Block] = [mistakes_gallery(report.both, report.names, report.photos)]
    if tested:
        galleries.insert(0, best_images_gallery(report.zsl, report.names, report.photos))
    sections += [Section("images", "Images", galleries), record_section(report.model)]
    shown = [section for section in sections if section.blocks]
    return Page(report.title, subtitle, _tiles(report), shown, _verdict(report))


def image_names(data: ZeroShotDataset, split: Split) -> Any:
    """Names of the images of a split, shape (n,); row numbers if the data have no names."""
    return split.rows.astype(str) if data.image_names is None else data.image_names[split.rows]


def _tiles(report: ModelReport) -> list[Tile]:
    results = {name: value for name, value in report.evaluation.summary().items() if value is not None}
    notes = {name: METRICS[name].definition for name in results}
    if "T1" in notes:
        notes["T1"] += f" (%); chance {100 / max(1, len(report.data.unseen)):.1f}"
    intervals = {name: f"{low:.1f} to {high:.1f}" for name, (low, high) in report.evaluation.intervals.items()}
    return [Tile(name, f"{value:.1f}", notes[name], intervals.get(name, "")) for name, value in results.items()]


def _verdict(report: ModelReport) -> tuple[str, ...]:
    """The verdict of the run record; on other test images than those of the record, that of this evaluation."""
    record, found = report.model.record_, report.evaluation.summary()
    if record is not None and record.verdict and {name: record.results.get(name) for name in found} == found:
        return record.verdict
    return verdict(report.evaluation, {} if record is None else record.selection, called(report.data))


def _classes(report: ModelReport) -> Section:
    by_class, names, data = report.evaluation.by_class, report.names, report.data
    of_seen = [seen_accuracy_figure(by_class["seen"], names)] if len(data.test_seen) else []
    if not len(data.test_unseen):
        return Section("classes", "Classes", of_seen)
    mistakes = "Pairs of classes with most confused test images of unseen classes; only unseen classes are candidates."
    leaked = "Pairs of an unseen and a seen class with most test images of the former predicted as the latter."
    blocks: list[Block] = [
        accuracy_figure(by_class["zsl"], by_class["unseen"], names),
        *of_seen,
        confusion_figure(report.zsl, data.classes.vectors_of(report.zsl.labels), names),
        _pairs("most-confused", "Most frequent confusions", mistakes, most_confused(report.zsl), names),
        destinations_figure(destinations(report.gzsl, data.seen), names),
        _pairs("most-leaks", "Most frequent confusions with seen classes", leaked, leaks(report.gzsl, data.seen), names),
    ]
    return Section("classes", "Classes", blocks)


def _pairs(name: str, title: str, caption: str, found: Sequence[Confusion], names: dict[Any, str]) -> Block:
    if not found:
        return Note(f"{title}: none.")
    rows = [(names[pair.truth], names[pair.predicted], pair.images, f"{100 * pair.share:.1f}") for pair in found]
    heads = ("true class", "predicted class", "images", "% of the true class")
    return DataTable(name, title, caption, columns_of(heads, rows))


def _confidence(report: ModelReport) -> Section:
    found = {"unseen classes": report.zsl.reliability()}
    if len(report.data.test_seen):
        found["all classes"] = report.both.reliability()
    hubs = hubness_figure(_hubs(report), len(report.data.test_unseen), report.names)
    return Section("confidence", "Confidence", [reliability_figure(found), hubs])


def _hubs(report: ModelReport) -> dict[str, Hubness]:
    """Hubness among unseen classes, before and after adaptation if both models are known."""
    data, reruns = report.data, report.reruns

    def of(model: ZeroShotClassifier) -> Hubness:
        return hubness(ask(model, data.test_unseen.X, data.unseen))

    if reruns.before is not None:
        return {"before adaptation": of(reruns.before), "this model": hubness(report.zsl)}
    if reruns.adaptation is not None:
        return {"this model": hubness(report.zsl), "after adaptation": of(reruns.adaptation.model)}
    return {"this model": hubness(report.zsl)}


def _attributes(report: ModelReport) -> Section:
    blocks = reasons_blocks(report.model, report.zsl, report.data.test_unseen.X, report.names)
    return Section("attributes", "Reasons", blocks)
