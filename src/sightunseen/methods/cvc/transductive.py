"""Algorithm 2: transductive learning by self-training on unlabelled images, without forgetting the seen classes.

Eq. 4 defines the classifiers of the unseen classes, Eq. 5 the set of images with confident pseudo-labels, Eq. 6 and 7 the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.errors import DataError, ModelError, SettingsError, SightUnseenError
from sightunseen.core.limits import SEED
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.cvc.confident_set import PEAKINESS, Pool, trusted_pool
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.losses import cross_entropy, generalized_cross_entropy
from sightunseen.methods.cvc.scores import Score
from sightunseen.training import Draw, FusedForm, Objective, Optimisation
from sightunseen.training.episodes import ClassImages, draw_classes, draw_images


@dataclass(frozen=True)
class Adaptation:
    """Hyperparameters of Algorithm 2. The defaults were selected on validation classes; the paper's are in its presets.

    The authors' rule for the confident set is that of their code: ``peakiness="magnitude"``, ``threshold=1.2``,
    ``best_per_class=5`` and ``concatenated=True``.

    Parameters
    ----------
    rounds : int, default=10
        Number of rounds (N_r); pseudo-labels are updated at the start of each.
    steps_per_round : int, default=100
        Gradient steps per round (N_i).
    peakiness : {"score", "probability", "magnitude"}, default="score"
        Quantity whose ratio is tested in Eq. 5: probabilities as in the paper; scores, which is stricter and requires a
        positive score; or absolute values of the two highest scores, as in the authors' code. The last two only differ where
        scores are negative.
    threshold : float, default=1.1
        Smallest ratio of the largest to the second largest value for a confident pseudo-label (γ of Eq. 5).
    best_per_class : int, default=10
        Number of images with the highest scores of every unseen class that are added to the confident set.
    concatenated : bool, default=False
        Whether an image is in the confident set once for each time it is selected, by the ratio or as one of the best of a
        class, with the label of that selection: every class has ``best_per_class`` images, and an image may have two labels.
        False: every image has one label, that of its best class if it passes the ratio test.
    loss : {"gxe", "xe"}, default="gxe"
        Loss of the unlabelled images: generalized cross-entropy or cross-entropy.
    q : float, default=0.5
        Exponent of the generalized cross-entropy, in (0, 1].
    classes_per_episode : int, default=64
        Seen classes per episode (M). All unseen classes of the confident set are in every episode.
    images_per_class : int, default=4
        Images per class (N).
    learning_rate : float, default=2e-3
        Initial learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="constant"
        Learning rate schedule; see :class:`~sightunseen.training.Optimisation`.
    weight_decay : float, default=1e-5
        L2 penalty.
    clip_norm : float, default=None
        Largest norm of the gradient; None: no clipping.
    seed : int, default=0
        Random seed.

    Raises
    ------
    SettingsError
        If a hyperparameter has a wrong type or value.
    """

    rounds: int = 10
    steps_per_round: int = 100
    peakiness: str = "score"
    threshold: float = 1.1
    best_per_class: int = 10
    concatenated: bool = False
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
        check_choice("peakiness", self.peakiness, PEAKINESS)
        check_choice("concatenated", self.concatenated, (True, False))
        check_choice("loss", self.loss, ("gxe", "xe"))
        for name in ("rounds", "steps_per_round", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1)
        check_whole("best_per_class", self.best_per_class, 0)
        check_whole("seed", self.seed, 0, SEED)
        check_number("threshold", self.threshold, 1)
        check_number("q", self.q, 0)
        if not 0 < self.q <= 1:
            raise SettingsError(f"q must be in (0, 1]; got {self.q}. For the limit at 0 use loss='xe'.")
        self.optimisation.learning_rates(0, 1)  # validates its hyperparameters

    @property
    def optimisation(self) -> Optimisation:
        """Hyperparameters of the optimiser."""
        return Optimisation(
            self.rounds * self.steps_per_round, self.learning_rate, self.schedule, self.weight_decay, self.clip_norm
        )


class SelfTraining(Objective):
    """Objective of Algorithm 2: episodes of seen images and confident unlabelled images, over the classifiers of all classes.

    Parameters
    ----------
    generator : ClassifierGenerator
        Generator of the inductive model; it is trained further.
    score : Score
        Score function of the inductive model; it is trained further.
    seen_vectors : Tensor of shape (s, a)
        Class vectors of the seen classes.
    unseen_vectors : Tensor of shape (u, a)
        Class vectors of the unseen classes.
    seen_features : Tensor of shape (n, d)
        Features of the images of seen classes.
    seen_indices : Tensor of shape (n,)
        Index of each of these images' class.
    unlabelled : Tensor of shape (m, d)
        Features of the unlabelled images.
    adaptation : Adaptation
        Hyperparameters.
    true_indices : ndarray of shape (m,), default=None
        True classes of the unlabelled images, for analysis: they are used for ``notes`` and never for training.

    Raises
    ------
    DataError
        If the confident set is empty.
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
            self.seen_classifiers = nn.Parameter(generator(seen_vectors))  # line 2: W_s = f(A_s), then trained directly
        trained = [*generator.parameters(), *score.parameters(), self.seen_classifiers]
        super().__init__([parameter for parameter in trained if parameter.requires_grad])
        self.generator, self.score = generator, score
        self.unseen_vectors, self.unlabelled = unseen_vectors, unlabelled
        self.features = torch.cat([seen_features, unlabelled])  # of all images, seen ones first
        self.first_unlabelled = len(seen_features)
        self.adaptation = adaptation
        self.seed = derive_seed(adaptation.seed, "self-training")
        self.true_indices = true_indices
        self.round_size = adaptation.steps_per_round
        self.images = ClassImages.of(seen_indices)
        self.images.warn_of_small_classes(adaptation.images_per_class)
        self.classes_per_episode = min(adaptation.classes_per_episode, len(seen_vectors))
        self.pseudo_labels = np.full(len(unlabelled), -1)
        self._round_loss = 0.0  # sum over the steps of the current round
        self._start_round()

    def draw(self, first: int, n_steps: int) -> Draw:
        """Draw episodes (line 6): N images of M seen classes (T_s) and of every unseen class in the confident set (T_u)."""
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

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute Eq. 7: cross-entropy of T_s and generalized cross-entropy of T_u, averaged over all images."""
        classifiers = torch.cat([self.seen_classifiers, self.generator(self.unseen_vectors)])  # (s + u, d)
        scores = self.score(self.features[batch["rows"]], classifiers)
        labels, n = batch["labels"], self.n_seen_images
        seen_loss = cross_entropy(scores[:n], labels[:n])
        unseen_loss = generalized_cross_entropy(scores[n:], labels[n:], self.q)
        return (n * seen_loss + (len(labels) - n) * unseen_loss) / len(labels)

    @property
    def n_seen_images(self) -> int:
        """Number of images in T_s."""
        return self.classes_per_episode * self.adaptation.images_per_class

    @property
    def q(self) -> float:
        """Exponent of the generalized cross-entropy; 0 for cross-entropy."""
        return self.adaptation.q if self.adaptation.loss == "gxe" else 0.0

    def fused_form(self) -> FusedForm | None:
        """Return the components of the loss if its scores are cosines."""
        if self.score.kind != "cosine":
            return None
        layers, rectify = (self.generator.first, self.generator.second), self.generator.rectify
        tables = self.unseen_vectors, self.features
        return FusedForm(layers, rectify, self.score.scale, *tables, self.seen_classifiers, self.n_seen_images, self.q)

    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """Record the loss at the end of a round and select the confident set of the next one."""
        self._round_loss += n_steps * loss
        if steps_done % self.adaptation.steps_per_round:
            return
        self.notes[-1]["loss"] = self._round_loss / self.adaptation.steps_per_round
        self._round_loss = 0.0
        if steps_done < self.adaptation.rounds * self.adaptation.steps_per_round:
            self._start_round()

    def memory(self) -> dict[str, Tensor]:
        """Return the confident set, the pseudo-labels and the loss of the current round."""
        return {
            "pool_rows": torch.from_numpy(self.pool.rows),
            "pool_labels": torch.from_numpy(self.pool.labels),
            "pseudo_labels": torch.from_numpy(self.pseudo_labels),
            "round_loss": torch.tensor(self._round_loss, dtype=torch.float64),
        }

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the round returned by :meth:`memory`; raises ``ModelError`` if it does not fit the unlabelled images."""
        rows, labels = memory["pool_rows"].numpy(), memory["pool_labels"].numpy()
        self.pool, self.pseudo_labels = Pool(rows, labels), memory["pseudo_labels"].numpy()
        self._round_loss = memory["round_loss"].item()
        fits = 0 < len(rows) == len(labels) and len(self.pseudo_labels) == len(self.unlabelled)
        if not fits or not (0 <= rows.min() <= rows.max() < len(self.unlabelled)):
            raise ModelError("its pseudo-labelled images do not fit the unlabelled images")
        if not 0 <= labels.min() <= labels.max() < len(self.unseen_vectors):
            raise ModelError("its pseudo-labels do not fit the unseen classes")

    @torch.no_grad()
    def _start_round(self) -> None:
        """Lines 3 to 5: pseudo-label the unlabelled images among the unseen classes and select the confident set."""
        scores = self.score(self.unlabelled, self.generator(self.unseen_vectors)).cpu().numpy()
        if not np.isfinite(scores).all():
            raise SightUnseenError("self-training diverged: some scores are not finite. Lower the learning rate.")
        rule = self.adaptation
        self.pool = trusted_pool(scores, rule.peakiness, rule.threshold, rule.best_per_class, rule.concatenated)
        if not len(self.pool.rows):
            raise DataError(
                f"no pseudo-label is confident: no unlabelled image has a ratio above {self.adaptation.threshold} (Eq. 5). "
                "Lower the threshold or set best_per_class to 5."
            )
        labels = scores.argmax(axis=1)
        changed = int((labels != self.pseudo_labels).sum())
        self.pseudo_labels = labels
        entry: dict[str, Any] = {"round": len(self.notes) + 1, "pool": len(self.pool.rows), "changed_labels": changed}
        if self.true_indices is not None:
            entry["pool_accuracy"] = float(np.mean(self.true_indices[self.pool.rows] == self.pool.labels))
        self.notes.append(entry)
