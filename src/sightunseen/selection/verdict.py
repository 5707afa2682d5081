"""The results of an evaluation in plain sentences, for readers who know no metric."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sightunseen.core.class_table import Labels
from sightunseen.core.documents import quoted
from sightunseen.core.intervals import Counts, bootstrap, interval
from sightunseen.core.names import readable_names
from sightunseen.selection.agreement import Agreement, Validation, compare
from sightunseen.selection.evaluation import Evaluation

PHOTOS, IMAGES = "photos", "images"
FEWEST_CONFUSED = 3  # images of one class taken for the same other class; fewer may be chance
LEAST_SHARE = 0.25  # of the images of the class
MOST_NAMED = 3  # confusions


def verdict(
    result: Evaluation | None,
    selection: Mapping[str, Any],
    word: str = IMAGES,
    protocol: str = "honest",
    before: Evaluation | None = None,
) -> tuple[str, ...]:
    """Say in plain sentences how well a model does.

    Parameters
    ----------
    result : Evaluation or None
        Results on test images; None if there are none.
    selection : mapping
        ``selection`` of the run record, with the results on validation classes.
    word : {"images", "photos"}, default="images"
        What the images are called.
    protocol : {"honest", "paper"}, default="honest"
        Protocol of the run.
    before : Evaluation, default=None
        Results before adapting, on the same images.

    Returns
    -------
    tuple of str
        Sentences: images of unseen classes among unseen classes, the most frequent confusions, images of all classes among all
        classes, and what to be careful about. Without test images of unseen classes, the estimate on validation classes.

    Raises
    ------
    ModelError
        If the selection has values of other types.
    """
    sentences: list[str] = []
    if result is None or "T1" not in result.counts:
        sentences += _estimate(Validation.of(selection), word)
    if result is None:
        return tuple(sentences)
    if "T1" in result.counts:
        sentences += [_unseen(result, word, before), *_guessing(result), *_confusions(result, word)]
    sentences += _all_classes(result, word)
    if protocol == "paper":
        sentences.append(f"Hyperparameters were chosen on these same test {word}, so these numbers are too good.")
    else:
        sentences += _difference(agreement(result, selection), word)
    return tuple(sentences)


def agreement(result: Evaluation | None, selection: Mapping[str, Any]) -> Agreement | None:
    """Compare test images of unseen classes with validation classes; see :func:`~sightunseen.selection.agreement.compare`.

    Parameters
    ----------
    result : Evaluation or None
        Results on test images.
    selection : mapping
        ``selection`` of the run record.

    Returns
    -------
    Agreement or None
        None if one of the two is missing.

    Raises
    ------
    ModelError
        If the selection has values of other types.
    """
    validation = Validation.of(selection)
    if result is None or validation is None or "T1" not in result.counts:
        return None
    return compare(validation, result.counts["T1"], len(result.unseen_classes))


def _unseen(result: Evaluation, word: str, before: Evaluation | None) -> str:
    counts = result.counts["T1"]
    was = "" if before is None else f"; was {before.counts['T1'].n_right:,} before adapting"
    details = f"{_share(counts)}; guessing: {_percent(100 / len(result.unseen_classes))}%{was}"
    return f"{_of(counts, word, 'unseen')} right ({details})."


def _guessing(result: Evaluation) -> list[str]:
    """Warn if the accuracy may be that of guessing."""
    counts, chance = result.counts["T1"], 100 / len(result.unseen_classes)
    low, high = _interval(counts)
    if low > chance or len(result.unseen_classes) == 1:
        return []
    return ["This is no better than guessing." if high <= chance else "This may be no better than guessing."]


def _confusions(result: Evaluation, word: str, with_seen: bool = False) -> list[str]:
    """Name the unseen classes with most images taken for one other unseen class, or for one seen class among all classes."""
    n = len(result.among_unseen)
    names = {label: quoted(name) for label, name in readable_names(result.scored.candidates.tolist()).items()}
    found = confusions(result.scored.truth[:n], result.scored.predicted[:n] if with_seen else result.among_unseen)
    if with_seen:
        unseen = set(result.unseen_classes.tolist())
        found = [entry for entry in found if entry[1] not in unseen]
    which = f", which has training {word}" if with_seen else ""
    return [
        f"{word.capitalize()} of {names[one]} are {'mostly' if 2 * count > images else 'often'} taken for {names[other]} "
        f"({count:,} of {images:,}){which}."
        for one, other, count, images in found[:MOST_NAMED]
    ]


def confusions(y_true: Labels, y_pred: Labels) -> list[tuple[Any, Any, int, int]]:
    """Find the frequent confusions of classes.

    Parameters
    ----------
    y_true : ndarray of shape (n,)
        True labels.
    y_pred : ndarray of shape (n,)
        Predicted labels.

    Returns
    -------
    list of (label, label, int, int)
        True class, the class that most of its wrong images are predicted as, number of these, and number of images of the true
        class; only if they are at least three and a quarter of its images. Most images first.

    Examples
    --------
    >>> confusions(np.array(["sheep"] * 4 + ["cow"]), np.array(["horse", "horse", "horse", "sheep", "sheep"]))
    [('sheep', 'horse', 3, 4)]
    """
    wrong = y_true != y_pred
    labels, truth = np.unique(y_true, return_inverse=True)
    images = np.bincount(truth)
    others, other = np.unique(y_pred[wrong], return_inverse=True)
    pairs, counts = np.unique(truth[wrong] * max(1, len(others)) + other, return_counts=True)
    one, taken_for = np.divmod(pairs, max(1, len(others)))
    frequent = (counts >= FEWEST_CONFUSED) & (counts >= LEAST_SHARE * images[one])
    order = np.flatnonzero(frequent)[np.argsort(-counts[frequent], kind="stable")]
    _, first = np.unique(one[order], return_index=True)  # the most frequent confusion of each class
    order = order[np.sort(first)]
    return [(labels[one[k]].item(), others[taken_for[k]].item(), int(counts[k]), int(images[one[k]])) for k in order.tolist()]


def _all_classes(result: Evaluation, word: str) -> list[str]:
    """Accuracy of images of unseen and of seen classes among all classes."""
    sides = [(name, side) for name, side in (("U", "unseen"), ("S", "seen")) if name in result.counts]
    parts = [f"{_of(result.counts[name], word, side)} right ({_share(result.counts[name])})" for name, side in sides]
    n_classes, n_unseen = len(result.scored.candidates), len(result.unseen_classes)
    included = f", the {n_classes - n_unseen:,} with training {word} included" if n_unseen else ""
    guessing = _percent(100 / n_classes)
    sentences = [f"Among all {n_classes:,} classes{included}: {' and '.join(parts)}; guessing: {guessing}%."]
    n = len(result.among_unseen)
    taken = n - int(np.isin(result.scored.predicted[:n], result.unseen_classes).sum())
    if taken > LEAST_SHARE * n:
        sentences.append(f"{taken:,} of {n:,} {_named(word, n)} of unseen classes are taken for a seen class.")
    return sentences + (_confusions(result, word, with_seen=True) if n else [])


def _difference(found: Agreement | None, word: str) -> list[str]:
    if found is None or not found.differs:
        return []
    less = found.found < found.expected
    cause = (
        f"The unseen classes may be described differently, or their {word} may come from elsewhere"
        if less
        else "The unseen classes may be easier than the seen ones, or the network behind the features may know them"
    )
    return [
        f"Careful: {_percent(found.expected)}% per unseen class were expected from seen classes that were left out of "
        f"training, but {_percent(found.found)}% were found, {'less' if less else 'more'} than chance explains. {cause}. Check "
        "the data with: sightunseen inspect"
    ]


def _estimate(validation: Validation | None, word: str) -> list[str]:
    """What is known without test images of unseen classes."""
    if validation is None:
        return [
            f"There are no test {word} of unseen classes, and no class was left out of training for validation, so it is not "
            "known how well the model recognises unseen classes."
        ]
    sizes = sorted(set(validation.classes))
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    times = len(validation.classes)
    spread = f", {_percent(min(validation.T1))} to {_percent(max(validation.T1))}% in single rehearsals" if times > 1 else ""
    rehearsals = f"In {times} rehearsals, each" if times > 1 else "In a rehearsal"
    return [
        f"There are no test {word} of unseen classes. {rehearsals} with {size} of the seen classes left out of training, "
        f"{_percent(validation.mean)}% of their {word} were right{spread} (guessing: {_percent(validation.guessing)}%). "
        "This is an estimate of what to expect for unseen classes."
    ]


def _of(counts: Counts, word: str, side: str) -> str:
    return f"{counts.n_right:,} of {counts.n_images:,} {_named(word, counts.n_images)} of {side} classes"


def _named(word: str, count: int) -> str:
    return word if count != 1 else word.removesuffix("s")


def _share(counts: Counts) -> str:
    low, high = _interval(counts)
    return f"{_percent(100 * counts.n_right / counts.n_images)}%, 95% interval {_percent(low)}-{_percent(high)}"


def _interval(counts: Counts) -> list[float]:
    """95% interval of the share of images that are right."""
    return interval(counts, bootstrap(counts, per_class=False))


def _percent(value: float) -> str:
    """Whole percent; with a decimal where rounding would give 0 or 100 for less than all or more than none.

    >>> [_percent(value) for value in (51.1, 0.0, 0.14, 99.7, 100.0)]
    ['51', '0', '0.1', '99.7', '100']
    """
    rounded = f"{value:.0f}"
    if rounded in ("0", "100") and value not in (0.0, 100.0):
        return f"{value:.1f}"
    return rounded
