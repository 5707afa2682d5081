"""The page of a model: what it learned, where it fails, and whether its results can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sightunseen.analysis.answers import Answers, ask
from sightunseen.analysis.best_images import best_images
from sightunseen.analysis.confusion import Confusion, destinations, leaks, most_confused
from sightunseen.analysis.contributions import explained_mistakes, has_names
from sightunseen.analysis.hubness import Hubness, hubness
from sightunseen.analysis.reruns import Reruns
from sightunseen.core.dataset import Split, ZeroShotDataset
from sightunseen.core.names import readable_names
from sightunseen.data.doctor import Finding
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.attribute_figures import attributes_table, mistakes_figure
from sightunseen.report.class_figures import accuracy_figure, confusion_figure, destinations_figure, hubness_figure
from sightunseen.report.curve_figures import reliability_figure, seen_unseen
from sightunseen.report.gallery import best_images_gallery
from sightunseen.report.page import Block, DataTable, Note, Page, Section, Tile
from sightunseen.report.run_sections import record_section, training_section, trust_section
from sightunseen.report.space_figures import Space, classes_figure, images_figure
from sightunseen.report.thumbnails import Photos
from sightunseen.selection.evaluation import Evaluation, evaluate

MEANINGS = {
    "T1": "unseen classes, among themselves",
    "U": "unseen classes, among all",
    "S": "seen classes, among all",
    "H": "harmonic mean of U and S",
    "AUSUC": "area under the seen-unseen curve",
}


@dataclass(frozen=True)
class Study:
    """A model and all that its page is made from; what is not there has no section."""

    title: str
    model: ZeroShotClassifier
    data: ZeroShotDataset
    findings: Sequence[Finding] = ()
    reruns: Reruns = field(default_factory=Reruns)
    spaces: Sequence[Space] = ()
    photos: Photos | None = None

    @cached_property
    def names(self) -> dict[Any, str]:
        """Every class's name for a reader."""
        return readable_names(self.data.classes.labels.tolist())

    @cached_property
    def evaluation(self) -> Evaluation:
        """The results on test data."""
        return evaluate(self.model, self.data)

    @cached_property
    def zsl(self) -> Answers:
        """Images of unseen classes, among unseen classes."""
        return self._asked(self.data.test_unseen, self.data.unseen)

    @cached_property
    def gzsl(self) -> Answers:
        """Images of unseen classes, among all classes."""
        return self._asked(self.data.test_unseen, self._all)

    @cached_property
    def seen(self) -> Answers:
        """Held-out images of seen classes, among all classes."""
        return self._asked(self.data.test_seen, self._all)

    @property
    def _all(self) -> Any:
        return np.union1d(self.data.seen, self.data.unseen)

    def _asked(self, split: Split, candidates: Any) -> Answers:
        return ask(self.model, split.X, candidates, image_names(self.data, split), split.y)


def model_page(study: Study) -> Page:
    """Make the page."""
    data, tested = study.data, len(study.data.test_unseen) > 0
    sizes = data.describe()
    subtitle = (
        f"{type(study.model).__name__} on {data.name}: {sizes['classes']['seen']} seen classes with "
        f"{sizes['images']['train']:,} training images; tested on {sizes['images']['test_unseen']:,} images of "
        f"{sizes['classes']['unseen']} unseen and {sizes['images']['test_seen']:,} of seen classes."
    )
    sections = [trust_section(study.model, study.findings, study.reruns.alike)]
    if study.evaluation.curve is not None:
        blocks = [seen_unseen(study.evaluation.curve, study.model.seen_penalty)]
        sections.append(Section("seen-and-unseen", "Seen and unseen", blocks))
    if tested:
        sections += [_classes(study), _confidence(study), _attributes(study)]
    sections.append(training_section(study.model, study.reruns))
    if study.spaces:
        figures = [classes_figure(study.spaces, data.seen, study.names), images_figure(study.spaces, study.names)]
        sections.append(Section("spaces", "Spaces", figures))
    if tested:
        gallery = best_images_gallery(best_images(study.zsl), study.names, study.photos)
        sections.append(Section("images", "Best images", [gallery]))
    sections.append(record_section(study.model))
    return Page(study.title, subtitle, _tiles(study), [section for section in sections if section.blocks])


