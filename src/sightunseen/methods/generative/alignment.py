"""Losses of Bi-VAEGAN: alignment of features and of class vectors, each by a critic of its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from sightunseen.core.class_table import Labels
from sightunseen.core.errors import ModelError
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.generative.class_prior import class_means, clustered, shares_of
from sightunseen.methods.generative.critics import critic_terms
from sightunseen.methods.generative.final_classifiers import train_softmax
from sightunseen.methods.generative.unlabelled import UnlabelledTraining
from sightunseen.methods.generative.vaegan import VAEGANTraining
from sightunseen.methods.shared.adversarial import frozen

if TYPE_CHECKING:
    from sightunseen.methods.generative.bivaegan import BiVAEGAN

SEMANTIC_UNITS = 100  # hidden units of the critic of class vectors, as in the authors' code
SEMANTIC_PENALTY = 0.1  # weight of its gradient penalty


def regression_loss(regressed: Tensor, vectors: Tensor) -> Tensor:
    """Compute the weighted L1 distance of regressed class vectors from those of the classes, as in the authors' code.

    Each absolute difference is multiplied by its square and divided by the L2 norm of all differences. It is far smaller than
    the L1 distance of the paper; the default weights of the losses suit it.

    Parameters
    ----------
    regressed : Tensor of shape (n, a)
        Vectors of unit length that the regressor computes.
    vectors : Tensor of shape (n, a)
        Class vectors of any length.

    Returns
    -------
    Tensor of shape ()
        The distance, averaged over images.
    """
    differences = (regressed - functional.normalize(vectors, dim=1)).abs()
    lengths = torch.sqrt(differences.square().sum(dim=1) + 1e-12)  # the gradient stays finite where there is no difference
    return ((differences**3).sum(dim=1) / lengths).mean()


class RegressorTraining(VAEGANTraining):
    """Losses of :class:`BiVAEGAN` in ``fit``: those of the VAE-GAN, and of the regressor in the turn of the generator."""

    model: "BiVAEGAN"

    def opponent_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of encoder and generator plus that of the regressor on real features."""
        regressed = self.model.regressor_(self.features[batch["rows"]])
        return super().opponent_step(batch) + regression_loss(regressed, self.vectors_of(batch))


