"""Random class splits: draw seen and unseen classes, and unequal numbers of images, from all classes of a data set."""

from dataclasses import dataclass, replace

import numpy as np

from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import HELD_OUT_PART, ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.core.rows import Indices

ALL = "all"  # the data set's own numbers of seen and unseen classes
LEAST_SEEN, LEAST_UNSEEN, USUAL_UNSEEN, LEAST_IMAGES = 2, 2, 5, 3


@dataclass(frozen=True)
class Draw:
    """How random class splits are drawn; with a seed, one split.

    Parameters
    ----------
    seen : int or "all"
        Number of seen classes. "all": the data set's own numbers of seen and unseen classes.
    unequal : float, default=1.0
        Largest ratio between the shares of images that two classes keep. 1: classes keep all images.

    Raises
    ------
    SettingsError
        If a value is not allowed.
    """

    seen: int | str
    unequal: float = 1.0

    def __post_init__(self) -> None:
        whole = isinstance(self.seen, int) and not isinstance(self.seen, bool) and self.seen >= LEAST_SEEN
        if not whole and self.seen != ALL:
            raise SettingsError(
                f'seen_classes of the plan must be whole numbers from {LEAST_SEEN} up, or "{ALL}"; got {self.seen!r}.'
            )
        number = isinstance(self.unequal, (int, float)) and not isinstance(self.unequal, bool)
        if not number or not 1 <= self.unequal < float("inf"):
            raise SettingsError(f"unequal of the plan must be a number from 1 up; got {self.unequal!r}.")

    @property
    def name(self) -> str:
        """Name of the draws in result tables."""
        sizes = "" if self.unequal == 1 else f", class sizes 1:{self.unequal:g}"
        return f"{self.seen} seen classes{sizes}"

    def as_dict(self) -> dict[str, int | str | float]:
        """Return the parameters as JSON data, the same for 20 and 20.0."""
        return {"seen": self.seen, "unequal": float(self.unequal)}


def class_numbers(data: ZeroShotDataset, n_seen: int | str) -> tuple[int, int]:
    """Numbers of classes of a random split.

    Parameters
    ----------
    data : ZeroShotDataset
        The data.
    n_seen : int or "all"
        Number of seen classes, or "all".

    Returns
    -------
    seen, unseen : int
        For "all" the numbers of the data set. For a number half as many unseen as seen classes, at least five, and at most
        those that are left.

    Raises
    ------
    DataError
        If fewer than two unseen classes would be left.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> data = make_world(World(n_seen=40, n_unseen=10))
    >>> [class_numbers(data, n) for n in (8, 12, 20, 40, "all")]
    [(8, 5), (12, 6), (20, 10), (40, 10), (40, 10)]
    """
    if not isinstance(n_seen, int):
        return len(data.seen), len(data.unseen)
    left = len(np.union1d(data.seen, data.unseen)) - n_seen
    if left < LEAST_UNSEEN:
        raise DataError(
            f"{n_seen} seen classes leave {max(left, 0)} of the {left + n_seen} classes unseen; expected at least "
            f"{LEAST_UNSEEN}."
        )
    return n_seen, min(max(round(n_seen / 2), USUAL_UNSEEN), left)


def draw_split(data: ZeroShotDataset, n_seen: int | str, seed: int, unequal: float = 1.0) -> ZeroShotDataset:
    """Draw a class split at random.

    Seen and unseen classes are drawn from all classes of the data. Each class keeps a random share of its images, log-uniform
    between 1 / ``unequal`` and 1, but at least three images. A fifth of the images of each seen class, at least one, are test
    images.

    Parameters
    ----------
    data : ZeroShotDataset
        The data.
    n_seen : int or "all"
        Number of seen classes; see :func:`class_numbers`.
    seed : int
        Seed of the draw.
    unequal : float, default=1.0
        Largest ratio between the shares of images that two classes keep. It does not change which classes are drawn.

    Returns
    -------
    ZeroShotDataset
        Data with other splits and the drawn classes only; features and labels are shared with ``data``. Class folds that come
        with the data are left out.

    Raises
    ------
    DataError
        If fewer than two unseen classes would be left.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> drawn = draw_split(make_world(World(n_seen=40, n_unseen=10)), 8, seed=0)
    >>> len(drawn.seen), len(drawn.unseen), len(drawn.classes.labels)
    (8, 5, 13)
    """
    seen, unseen = class_numbers(data, n_seen)
    pooled = np.union1d(data.seen, data.unseen)
    drawn = as_generator(derive_seed(seed, "drawn classes", n_seen)).permutation(pooled)[: seen + unseen]
    rng = as_generator(derive_seed(seed, "drawn images", n_seen))
    train, test_seen, test_unseen = [], [], []
    for k, rows in enumerate(_rows_of(data, drawn)):
        kept = _kept(rng.permutation(rows), rng.uniform(), unequal)
        if k >= seen:
            test_unseen.append(kept)
            continue
        size = max(1, round(HELD_OUT_PART * len(kept))) if len(kept) > 1 else 0
        test_seen.append(kept[:size])
        train.append(kept[size:])
    options = {"seen_classes": str(n_seen), "draw": str(seed), "unequal": f"{unequal:g}"}
    return replace(
        data,
        classes=data.classes.only(np.sort(drawn)),
        train_rows=np.sort(np.concatenate(train)),
        test_seen_rows=np.sort(np.concatenate(test_seen)),
        test_unseen_rows=np.sort(np.concatenate(test_unseen)),
        listed_train=None,
        listed_validation=None,
        validation=(),
        options={**data.options, **options},
        listed_classes=None,
    )


def _rows_of(data: ZeroShotDataset, labels: Labels) -> list[Indices]:
    """Indices of the images of each class, in all splits of the data."""
    rows = np.sort(np.concatenate([data.train_rows, data.test_seen_rows, data.test_unseen_rows]))
    values, codes = np.unique(data.labels[rows], return_inverse=True)
    order = np.argsort(codes, kind="stable")
    by_class = np.split(rows[order], np.cumsum(np.bincount(codes, minlength=len(values)))[:-1])
    return [by_class[position] for position in np.searchsorted(values, labels)]


def _kept(mixed: Indices, uniform: float, unequal: float) -> Indices:
    """First rows of a class, a share of ``unequal ** -uniform``."""
    size = round(len(mixed) * unequal**-uniform)
    return mixed[: max(size, min(LEAST_IMAGES, len(mixed)))]
