"""Sampling of episodes (Algorithm 1, line 1): M classes and N images per class, for many steps at once, on any device.

What is drawn for step t depends on the seed and on t alone. It is the same on every device, normal numbers up to rounding.
Batches can therefore be drawn in pieces of any size, and training can resume at any step without storing the state of a random
generator.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightunseen.core.randomness import derive_seed, splitmix
from sightunseen.training.triton_kernels import has_kernels


@dataclass(frozen=True)
class ClassImages:
    """Images grouped by class: those of class k are ``rows[start[k] : start[k] + count[k]]``.

    Parameters
    ----------
    rows : Tensor of shape (n,)
        Image indices, sorted by class.
    start : Tensor of shape (c,)
        Position in ``rows`` of the first image of each class.
    count : Tensor of shape (c,)
        Number of images of each class, at least one.
    """

    rows: Tensor
    start: Tensor
    count: Tensor

    @classmethod
    def of(cls, indices: Tensor) -> "ClassImages":
        """Group images by the class index of each image.

        Parameters
        ----------
        indices : Tensor of shape (n,)
            Class index of each image. Class k of the result is the k-th smallest index that occurs.

        Returns
        -------
        ClassImages
            The grouped images.

        Examples
        --------
        >>> ClassImages.of(torch.tensor([5, 2, 5])).rows
        tensor([1, 0, 2])
        """
        _, position = torch.unique(indices, return_inverse=True)
        count = torch.bincount(position)
        return cls(torch.argsort(position, stable=True), torch.cumsum(count, 0) - count, count)

    def warn_of_small_classes(self, images_per_class: int) -> None:
        """Warn if some classes have fewer images than an episode draws per class, so that images are repeated."""
        small = int((self.count < images_per_class).sum())
        if small:
            warnings.warn(
                f"{small} of {len(self.count)} classes have fewer than {images_per_class} images; "
                "their images are drawn with replacement.",
                stacklevel=2,
            )


def draw_classes(n_classes: int, first: int, n_steps: int, per_episode: int, seed: int, device: torch.device) -> Tensor:
    """Draw the classes of episodes.

    Parameters
    ----------
    n_classes : int
        Number of classes to draw from.
    first : int
        Number of the first step.
    n_steps : int
        Number of episodes.
    per_episode : int
        Number of classes per episode (M).
    seed : int
        Random seed.
    device : torch.device
        Device of the result.

    Returns
    -------
    Tensor of shape (n_steps, M)
        Class indices, distinct within an episode.
    """
    # The M smallest of c random keys are a random subset.
    keys = _numbers(derive_seed(seed, "classes"), first, n_steps, n_classes, device)
    return torch.topk(keys, per_episode, dim=1, largest=False, sorted=True).indices


def draw_images(images: ClassImages, classes: Tensor, first: int, per_class: int, seed: int) -> Tensor:
    """Draw images of the classes of episodes.

    Parameters
    ----------
    images : ClassImages
        Images grouped by class.
    classes : Tensor of shape (n_steps, M)
        Classes of each episode.
    first : int
        Number of the first step.
    per_class : int
        Number of images per class (N).
    seed : int
        Random seed.

    Returns
    -------
    Tensor of shape (n_steps, M, N)
        Image indices, distinct within a class unless the class has fewer than N images.
    """
    n_steps, per_episode = classes.shape
    numbers = _numbers(derive_seed(seed, "images"), first, n_steps, per_episode * per_class, classes.device)
    positions = distinct_below(images.count[classes], numbers.reshape(n_steps, per_episode, per_class))
    return images.rows[images.start[classes].unsqueeze(-1) + positions]


def draw_episodes(
    images: ClassImages, first: int, n_steps: int, per_episode: int, per_class: int, seed: int
) -> dict[str, Tensor]:
    """Draw episodes of M classes and N images per class.

    Parameters
    ----------
    images : ClassImages
        Images grouped by class.
    first : int
        Number of the first step.
    n_steps : int
        Number of episodes.
    per_episode : int
        Number of classes per episode (M); all classes if there are fewer.
    per_class : int
        Number of images per class (N).
    seed : int
        Random seed.

    Returns
    -------
    dict of str to Tensor
        ``classes`` of shape (n_steps, M); ``rows`` of shape (n_steps, M * N), image indices, those of a class consecutive; and
        ``labels`` of shape (n_steps, M * N), the index of each image's class within ``classes``.

    Examples
    --------
    >>> images = ClassImages.of(torch.arange(30) % 6)
    >>> episodes = draw_episodes(images, first=0, n_steps=10, per_episode=4, per_class=2, seed=0)
    >>> {name: tuple(array.shape) for name, array in episodes.items()}
    {'classes': (10, 4), 'rows': (10, 8), 'labels': (10, 8)}
    """
    n_classes, device = len(images.count), images.rows.device
    per_episode = min(per_episode, n_classes)
    classes = draw_classes(n_classes, first, n_steps, per_episode, seed, device)
    rows = draw_images(images, classes, first, per_class, seed)
    labels = torch.arange(per_episode, device=device).repeat_interleave(per_class).expand(n_steps, -1)
    return {"classes": classes, "rows": rows.flatten(1), "labels": labels}


def draw_batches(n_images: int, first: int, n_batches: int, size: int, seed: int, device: torch.device) -> Tensor:
    """Draw mini-batches from all images, with replacement, for training without episodes.

    Parameters
    ----------
    n_images : int
        Number of images to draw from.
    first : int
        Number of the first step.
    n_batches : int
        Number of mini-batches.
    size : int
        Images per mini-batch.
    seed : int
        Random seed.
    device : torch.device
        Device of the result.

    Returns
    -------
    Tensor of shape (n_batches, size)
        Image indices.
    """
    return _below(torch.tensor(n_images, device=device), _numbers(derive_seed(seed, "batches"), first, n_batches, size, device))


def draw_uniform(seed: int, step: Tensor, shape: Sequence[int]) -> Tensor:
    """Draw uniform random numbers in [0, 1) for one step.

    Parameters
    ----------
    seed : int
        Random seed.
    step : Tensor of shape ()
        Number of the step; the result is on its device.
    shape : sequence of int
        Shape of the result.

    Returns
    -------
    Tensor of the given shape
        Random numbers in single precision.
    """
    return _draw(seed, step, shape, normal=False)


def draw_normal(seed: int, step: Tensor, shape: Sequence[int]) -> Tensor:
    """Draw standard normal random numbers for one step by the Box-Muller transform; parameters as for `draw_uniform`."""
    return _draw(seed, step, shape, normal=True)


def distinct_below(count: Tensor, numbers: Tensor) -> Tensor:
    """Map random numbers to distinct integers below a bound, by a vectorised form of Floyd's algorithm.

    Parameters
    ----------
    count : Tensor of shape (...)
        Exclusive upper bounds. Where a bound is less than N, the integers are drawn with replacement.
    numbers : Tensor of shape (..., N)
        Random integers below 2**63.

    Returns
    -------
    Tensor of shape (..., N)
        Integers from 0 to ``count - 1``.
    """
    size = numbers.shape[-1]
    drawn = torch.empty_like(numbers)
    for k in range(size):
        # Draw an integer up to `last`; if it was drawn before, take `last`, which cannot have been.
        last = count - size + k
        enough = last >= k
        candidate = _below(torch.where(enough, last + 1, count), numbers[..., k])
        taken = (drawn[..., :k] == candidate.unsqueeze(-1)).any(dim=-1) & enough
        drawn[..., k] = torch.where(taken, last, candidate)
    return drawn


def _draw(seed: int, step: Tensor, shape: Sequence[int], normal: bool) -> Tensor:
    if has_kernels(step):
        from sightunseen.training.random_kernels import drawn

        return drawn(seed, step, shape, normal)  # one launch instead of twenty
    if normal:
        radius, angle = _draw(seed, step, (2, *shape), normal=False)
        return torch.sqrt(-2 * torch.log1p(-radius)) * torch.cos(2 * math.pi * angle)
    size = math.prod(shape)
    numbers: Tensor = splitmix(seed, step * size + torch.arange(size, device=step.device))
    return ((numbers >> 39).to(torch.float32) * 2.0**-24).reshape(*shape)  # 24 bits, the precision of float32


def _numbers(seed: int, first: int, n_steps: int, per_step: int, device: torch.device) -> Tensor:
    """Random integers below 2**63 of shape (n_steps, per_step); row k belongs to step ``first + k``."""
    counters = torch.arange(first * per_step, (first + n_steps) * per_step, device=device)
    numbers: Tensor = splitmix(seed, counters)
    return numbers.reshape(n_steps, per_step)


def _below(bound: Tensor, numbers: Tensor) -> Tensor:
    """Map random integers below 2**63 to nearly uniform integers below ``bound`` (at most 2**31)."""
    return ((numbers >> 32) * bound) >> 31