def image_names(data: ZeroShotDataset, split: Split) -> Any:
    """The names of a split's images; the numbers of their rows where they have none."""
    return split.rows.astype(str) if data.image_names is None else data.image_names[split.rows]


def _tiles(study: Study) -> list[Tile]:
    numbers = {name: value for name, value in study.evaluation.summary().items() if value is not None}
    notes = {**MEANINGS, "T1": f"{MEANINGS['T1']}; chance {100 / max(1, len(study.data.unseen)):.1f}"}
    return [Tile(name, f"{value:.1f}", notes[name]) for name, value in numbers.items()]


def _classes(study: Study) -> Section:
    by_class, names, data = study.evaluation.by_class, study.names, study.data
    vectors = data.classes.vectors_of(study.zsl.labels)
    blocks: list[Block] = [accuracy_figure(by_class["zsl"], by_class["unseen"], names)]
    blocks.append(confusion_figure(study.zsl, vectors, names))
    see = "The pairs that most images are confused between, among unseen classes alone."
    blocks += _pairs("most-confused", "Most frequent mistakes", see, most_confused(study.zsl), study)
    blocks.append(destinations_figure(destinations(study.gzsl, data.seen), names))
    see = "The seen classes that images of unseen classes are most often taken for."
    blocks += _pairs("most-leaks", "Most frequent leaks", see, leaks(study.gzsl, data.seen), study)
    return Section("classes", "Classes", blocks)


def _pairs(name: str, title: str, see: str, found: Sequence[Confusion], study: Study) -> list[Block]:
    if not found:
        return [Note(f"{title}: none.")]
    columns: dict[str, list[Any]] = {
        "true class": [study.names[pair.truth] for pair in found],
        "answer": [study.names[pair.predicted] for pair in found],
        "images": [pair.images for pair in found],
        "% of the true class": [f"{100 * pair.share:.1f}" for pair in found],
    }
    return [DataTable(name, title, see, columns)]


def _confidence(study: Study) -> Section:
    asked = {"unseen classes, among themselves": study.zsl.reliability()}
    if len(study.data.test_seen):
        unseen, seen = study.gzsl, study.seen
        both = replace(
            unseen,
            scores=np.concatenate([unseen.scores, seen.scores]),
            names=np.concatenate([unseen.names, seen.names]),
            truth=np.concatenate([unseen.known_truth, seen.known_truth]),
        )
        asked["all classes"] = both.reliability()
    return Section(
        "confidence",
        "Confidence",
        [reliability_figure(asked), hubness_figure(_chosen(study), len(study.data.test_unseen), study.names)],
    )


def _chosen(study: Study) -> dict[str, Hubness]:
    """How often each unseen class is chosen, before and after adapting where both are known."""
    data, reruns = study.data, study.reruns

    def of(model: ZeroShotClassifier) -> Hubness:
        return hubness(ask(model, data.test_unseen.X, data.unseen))

    if reruns.before is not None:
        return {"before adapting": of(reruns.before), "after it (this model)": hubness(study.zsl)}
    if reruns.adaptation is not None:
        return {"this model": hubness(study.zsl), "adapted": of(reruns.adaptation.model)}
    return {"among unseen classes": hubness(study.zsl)}


def _attributes(study: Study) -> Section:
    if not has_names(study.data.classes):
        note = Note("The class vectors have no attribute names, so there is nothing to say about single attributes.")
        return Section("attributes", "Attributes", [note])
    X = study.data.test_unseen.X
    blocks: list[Block] = [attributes_table(study.model, study.zsl, X, study.names)]
    mistakes = [found for found in explained_mistakes(study.model, study.zsl, X) if found.contributions.names.size]
    if mistakes:
        blocks.append(mistakes_figure(mistakes, study.names))
    return Section("attributes", "Attributes", blocks)
