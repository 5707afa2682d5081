"""Reference implementation of Algorithms 1 and 2: double precision, one image and one class at a time, no optimisations.

It follows the equations of the paper. Where the paper gives no detail (means instead of sums, weight decay of all parameters,
gradient clipping, the best images per class), it follows the authors' code. Nothing is imported from the library.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

Episode = dict[str, list[int]]


@dataclass
class Parameters:
    """phi (two layers), sigma and, from line 2 of Algorithm 2, the classifiers W_s of the seen classes."""

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
        for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            g = factor * gradient + self.decay * parameter.detach()
            m, v = self.moments.get(index, (torch.zeros_like(g), torch.zeros_like(g)))
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            self.moments[index] = m, v
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


def algorithm_1(
    parameters: Parameters, vectors: Tensor, features: Tensor, episodes: Iterable[Episode], adam: Adam
) -> list[float]:
    """Train f on given episodes: ``classes``, ``rows`` of images and their ``labels`` (indices in ``classes``)."""
    losses = []
    for episode in episodes:
        classifiers = [classifier(parameters, vectors[k]) for k in episode["classes"]]
        total = torch.zeros((), dtype=torch.float64)
        for row, label in zip(episode["rows"], episode["labels"], strict=True):
            total = total + cross_entropy_of(probabilities(parameters, classifiers, features[row])[label])
        loss = total / len(episode["rows"])
        adam.step(parameters.trained(), loss)
        losses.append(loss.detach().item())
    return losses


def trusted(scores: Sequence[Sequence[float]], peakiness: str, gamma: float, best_per_class: int) -> dict[int, int]:
    """Confident set {image: pseudo-label}: Eq. 5, and the best images of every class.

    An image is confident if the ratio of its largest to its second largest value exceeds gamma. The values are probabilities
    (``probability``, the paper) or scores (``score``). A ratio of scores is only meaningful for positive
    scores: without a positive score an image is not confident, and a second score at or below zero is ignored. In addition,
    every class selects its ``best_per_class`` images with the highest scores. An image selected by several classes is assigned
    to the one with its highest score; an image that passed the ratio test keeps its label.
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


def authors_list(scores: Sequence[Sequence[float]], gamma: float = 1.2, best_per_class: int = 5) -> list[tuple[int, int]]:
    """Confident set [(image, pseudo-label), ...] of the authors' code: two lists, one after the other.

    The first has the images whose two highest scores have absolute values with a ratio above gamma, labelled with the highest
    score. The second has the images with the highest scores of every class, labelled with that class.
    """
    peaky = []
    for image, row in enumerate(scores):
        ranked = sorted(range(len(row)), key=lambda k: row[k], reverse=True)
        one, other = abs(row[ranked[0]]), abs(row[ranked[1]])
        if max(one, other) / min(one, other) > gamma:
            peaky.append((image, ranked[0]))
    best = []
    for k in range(len(scores[0])):
        order = sorted(range(len(scores)), key=lambda image: scores[image][k], reverse=True)
        best += [(image, k) for image in order[:best_per_class]]
    return peaky + best


Pairs = list[tuple[int, int]]


@dataclass
class Round:
    """Pseudo-labels of all images and the confident set at the start of a round, as sorted pairs of image and label."""

    pseudo_labels: list[int]
    pool: Pairs


def algorithm_2(
    parameters: Parameters,
    seen_vectors: Tensor,
    unseen_vectors: Tensor,
    seen_features: Tensor,
    unlabelled: Tensor,
    rounds: Iterable[Iterable[Episode]],
    adam: Adam,
    confident: Callable[[list[list[float]]], Pairs],
    q: float | None,
) -> list[Round]:
    """Lines 2 to 8 on given episodes: ``seen_rows``, ``seen_labels``, ``unseen_rows``, ``unseen_labels``; q=None is XE.

    ``confident`` selects the confident set from the scores of all images.
    """
    n_seen = len(seen_vectors)
    rows = [classifier(parameters, vector).detach() for vector in seen_vectors]  # line 2
    parameters.seen_classifiers = torch.stack(rows).clone().requires_grad_()
    history = []
    for episodes in rounds:
        unseen = [classifier(parameters, vector) for vector in unseen_vectors]  # line 3
        scores = [[cosine_score(parameters, w, x).detach().item() for w in unseen] for x in unlabelled]  # line 4
        labels = [int(np.argmax(row)) for row in scores]
        history.append(Round(labels, sorted(confident(scores))))  # line 5
        for episode in episodes:  # line 6
            classifiers = [*parameters.seen_classifiers, *(classifier(parameters, vector) for vector in unseen_vectors)]
            seen_loss = unseen_loss = torch.zeros((), dtype=torch.float64)
            for row, label in zip(episode["seen_rows"], episode["seen_labels"], strict=True):
                seen_loss = seen_loss + cross_entropy_of(probabilities(parameters, classifiers, seen_features[row])[label])
            for row, label in zip(episode["unseen_rows"], episode["unseen_labels"], strict=True):
                p = probabilities(parameters, classifiers, unlabelled[row])[n_seen + label]
                unseen_loss = unseen_loss + (cross_entropy_of(p) if q is None else generalized_cross_entropy_of(p, q))
            loss = (unseen_loss + seen_loss) / (len(episode["seen_rows"]) + len(episode["unseen_rows"]))  # line 7
            adam.step(parameters.trained(), loss)  # line 8
    return history
