"""Algorithms 1 and 2 written out: double precision, one image and one class at a time, no shortcut. Slow, and plainly right.

The equations are those of the paper; where it is silent (means for sums, coupled weight decay on everything, clipping, the
rule of the five best images) the authors' code decides. Nothing here is imported from the library.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

Task = dict[str, list[int]]


@dataclass
class Parameters:
    """phi (two layers), sigma, and from Algorithm 2, line 2 on also the seen classes' own classifiers W_s."""

    first_weight: Tensor  # (h, a)
    first_bias: Tensor  # (h,)
    second_weight: Tensor  # (d, h)
    second_bias: Tensor  # (d,)
    sigma: Tensor  # ()
    seen_classifiers: Tensor | None = None  # (s, d)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, torch.as_tensor(value).detach().double().clone().requires_grad_())

    def trained(self) -> list[Tensor]:
        return [value for value in vars(self).values() if value is not None]


@dataclass
class Adam:
    """Kingma & Ba (2015), Algorithm 1, with L2 decay added to the clipped gradient."""

    rate_at: Callable[[int], float]
    decay: float
    clip: float | None
    step_number: int = 0
    moments: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def step(self, parameters: Sequence[Tensor], loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, parameters)
        factor = 1.0
        if self.clip is not None:
            norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
            if norm > self.clip:
                factor = self.clip / norm
        rate = self.rate_at(self.step_number)
        self.step_number += 1
        t = self.step_number
        for place, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            g = factor * gradient + self.decay * parameter.detach()
            m, v = self.moments.get(place, (torch.zeros_like(g), torch.zeros_like(g)))
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            self.moments[place] = m, v
            with torch.no_grad():
                parameter -= rate * (m / (1 - 0.9**t)) / (torch.sqrt(v / (1 - 0.999**t)) + 1e-8)


def classifier(parameters: Parameters, vector: Tensor) -> Tensor:
    """Eq. 1: FC-ReLU-FC-ReLU of one class vector (a,) -> (d,)."""
    hidden = torch.relu(parameters.first_weight @ vector + parameters.first_bias)
    return torch.relu(parameters.second_weight @ hidden + parameters.second_bias)


def cosine_score(parameters: Parameters, w: Tensor, x: Tensor) -> Tensor:
    """Sigma * cos(w, x) of one class and one image."""
    return parameters.sigma * torch.dot(w, x) / (torch.sqrt(torch.dot(w, w)) * torch.sqrt(torch.dot(x, x)))


def probabilities(parameters: Parameters, classifiers: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """Eq. 2: p(y | x) for every class."""
    numerators = [torch.exp(cosine_score(parameters, w, x)) for w in classifiers]
    total = sum(numerators)
    return [numerator / total for numerator in numerators]


def cross_entropy_of(p: Tensor) -> Tensor:
    """One term of Eq. 3: -sigma cos(w_y, x) + log sum exp(sigma cos(w_j, x)) = -log p."""
    return -torch.log(p)


def generalized_cross_entropy_of(p: Tensor, q: float) -> Tensor:
    """One term of Eq. 6."""
    return (1 - p**q) / q


def algorithm_1(parameters: Parameters, vectors: Tensor, features: Tensor, tasks: Iterable[Task], adam: Adam) -> list[float]:
    """Train f on given tasks of ``classes``, ``rows`` of images and their ``labels`` (places among the task's classes)."""
    losses = []
    for task in tasks:
        classifiers = [classifier(parameters, vectors[k]) for k in task["classes"]]
        total = torch.zeros((), dtype=torch.float64)
        for row, label in zip(task["rows"], task["labels"], strict=True):
            total = total + cross_entropy_of(probabilities(parameters, classifiers, features[row])[label])
        loss = total / len(task["rows"])
        adam.step(parameters.trained(), loss)
        losses.append(loss.detach().item())
    return losses


def trusted(scores: Sequence[Sequence[float]], peakiness: str, gamma: float, best_per_class: int) -> dict[int, int]:
    """Eq. 5 and the authors' addition: {image: pseudo label} of the images that are trusted.

    An image is trusted with its best class if best / second best > gamma. The ratio is one of probabilities (``probability``,
    the paper) or of scores (``score``, the authors). A ratio of scores says nothing below zero: an image without a positive
    score is not trusted by it, and a rival at or below zero is none. Besides, every class takes its ``best_per_class`` best
    images; an image wanted by several classes goes to the one it scores highest in, and one that passed the ratio keeps its
    label.
    """
    pool = {}
    for image, row in enumerate(scores):
        ranked = sorted(range(len(row)), key=lambda k: row[k], reverse=True)
        if len(row) == 1:
            pool[image] = 0
            continue
        best, second = row[ranked[0]], row[ranked[1]]
        if peakiness == "probability":
            total = sum(math.exp(value - best) for value in row)
            peaky = (1 / total) / (math.exp(second - best) / total) > gamma
        else:
            peaky = best > 0 and (second <= 0 or best / second > gamma)
        if peaky:
            pool[image] = ranked[0]
    wanted_by: dict[int, list[int]] = {}
    for k in range(len(scores[0])):
        best_first = sorted(range(len(scores)), key=lambda image: scores[image][k], reverse=True)
        for image in best_first[:best_per_class]:
            wanted_by.setdefault(image, []).append(k)
    for image, classes in wanted_by.items():
        if image not in pool:
            pool[image] = max(classes, key=lambda k: scores[image][k])
    return pool


@dataclass
class Round:
    """What the reference found at the start of a round: pseudo labels of all images and the trusted ones."""

    pseudo_labels: list[int]
    pool: dict[int, int]


def algorithm_2(
    parameters: Parameters,
    seen_vectors: Tensor,
    unseen_vectors: Tensor,
    seen_features: Tensor,
    unlabelled: Tensor,
    rounds: Iterable[Iterable[Task]],
    adam: Adam,
    peakiness: str,
    gamma: float,
    best_per_class: int,
    q: float | None,
) -> list[Round]:
    """Lines 2 to 8 on given tasks: ``seen_rows``, ``seen_labels``, ``unseen_rows``, ``unseen_labels``; q None means XE."""
    n_seen = len(seen_vectors)
    rows = [classifier(parameters, vector).detach() for vector in seen_vectors]  # line 2
    parameters.seen_classifiers = torch.stack(rows).clone().requires_grad_()
    history = []
    for tasks in rounds:
        unseen = [classifier(parameters, vector) for vector in unseen_vectors]  # line 3
        scores = [[cosine_score(parameters, w, x).detach().item() for w in unseen] for x in unlabelled]  # line 4
        labels = [int(np.argmax(row)) for row in scores]
        history.append(Round(labels, trusted(scores, peakiness, gamma, best_per_class)))  # line 5
        for task in tasks:  # line 6
            classifiers = [*parameters.seen_classifiers, *(classifier(parameters, vector) for vector in unseen_vectors)]
            seen_loss = unseen_loss = torch.zeros((), dtype=torch.float64)
            for row, label in zip(task["seen_rows"], task["seen_labels"], strict=True):
                seen_loss = seen_loss + cross_entropy_of(probabilities(parameters, classifiers, seen_features[row])[label])
            for row, label in zip(task["unseen_rows"], task["unseen_labels"], strict=True):
                p = probabilities(parameters, classifiers, unlabelled[row])[n_seen + label]
                unseen_loss = unseen_loss + (cross_entropy_of(p) if q is None else generalized_cross_entropy_of(p, q))
            loss = (unseen_loss + seen_loss) / (len(task["seen_rows"]) + len(task["unseen_rows"]))  # line 7
            adam.step(parameters.trained(), loss)  # line 8
    return history
