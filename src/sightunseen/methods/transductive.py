"""Algorithm 2: transductive learning without forgetting, by self-training on unlabelled images.

Eq. 4 gives the unseen classes' classifiers, Eq. 5 the images whose pseudo label is trusted, Eq. 6 and 7 the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightunseen.checks import check_choice, check_number, check_whole
from sightunseen.errors import DataError, SettingsError, SightUnseenError
from sightunseen.generator import ClassifierGenerator
from sightunseen.losses import cross_entropy, generalized_cross_entropy
from sightunseen.randomness import as_generator, derive_seed
from sightunseen.scores import Score
from sightunseen.tasks import ClassImages, draw_distinct, draw_tasks
from sightunseen.training import CHUNK, Draw, Objective, Optimisation


@dataclass(frozen=True)
class Adaptation:
    """The settings of Algorithm 2. The defaults are the fast ones; the paper's are in its presets.

    Parameters
    ----------
    rounds, tasks_per_round : N_r, N_i.
    peakiness : what Eq. 5 takes the ratio of: ``probability`` (the paper) or ``score`` (the authors' code, stricter).
    threshold : gamma; an image is trusted if its best value exceeds gamma times its second best.
    best_per_class : this many best images of every unseen class are trusted besides, as in the authors' code.
    loss, q : ``gxe`` with its q, or ``xe``, on the unseen side.
    classes_per_task, images_per_class : M of the seen side, and N of both; the unseen side has all its classes.
    """

    rounds: int = 10
    tasks_per_round: int = 100
    peakiness: str = "score"
    threshold: float = 1.1
    best_per_class: int = 10
    loss: str = "gxe"
    q: float = 0.5
    classes_per_task: int = 64
    images_per_class: int = 4
    learning_rate: float = 2e-3
    schedule: str = "constant"
    weight_decay: float = 1e-5
    clip_norm: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("peakiness", self.peakiness, ("probability", "score"))
        check_choice("loss", self.loss, ("gxe", "xe"))
        for name in ("rounds", "tasks_per_round", "classes_per_task", "images_per_class"):
            check_whole(name, getattr(self, name), 1)
        check_whole("best_per_class", self.best_per_class, 0)
        check_whole("seed", self.seed, 0)
        check_number("threshold", self.threshold, 1)
        check_number("q", self.q, 0)
        if not 0 < self.q <= 1:
            raise SettingsError(f"q must lie in (0, 1]; got {self.q}. For q -> 0 use loss='xe'.")
        self.optimisation.learning_rate_at(0)  # an Optimisation checks itself

    @property
    def optimisation(self) -> Optimisation:
        """The same, for the training loop."""
        return Optimisation(
            self.rounds * self.tasks_per_round, self.learning_rate, self.schedule, self.weight_decay, self.clip_norm
        )


@dataclass(frozen=True)
class Pool:
    """The trusted unlabelled images (the paper's confident set) with their pseudo labels."""

    rows: NDArray[np.int64]  # (p,) of the unlabelled images
    labels: NDArray[np.int64]  # (p,) places among the unseen classes


def trusted_pool(scores: NDArray[Any], adaptation: Adaptation) -> Pool:
    """Eq. 5: images whose best class stands out, with that class; and the best images of every class.

    Parameters
    ----------
    scores : (n, u), of the unlabelled images for the unseen classes (Eq. 2, before the softmax).
    """
    n, unseen = scores.shape
    best = scores.argmax(axis=1)
    labels = best.copy()
    if unseen == 1:
        trusted = np.ones(n, dtype=bool)
    else:
        second, first = np.partition(scores, unseen - 2, axis=1)[:, -2:].T
        if adaptation.peakiness == "probability":
            # p_m / p_n = exp(s_m - s_n): the softmax's denominator cancels.
            trusted = first - second > np.log(adaptation.threshold)
        else:
            # A ratio of scores means something only above zero; a second best below it is no rival.
            trusted = (first > 0) & (first > adaptation.threshold * np.maximum(second, 0))
    k = min(adaptation.best_per_class, n)
    if k:
        top = np.argpartition(-scores, k - 1, axis=0)[:k]  # (k, u)
        # An image among the best of several classes goes to the one it scores highest in.
        claimed = np.full(scores.shape, -np.inf)
        np.put_along_axis(claimed, top, np.take_along_axis(scores, top, axis=0), axis=0)
        is_top = np.isfinite(claimed).any(axis=1)
        extra = is_top & ~trusted
        labels[extra] = claimed[extra].argmax(axis=1)
        trusted |= is_top
    rows = np.flatnonzero(trusted)
    return Pool(rows, labels[rows])


class SelfTraining(Objective):
    """Lines 2 to 8: tasks of seen images and of trusted unlabelled ones, over the classifiers of all classes.

    Parameters
    ----------
    generator, score : of the inductive model; they are trained further.
    seen_vectors, unseen_vectors : (s, a) and (u, a).
    seen_features, seen_places : (n, d) with the place of each image's class among the seen ones, (n,).
    unlabelled : (m, d).
    true_places : places among the unseen classes, (m,), for analysis only: they reach ``notes`` and nothing else.
    """

    def __init__(
        self,
        generator: ClassifierGenerator,
        score: Score,
        seen_vectors: Tensor,
        unseen_vectors: Tensor,
        seen_features: Tensor,
        seen_places: NDArray[np.int64],
        unlabelled: Tensor,
        adaptation: Adaptation,
        true_places: NDArray[np.int64] | None = None,
    ) -> None:
        with torch.no_grad():
            self.seen_classifiers = nn.Parameter(generator(seen_vectors))  # line 2: W_s = f(A_s), from here on free
        trained = [*generator.parameters(), *score.parameters(), self.seen_classifiers]
        super().__init__([parameter for parameter in trained if parameter.requires_grad])
        self.generator, self.score = generator, score
        self.seen_vectors, self.unseen_vectors = seen_vectors, unseen_vectors
        self.seen_features, self.unlabelled = seen_features, unlabelled
        self.adaptation = adaptation
        self.true_places = true_places
        self.chunk_size = _largest_divisor(adaptation.tasks_per_round, CHUNK)
        self.images = ClassImages.of(seen_places)
        self.images.warn_of_small_classes(adaptation.images_per_class)
        self.pseudo_labels = np.full(len(unlabelled), -1)
        self._round_losses: list[float] = []
        self._start_round()

    def draw(self, chunk: int, n_tasks: int) -> Draw:
        """Line 6: T_s of M seen classes, T_u of every unseen class in the pool; N images of each."""
        rng = as_generator(derive_seed(self.adaptation.seed, "self-training", chunk))
        classes_per_task = min(self.adaptation.classes_per_task, len(self.images.count))
        classes, seen_rows = draw_tasks(self.images, n_tasks, classes_per_task, self.adaptation.images_per_class, rng)
        size = self.adaptation.images_per_class
        pool_classes = np.unique(self.pool.labels)
        grouped = ClassImages.of(self.pool.labels)
        count = np.broadcast_to(grouped.count, (n_tasks, len(pool_classes)))
        places = grouped.rows[grouped.start[:, None] + draw_distinct(count, size, rng)]
        labels = np.broadcast_to(pool_classes[None, :, None], places.shape)
        return {
            "seen_rows": seen_rows.reshape(n_tasks, -1),
            "seen_labels": np.repeat(classes, size, axis=1),
            "unseen_rows": self.pool.rows[places].reshape(n_tasks, -1),
            "unseen_labels": labels.reshape(n_tasks, -1),
        }

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Eq. 7: cross-entropy of T_s and generalized cross-entropy of T_u, averaged over all their images."""
        classifiers = torch.cat([self.seen_classifiers, self.generator(self.unseen_vectors)])  # (s + u, d)
        features = torch.cat([self.seen_features[task["seen_rows"]], self.unlabelled[task["unseen_rows"]]])
        scores = self.score(features, classifiers)
        n_seen, n_unseen = len(task["seen_rows"]), len(task["unseen_rows"])
        seen_loss = cross_entropy(scores[:n_seen], task["seen_labels"])
        unseen_labels = task["unseen_labels"] + len(self.seen_vectors)
        if self.adaptation.loss == "xe":
            unseen_loss = cross_entropy(scores[n_seen:], unseen_labels)
        else:
            unseen_loss = generalized_cross_entropy(scores[n_seen:], unseen_labels, self.adaptation.q)
        return (n_seen * seen_loss + n_unseen * unseen_loss) / (n_seen + n_unseen)

    def after_chunk(self, tasks_done: int, loss: float) -> None:
        """At the end of a round, note its loss; before the next one, choose the trusted images anew."""
        self._round_losses.append(loss)
        if tasks_done % self.adaptation.tasks_per_round:
            return
        self.notes[-1]["loss"] = float(np.mean(self._round_losses))
        self._round_losses = []
        if tasks_done < self.adaptation.rounds * self.adaptation.tasks_per_round:
            self._start_round()

    def memory(self) -> dict[str, Tensor]:
        """The pool and the pseudo labels of the round under way."""
        return {
            "pool_rows": torch.from_numpy(self.pool.rows),
            "pool_labels": torch.from_numpy(self.pool.labels),
            "pseudo_labels": torch.from_numpy(self.pseudo_labels),
            "round_losses": torch.tensor(self._round_losses, dtype=torch.float64),
        }

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Go on in the round that was under way."""
        self.pool = Pool(memory["pool_rows"].numpy(), memory["pool_labels"].numpy())
        self.pseudo_labels = memory["pseudo_labels"].numpy()
        self._round_losses = memory["round_losses"].tolist()

    @torch.no_grad()
    def _start_round(self) -> None:
        """Lines 3 to 5: classify the unlabelled images among the unseen classes and keep the trusted ones."""
        scores = self.score(self.unlabelled, self.generator(self.unseen_vectors)).cpu().numpy()
        if not np.isfinite(scores).all():
            raise SightUnseenError("self-training diverged: scores are no longer finite. Lower the learning rate.")
        self.pool = trusted_pool(scores, self.adaptation)
        if not len(self.pool.rows):
            raise DataError(
                f"no unlabelled image stands out by a ratio of {self.adaptation.threshold}, so there is nothing to learn from. "
                "Lower the threshold or set best_per_class to 5."
            )
        labels = scores.argmax(axis=1)
        changed = int((labels != self.pseudo_labels).sum())
        self.pseudo_labels = labels
        entry: dict[str, Any] = {"round": len(self.notes) + 1, "pool": len(self.pool.rows), "changed_labels": changed}
        if self.true_places is not None:
            entry["pool_accuracy"] = float(np.mean(self.true_places[self.pool.rows] == self.pool.labels))
        self.notes.append(entry)


def _largest_divisor(number: int, most: int) -> int:
    return next(size for size in range(min(number, most), 0, -1) if number % size == 0)
