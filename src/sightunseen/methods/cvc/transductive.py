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

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.errors import DataError, SettingsError, SightUnseenError
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.losses import cross_entropy, generalized_cross_entropy
from sightunseen.methods.cvc.scores import Score
from sightunseen.training import Draw, FusedForm, Objective, Optimisation
from sightunseen.training.episodes import ClassImages, draw_classes, draw_images


@dataclass(frozen=True)
class Adaptation:
    """The settings of Algorithm 2. The defaults are the fast ones; the paper's are in its presets.

    Parameters
    ----------
    rounds, steps_per_round : N_r, N_i.
    peakiness : what Eq. 5 takes the ratio of: ``probability`` (the paper) or ``score`` (the authors' code, stricter).
    threshold : gamma; an image is trusted if its best value exceeds gamma times its second best.
    best_per_class : this many best images of every unseen class are trusted besides, as in the authors' code.
    loss, q : ``gxe`` with its q, or ``xe``, on the unseen side.
    classes_per_episode, images_per_class : M of the seen side, and N of both; the unseen side has all its classes.
    """

    rounds: int = 10
    steps_per_round: int = 100
    peakiness: str = "score"
    threshold: float = 1.1
    best_per_class: int = 10
    loss: str = "gxe"
    q: float = 0.5
    classes_per_episode: int = 64
    images_per_class: int = 4
    learning_rate: float = 2e-3
    schedule: str = "constant"
    weight_decay: float = 1e-5
    clip_norm: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("peakiness", self.peakiness, ("probability", "score"))
        check_choice("loss", self.loss, ("gxe", "xe"))
        for name in ("rounds", "steps_per_round", "classes_per_episode", "images_per_class"):
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
            self.rounds * self.steps_per_round, self.learning_rate, self.schedule, self.weight_decay, self.clip_norm
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
    seen_features, seen_indices : (n, d) with the place of each image's class among the seen ones, (n,).
    unlabelled : (m, d).
    true_indices : places among the unseen classes, (m,), for analysis only: they reach ``notes`` and nothing else.
    """

    def __init__(
        self,
        generator: ClassifierGenerator,
        score: Score,
        seen_vectors: Tensor,
        unseen_vectors: Tensor,
        seen_features: Tensor,
        seen_indices: Tensor,
        unlabelled: Tensor,
        adaptation: Adaptation,
        true_indices: NDArray[np.int64] | None = None,
    ) -> None:
        with torch.no_grad():
            self.seen_classifiers = nn.Parameter(generator(seen_vectors))  # line 2: W_s = f(A_s), from here on free
        trained = [*generator.parameters(), *score.parameters(), self.seen_classifiers]
        super().__init__([parameter for parameter in trained if parameter.requires_grad])
        self.generator, self.score = generator, score
        self.unseen_vectors, self.unlabelled = unseen_vectors, unlabelled
        self.features = torch.cat([seen_features, unlabelled])  # what tasks draw from, seen images first
        self.first_unlabelled = len(seen_features)
        self.adaptation = adaptation
        self.seed = derive_seed(adaptation.seed, "self-training")
        self.true_indices = true_indices
        self.round_size = adaptation.steps_per_round
        self.images = ClassImages.of(seen_indices)
        self.images.warn_of_small_classes(adaptation.images_per_class)
        self.classes_per_episode = min(adaptation.classes_per_episode, len(seen_vectors))
        self.pseudo_labels = np.full(len(unlabelled), -1)
        self._round_loss = 0.0  # summed over the tasks of the round under way
        self._start_round()

    def draw(self, first: int, n_steps: int) -> Draw:
        """Line 6: T_s of M seen classes, then T_u of every unseen class in the pool; N images of each."""
        size, device, n_seen = self.adaptation.images_per_class, self.features.device, len(self.seen_classifiers)
        seen = draw_classes(n_seen, first, n_steps, self.classes_per_episode, self.seed, device)
        seen_rows = draw_images(self.images, seen, first, size, self.seed)
        labels = torch.as_tensor(self.pool.labels, device=device)
        unseen, grouped = torch.unique(labels), ClassImages.of(labels)
        drawn = torch.arange(len(unseen), device=device).expand(n_steps, -1)
        pool_rows = draw_images(grouped, drawn, first, size, derive_seed(self.seed, "pool"))
        unseen_rows = self.first_unlabelled + torch.as_tensor(self.pool.rows, device=device)[pool_rows]
        return {
            "classes": torch.arange(len(self.unseen_vectors), device=device).expand(n_steps, -1),
            "rows": torch.cat([seen_rows, unseen_rows], dim=1).flatten(1),
            "labels": torch.cat([seen, n_seen + unseen[drawn]], dim=1).repeat_interleave(size, dim=1),
        }

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """Eq. 7: cross-entropy of T_s and generalized cross-entropy of T_u, averaged over all their images."""
        classifiers = torch.cat([self.seen_classifiers, self.generator(self.unseen_vectors)])  # (s + u, d)
        scores = self.score(self.features[task["rows"]], classifiers)
        labels, n = task["labels"], self.n_seen_images
        seen_loss = cross_entropy(scores[:n], labels[:n])
        if self.adaptation.loss == "xe":
            unseen_loss = cross_entropy(scores[n:], labels[n:])
        else:
            unseen_loss = generalized_cross_entropy(scores[n:], labels[n:], self.adaptation.q)
        return (n * seen_loss + (len(labels) - n) * unseen_loss) / len(labels)

    @property
    def n_seen_images(self) -> int:
        """Images of T_s."""
        return self.classes_per_episode * self.adaptation.images_per_class

    def fused_form(self) -> FusedForm | None:
        """Cosine scores of free and generated classifiers."""
        if self.score.kind != "cosine":
            return None
        q = self.adaptation.q if self.adaptation.loss == "gxe" else 0.0
        generator = self.generator
        layers, vectors = (generator.first, generator.second), self.unseen_vectors
        free, plain = self.seen_classifiers, self.n_seen_images
        return FusedForm(layers, generator.rectify, self.score.scale, vectors, self.features, free, plain, q)

    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """At the end of a round, note its loss; before the next one, choose the trusted images anew."""
        self._round_loss += n_steps * loss
        if steps_done % self.adaptation.steps_per_round:
            return
        self.notes[-1]["loss"] = self._round_loss / self.adaptation.steps_per_round
        self._round_loss = 0.0
        if steps_done < self.adaptation.rounds * self.adaptation.steps_per_round:
            self._start_round()

    def memory(self) -> dict[str, Tensor]:
        """The pool and the pseudo labels of the round under way."""
        return {
            "pool_rows": torch.from_numpy(self.pool.rows),
            "pool_labels": torch.from_numpy(self.pool.labels),
            "pseudo_labels": torch.from_numpy(self.pseudo_labels),
            "round_loss": torch.tensor(self._round_loss, dtype=torch.float64),
        }

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Go on in the round that was under way."""
        self.pool = Pool(memory["pool_rows"].numpy(), memory["pool_labels"].numpy())
        self.pseudo_labels = memory["pseudo_labels"].numpy()
        self._round_loss = memory["round_loss"].item()

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
        if self.true_indices is not None:
            entry["pool_accuracy"] = float(np.mean(self.true_indices[self.pool.rows] == self.pool.labels))
        self.notes.append(entry)
