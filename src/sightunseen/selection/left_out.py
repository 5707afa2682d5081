"""Selection on many class folds for methods that leave classes out in closed form."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightunseen.core.arrays import Doubles
from sightunseen.core.calibration import Calibration, calibrate
from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import Split, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.metrics import harmonic_mean, per_class_accuracy
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.core.rows import CollectedRows, Indices
from sightunseen.core.seen_unseen import seen_unseen_curve
from sightunseen.methods import LeaveClassesOut
from sightunseen.selection.choice import CRITERIA, Choice, Grid, choice_of, combinations
from sightunseen.selection.folds import NO_HELD_OUT_IMAGES, enough_folds
from sightunseen.selection.search import mean_of, over_folds

BY = "T1 + H"
ENOUGH_CLASSES = 200  # left-out classes in all folds together, within these numbers of folds:
FEWEST_FOLDS, MOST_FOLDS = 16, 40
IMAGE_SPLITS = 2  # statistics of the training images are computed for each; the folds take turns
MOST_IMAGES = 2000  # held-out images of an image split; of every class at most an equal share, but at least 5
MOST_CLASSES = 500  # seen classes that take part; the time of a combination grows with the cube of their number
CALIBRATED_FOLDS = 8  # folds that temperature and rejection threshold are fitted to


def choose_left_out(
    model: LeaveClassesOut,
    data: ZeroShotDataset,
    grid: Grid,
    n_folds: int | None = None,
    seed: int = 0,
    shared: dict[str, Any] | None = None,
) -> Choice:
    """Choose hyperparameters, seen penalty and calibration by T1 + H on many random class folds.

    Each fold leaves out as large a share of the seen classes as the unseen classes are of all classes. T1 and H together are
    steadier than H alone if classes are few.

    Parameters
    ----------
    model : LeaveClassesOut
        An unfitted model.
    data : ZeroShotDataset
        The data; test images are not used.
    grid : mapping of str to sequence
        The values to choose among.
    n_folds : int, default=None
        Number of class folds. None: as many as leave out 200 classes in total, but 16 to 40.
    seed : int, default=0
        Seed of the folds, of the held-out images and, if there are more than 500 seen classes, of those that take part.
    shared : dict, default=None
        Cache of sums over the training images; see :meth:`~sightunseen.methods.LeaveClassesOut.training_images`.

    Returns
    -------
    Choice
        The choice, with its report.

    Raises
    ------
    DataError
        If there are fewer than 4 seen classes, or if every class has a single image.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import Foresight
    >>> choice = choose_left_out(Foresight(), make_world(World()), {"noise": [0.1, 1.0]}, n_folds=4)
    >>> sorted(choice.parameters)
    ['noise', 'seen_penalty']
    """
    among = _drawn(data.seen, seed)
    if n_folds is None:
        n_folds = enough_folds(len(data.drawn_classes(0, seed, among)), ENOUGH_CLASSES, FEWEST_FOLDS, MOST_FOLDS)
    left_out = {k: data.drawn_classes(k, seed, among) for k in range(n_folds)}
    parameters = combinations(grid)
    rehearsal = _Rehearsal(model, data, among, parameters, seed, {} if shared is None else shared)
    measured: list[dict[int, dict[str, Any]]] = [{} for _ in parameters]
    for c, k, scored in rehearsal.scored(left_out, parameters):
        measured[c][k] = scored.measured()
    used = {k: left_out[k] for k in sorted(measured[0])}
    if not used:
        raise DataError(NO_HELD_OUT_IMAGES)
    tried: list[dict[str, Any]] = []
    for settings, by_fold in zip(parameters, measured, strict=True):
        tried.append({"settings": settings, "points": [over_folds([by_fold[k] for k in used])]})
    best = max(tried, key=lambda entry: CRITERIA[BY](entry["points"][0]))
    penalty = best["points"][0]["best_penalty"]
    few = rehearsal.scored(dict(list(used.items())[:CALIBRATED_FOLDS]), [best["settings"]])
    calibration = mean_of([vars(scored.calibrated(penalty)) for _, _, scored in few])
    sizes = [{"training_classes": len(among) - len(block), "validation_classes": len(block)} for block in used.values()]
    return choice_of(best, tried, sizes, BY, calibration)


class _Scored:
    """Scores of held-out images in one fold."""

    def __init__(self, scores: Doubles, truth: Labels, candidates: Labels, unseen: Labels) -> None:
        # Classes by their indices: comparing numbers is faster than comparing texts.
        self.scores, self.truth, self.candidates = scores, np.searchsorted(candidates, truth), np.arange(len(candidates))
        self.unseen = np.searchsorted(candidates, unseen)
        self.column_unseen, self.image_unseen = np.isin(self.candidates, self.unseen), np.isin(self.truth, self.unseen)

    def measured(self) -> dict[str, Any]:
        """T1, AUSUC, and the seen penalty with the best H, in percent; the seen-unseen curve."""
        among_unseen = self.scores[np.ix_(self.image_unseen, self.column_unseen)].argmax(axis=1)
        predicted = self.candidates[self.column_unseen][among_unseen]
        curve = seen_unseen_curve(self.scores, self.truth, self.candidates, self.candidates[~self.column_unseen])
        penalty = curve.best_bonus()
        return {
            "T1": 100 * per_class_accuracy(self.truth[self.image_unseen], predicted),
            "AUSUC": 100 * curve.area,
            "best_penalty": penalty,
            "H_at_best_penalty": 100 * harmonic_mean(*curve.at(penalty)),
            "curve": curve,
        }

    def calibrated(self, seen_penalty: float) -> Calibration:
        """Temperature and rejection threshold at a seen penalty."""
        scores = self.scores - seen_penalty * ~self.column_unseen
        return calibrate(scores, self.truth, self.candidates, self.unseen)


class _Rehearsal:
    """Held-out images of the seen classes, and the training images without them."""

    def __init__(
        self,
        model: LeaveClassesOut,
        data: ZeroShotDataset,
        among: Labels,
        parameters: Sequence[Mapping[str, Any]],
        seed: int,
        shared: dict[str, Any],
    ) -> None:
        self.model, self.classes, self.labels = model, data.classes.only(among), among
        most = max(5, MOST_IMAGES // len(among))
        parts = [data.held_out_images(among, derive_seed(seed, "left-out images", k))[1] for k in range(IMAGE_SPLITS)]
        self.rows = [_positions(data.train_rows, _capped(part, most).rows) for part in parts]
        # The held-out images are collected while the training images are read.
        images = CollectedRows(data.train.X, np.unique(np.concatenate(self.rows)))
        self.images = model.training_images(images, data.train.y, parameters, shared)
        self.X, self.y = [images.collected(rows) for rows in self.rows], [data.train.y[rows] for rows in self.rows]

    def scored(
        self, left_out: Mapping[int, Labels], parameters: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, int, _Scored]]:
        """Scores of every combination on every fold that has images of left-out and of kept classes, with their indices."""
        for part in range(IMAGE_SPLITS):
            X, y = self.X[part], self.y[part]
            folds = [k for k, block in left_out.items() if k % IMAGE_SPLITS == part and _both(y, block)]
            if not folds:
                continue
            blocks, images = [left_out[k] for k in folds], self.images.without(self.rows[part], X, y)
            for c, j, scores in self.model.left_out_scores(images, self.classes, X, blocks, parameters):
                yield c, folds[j], _Scored(scores, y, self.labels, blocks[j])


def _drawn(seen: Labels, seed: int) -> Labels:
    """Seen classes that take part in the selection: at most ``MOST_CLASSES``, sorted."""
    if len(seen) <= MOST_CLASSES:
        return seen
    return np.sort(as_generator(derive_seed(seed, "classes of the selection")).permutation(seen)[:MOST_CLASSES])


def _positions(among: Indices, rows: Indices) -> Indices:
    """Position of each row in a list of rows, in ascending order."""
    order = np.argsort(among, kind="stable")
    return np.sort(order[np.searchsorted(among, rows, sorter=order)])


def _both(y: Labels, block: Labels) -> bool:
    """Whether there are images of left-out and of kept classes."""
    inside = np.isin(y, block)
    return bool(inside.any() and not inside.all())


def _capped(images: Split, most: int) -> Split:
    """At most ``most`` images of each class."""
    order = np.argsort(images.y, kind="stable")
    starts = np.searchsorted(images.y[order], images.y[order])  # where the class of each image begins
    return replace(images, rows=images.rows[np.sort(order[np.arange(len(order)) - starts < most])])
