"""Prior of unseen classes: uniform, given as shares, or estimated by clustering unlabelled images."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sightunseen.core.checks import check_choice, check_number
from sightunseen.core.class_table import Labels
from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError

UNIFORM, KNOWN, ESTIMATED = "uniform", "known", "estimated"
PRIORS = (UNIFORM, KNOWN, ESTIMATED)
Shares = Mapping[Any, float] | Sequence[str]  # by label, or texts such as "cat=0.2"


def check_prior(prior: str, class_shares: Any) -> None:
    """Validate the hyperparameters of the prior.

    Parameters
    ----------
    prior : str
        One of ``PRIORS``.
    class_shares : mapping of label to float, sequence of str or None
        Shares of the classes among the unlabelled images.

    Raises
    ------
    SettingsError
        If the prior is unknown, is ``"known"`` without shares or the other way round, or the shares have another form.
    """
    check_choice("prior", prior, PRIORS)
    if (prior == KNOWN) != (class_shares is not None):
        found, do = ("without", "Give them") if class_shares is None else ("with", "Leave them out")
        raise SettingsError(
            "class_shares, a mapping from labels to shares, are given with prior='known' and with no other; got "
            f"prior='{prior}' {found} class_shares. {do}, or change the prior."
        )
    if class_shares is not None:
        by_label(class_shares)


def by_label(class_shares: Shares) -> dict[str, Any]:
    """Convert shares to a dictionary whose keys are the labels as text.

    Parameters
    ----------
    class_shares : mapping of label to float, or sequence of str
        Shares by label, or texts such as ``"cat=0.2"``, the form in which they are noted in a model folder.

    Returns
    -------
    dict of str to object
        The shares.

    Raises
    ------
    SettingsError
        If the shares have another form.

    Examples
    --------
    >>> by_label(["cat=0.2", "dog=0.8"]) == by_label({"cat": 0.2, "dog": 0.8})
    True
    """
    try:
        if isinstance(class_shares, Mapping):
            return {str(label): share for label, share in class_shares.items()}
        pairs = [text.rsplit("=", 1) for text in class_shares]
        return {label: float(share) for label, share in pairs}
    except (AttributeError, TypeError, ValueError) as error:
        raise SettingsError(
            f"class_shares must be a mapping from labels to shares, or a list of texts such as 'cat=0.2'; got "
            f"{quoted(repr(class_shares))}."
        ) from error


def known_shares(class_shares: Shares, labels: Labels) -> list[float]:
    """Look up the shares of classes and scale them to sum to one.

    Parameters
    ----------
    class_shares : mapping of label to float, or sequence of str
        Shares of these and of any other classes; see :func:`by_label`.
    labels : ndarray of shape (c,)
        The classes.

    Returns
    -------
    list of float
        Shares that sum to one.

    Raises
    ------
    SettingsError
        If a share is missing, is not a number from 0 up, or all of them are zero.

    Examples
    --------
    >>> import numpy as np
    >>> known_shares({"cat": 3, "dog": 1, "owl": 7}, np.array(["cat", "dog"]))
    [0.75, 0.25]
    """
    given, found = by_label(class_shares), []
    for label in map(str, labels.tolist()):
        if label not in given:
            raise SettingsError(
                f"class_shares has {len(given)} classes, but not '{quoted(label)}'. Add its share. If hyperparameters are "
                "selected on validation classes, the shares of all seen classes are needed as well; --select none avoids that."
            )
        check_number(f"class_shares['{quoted(label)}']", given[label], 0)
        found.append(float(given[label]))
    if not sum(found) > 0:
        raise SettingsError("class_shares are all zero for the unseen classes. Give at least one share above zero.")
    return [share / sum(found) for share in found]


def clustered(points: Tensor, centres: Tensor, n_rounds: int = 100) -> Tensor:
    """Assign points to clusters by Lloyd's algorithm (k-means) from given centres.

    Parameters
    ----------
    points : Tensor of shape (m, k)
        The points.
    centres : Tensor of shape (c, k)
        Initial centres. A cluster without points keeps its centre.
    n_rounds : int, default=100
        Largest number of rounds.

    Returns
    -------
    Tensor of shape (m,)
        Index of the nearest centre of each point.
    """
    nearest = _nearest(points, centres)
    for _ in range(n_rounds):
        centres = class_means(points, nearest, centres)
        before, nearest = nearest, _nearest(points, centres)
        if torch.equal(before, nearest):
            break
    return nearest


def class_means(points: Tensor, indices: Tensor, otherwise: Tensor) -> Tensor:
    """Average the points of each class.

    Parameters
    ----------
    points : Tensor of shape (m, k)
        The points.
    indices : Tensor of shape (m,)
        Class index of each point.
    otherwise : Tensor of shape (c, k)
        Values for classes without points.

    Returns
    -------
    Tensor of shape (c, k)
        The means.
    """
    members = torch.nn.functional.one_hot(indices, len(otherwise)).to(points)  # (m, c)
    counts = members.sum(dim=0)[:, None]
    return torch.where(counts > 0, members.T @ points / counts.clamp(min=1), otherwise)


def shares_of(clusters: Tensor, n_classes: int) -> Tensor:
    """Compute the shares of classes from the cluster of each image.

    Parameters
    ----------
    clusters : Tensor of shape (m,)
        Class index of each image.
    n_classes : int
        Number of classes (c).

    Returns
    -------
    Tensor of shape (c,)
        Shares that sum to one. One image is added to each class, so that no class has the share zero.
    """
    counts = torch.bincount(clusters, minlength=n_classes) + 1
    return counts / counts.sum()


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return (centres.square().sum(dim=1) - 2 * points @ centres.T).argmin(dim=1)
