"""Algorithm 1, line 1: drawing tasks of M classes and N images a class, many at a time, on the device they are used on.

Task number t is a function of the seed and t alone, the same one on every device: tasks can be drawn in pieces of any size,
and a run can go on from any task without keeping the state of a random generator.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightunseen.core.randomness import derive_seed, splitmix


@dataclass(frozen=True)
class ClassImages:
    """The images of c classes: those of class k stand at ``rows[start[k] : start[k] + count[k]]``."""

    rows: Tensor  # (n,) image rows, sorted by class
    start: Tensor  # (c,)
    count: Tensor  # (c,) all positive

    @classmethod
    def of(cls, places: Tensor) -> "ClassImages":
        """Group images by the place of their class, (n,); class k is the k-th place that occurs, in sorted order."""
        _, position = torch.unique(places, return_inverse=True)
        count = torch.bincount(position)
        return cls(torch.argsort(position, stable=True), torch.cumsum(count, 0) - count, count)

    def warn_of_small_classes(self, images_per_class: int) -> None:
        """Say once that some classes repeat images within a task."""
        small = int((self.count < images_per_class).sum())
        if small:
            warnings.warn(
                f"{small} of {len(self.count)} classes have fewer than {images_per_class} images; "
                "their images are drawn with replacement.",
                stacklevel=2,
            )


def draw_classes(n_classes: int, first: int, n_steps: int, per_episode: int, seed: int, device: torch.device) -> Tensor:
    """The classes of tasks ``first`` and up: (n_steps, M), distinct within a task."""
    # The M smallest of c random keys are a random subset.
    keys = _numbers(derive_seed(seed, "classes"), first, n_steps, n_classes, device)
    return torch.topk(keys, per_episode, dim=1, largest=False, sorted=True).indices


def draw_images(images: ClassImages, classes: Tensor, first: int, per_class: int, seed: int) -> Tensor:
    """Images of the classes (n_steps, M) of tasks ``first`` and up: rows (n_steps, M, N).

    They are distinct, and repeated only where a class has fewer than N.
    """
    n_steps, per_episode = classes.shape
    numbers = _numbers(derive_seed(seed, "images"), first, n_steps, per_episode * per_class, classes.device)
    places = distinct_below(images.count[classes], numbers.reshape(n_steps, per_episode, per_class))
    return images.rows[images.start[classes].unsqueeze(-1) + places]


def draw_episodes(
    images: ClassImages, first: int, n_steps: int, per_episode: int, per_class: int, seed: int
) -> dict[str, Tensor]:
    """Tasks ``first`` and up of M classes, all where there are fewer, and N images of each, those of a class side by side.

    ``classes`` (n_steps, M), ``rows`` (n_steps, M N) of images, and ``labels`` (n_steps, M N), the place of each image's class
    among the task's.
    """
    n_classes, device = len(images.count), images.rows.device
    per_episode = min(per_episode, n_classes)
    classes = draw_classes(n_classes, first, n_steps, per_episode, seed, device)
    rows = draw_images(images, classes, first, per_class, seed)
    labels = torch.arange(per_episode, device=device).repeat_interleave(per_class).expand(n_steps, -1)
    return {"classes": classes, "rows": rows.flatten(1), "labels": labels}


def draw_batches(n_images: int, first: int, n_batches: int, size: int, seed: int, device: torch.device) -> Tensor:
    """Plain mini-batches for training without tasks: (n_batches, size) image rows, each drawn from all images."""
    return _below(torch.tensor(n_images, device=device), _numbers(derive_seed(seed, "batches"), first, n_batches, size, device))


def draw_uniform(seed: int, task: Tensor, shape: Sequence[int]) -> Tensor:
    """Numbers between 0 and 1 of this shape, those of the task with this number (a tensor without axes), on its device."""
    size = math.prod(shape)
    numbers: Tensor = splitmix(seed, task * size + torch.arange(size, device=task.device))
    return ((numbers >> 39).to(torch.float32) * 2.0**-24).reshape(*shape)  # 24 bits, as many as single precision has


def draw_normal(seed: int, task: Tensor, shape: Sequence[int]) -> Tensor:
    """Standard normal numbers of this shape for the task with this number, by Box and Muller."""
    radius, angle = draw_uniform(seed, task, (2, *shape))
    return torch.sqrt(-2 * torch.log1p(-radius)) * torch.cos(2 * math.pi * angle)


def distinct_below(count: Tensor, numbers: Tensor) -> Tensor:
    """Distinct integers below each entry of ``count``, made of random numbers (..., N) by Floyd's algorithm for all at once.

    Entries below N get repeated integers. Shape: (*count.shape, N).
    """
    size = numbers.shape[-1]
    drawn = torch.empty_like(numbers)
    for k in range(size):
        # Of the integers up to `last`, take a random one; if it was taken before, `last` itself was not.
        last = count - size + k
        enough = last >= k
        candidate = _below(torch.where(enough, last + 1, count), numbers[..., k])
        taken = (drawn[..., :k] == candidate.unsqueeze(-1)).any(dim=-1) & enough
        drawn[..., k] = torch.where(taken, last, candidate)
    return drawn


def _numbers(seed: int, first: int, n_steps: int, per_episode: int, device: torch.device) -> Tensor:
    """Random integers below 2**63, (n_steps, per_episode), those of task number ``first`` in the first row."""
    places = torch.arange(first * per_episode, (first + n_steps) * per_episode, device=device)
    numbers: Tensor = splitmix(seed, places)
    return numbers.reshape(n_steps, per_episode)


def _below(bound: Tensor, numbers: Tensor) -> Tensor:
    """Numbers below 2**63 made integers below ``bound`` (at most 2**31), all but equally likely."""
    return ((numbers >> 32) * bound) >> 31