class AlignedTraining(UnlabelledTraining):
    """Losses of :class:`BiVAEGAN` in ``adapt``: alignment of features and of class vectors, each by a critic of its own.

    Parameters
    ----------
    seen : RegressorTraining
        Losses on images of seen classes.
    features : Tensor of shape (m, d)
        Features of the unlabelled images.
    unseen : ndarray of shape (u,)
        Labels of the unseen classes.
    unseen_weight : float
        Weight of the critic of features in the loss of the generator.
    batch_size : int
        Number of seen images, and of unlabelled images, per mini-batch.
    regression_weight : float
        Weight of the regression of generated features of unseen classes in the loss of the generator.
    semantic_weight : float
        Weight of the critic of class vectors in the loss of the regressor.
    round_size : int, default=None
        Number of steps after which the prior of the unseen classes is estimated again; None: it stays as it is.
    n_steps : int, default=0
        Number of steps of the training; at its end nothing is estimated.
    """

    model: "BiVAEGAN"

    def __init__(
        self,
        seen: RegressorTraining,
        features: Tensor,
        unseen: Labels,
        unseen_weight: float,
        batch_size: int,
        regression_weight: float,
        semantic_weight: float,
        round_size: int | None = None,
        n_steps: int = 0,
    ) -> None:
        vectors = seen.model._vectors_on_device(unseen)
        super().__init__(seen, features, vectors, unseen_weight, batch_size)
        self.unseen, self.round_size, self.n_steps = unseen, round_size, n_steps
        self.regression_weight, self.semantic_weight = regression_weight, semantic_weight
        self.semantic_critic = self.make_critic("semantic critic", vectors.shape[1], SEMANTIC_UNITS)
        self.parameters = [*self.parameters, *self.semantic_critic.parameters()]
        self.clusters = torch.full((len(features),), -1, device=features.device)
        self.round_loss = 0.0  # sum over the steps of the current round
        if round_size is not None:
            self.start_round()

    def images(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the seen and the unlabelled images (2n, d) of a batch."""
        return torch.cat([self.seen.features[batch["rows"]], self.features[batch["unlabelled"]]])

    def critics_loss(self, batch: Mapping[str, Tensor], vectors: Tensor, noise: Tensor) -> Tensor:
        """Compute the losses of the critic of features and of the critic of class vectors."""
        with torch.no_grad():
            fake = self.model.regressor_(self.images(batch))
        real = functional.normalize(torch.cat([self.seen.vectors_of(batch), vectors]), dim=1)
        share = self.between(batch).repeat(2, 1)
        return super().critics_loss(batch, vectors, noise) + self.semantic_critic_loss(real, fake, share)

    def semantic_critic_loss(self, real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
        """Compute the loss of the critic of class vectors for vectors of classes and of images, each (2n, a)."""
        distance, penalty = critic_terms(self.semantic_critic, real, fake, real[:, :0], share)
        return SEMANTIC_PENALTY * penalty - 2 * distance  # the sum of the distances of seen and of unlabelled images

    def opponents_loss(self, batch: Mapping[str, Tensor], vectors: Tensor, noise: Tensor) -> Tensor:
        """Compute the losses of the generator on unseen classes and of the regressor on the critic of class vectors."""
        return super().opponents_loss(batch, vectors, noise) + self.regressor_loss(self.images(batch))

    def generator_loss(self, fake: Tensor, vectors: Tensor) -> Tensor:
        """Compute the loss of the generator for fake features of unseen classes, which must be regressed to ``vectors``."""
        with frozen(self.model.regressor_):
            regression = regression_loss(self.model.regressor_(fake), vectors)
        return super().generator_loss(fake, vectors) + self.regression_weight * regression

    def regressor_loss(self, images: Tensor) -> Tensor:
        """Compute the adversarial loss of the regressor for seen and unlabelled images (2n, d)."""
        with frozen(self.semantic_critic):
            value: Tensor = self.semantic_critic(self.model.regressor_(images)).mean()
        return -2 * self.semantic_weight * value  # the sum of the means of seen and of unlabelled images

    def after_chunk(self, steps_done: int, n_steps: int, loss: float) -> None:
        """Record the loss at the end of a round and estimate the prior of the next one."""
        if self.round_size is None:
            return
        self.round_loss += n_steps * loss
        if steps_done % self.round_size == 0 or steps_done == self.n_steps:
            self.notes[-1]["loss"] = self.round_loss / (steps_done - (len(self.notes) - 1) * self.round_size)
            self.round_loss = 0.0
            if steps_done < self.n_steps:
                self.start_round()

    @torch.no_grad()
    def start_round(self) -> None:
        """Estimate the prior of the unseen classes by clustering the unlabelled images (CPE).

        K-means starts at the mean of the images that a classifier of synthesised features assigns to a class, or at the mean of
        the synthesised features if there are none.
        """
        model, n_classes = self.model, len(self.unseen)
        synthesised = model._synthesise(self.unseen)
        targets = torch.arange(n_classes, device=synthesised.device).repeat_interleave(model.n_synthesised)
        seed = derive_seed(self.seed, "prior")
        weight, bias = train_softmax(synthesised, targets, n_classes, seed, model.classifier_steps)
        points = model._represent(self.features)
        predicted = (points @ weight.T + bias).argmax(dim=1)
        means = synthesised.reshape(n_classes, model.n_synthesised, -1).mean(dim=1)
        clusters = clustered(points, class_means(points, predicted, means))
        self.notes.append({"round": len(self.notes) + 1, "changed_labels": int((clusters != self.clusters).sum())})
        self.clusters = clusters
        self.shares.copy_(shares_of(clusters, n_classes))

    def memory(self) -> dict[str, Tensor]:
        """Return the state of the current round besides that of :class:`UnlabelledTraining`."""
        own = {"clusters": self.clusters.cpu(), "round_loss": torch.tensor(self.round_loss, dtype=torch.float64)}
        return {**super().memory(), **own}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the state returned by :meth:`memory`; raises ``ModelError`` if it does not fit the unlabelled images."""
        super().remember(memory)
        if memory["clusters"].shape != self.clusters.shape:
            raise ModelError("its clusters do not fit the unlabelled images")
        self.clusters = memory["clusters"].to(self.clusters.device)
        self.round_loss = memory["round_loss"].item()
