"""Bi-VAEGAN: bi-directional distribution alignment for transductive zero-shot learning (Wang et al., CVPR 2023)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.generative.alignment import AlignedTraining, RegressorTraining
from sightunseen.methods.generative.autoencoders import SemanticDecoder
from sightunseen.methods.generative.class_prior import ESTIMATED, KNOWN, Shares, by_label, check_prior, known_shares
from sightunseen.methods.generative.critics import initialised
from sightunseen.methods.generative.fvaegan import FVAEGAN
from sightunseen.training import Objective, Optimisation


class BiVAEGAN(FVAEGAN):
    """VAE-GAN with bi-directional distribution alignment (Bi-VAEGAN), for transductive zero-shot learning.

    Features have unit length. :meth:`fit` trains the VAE-GAN of :class:`FVAEGAN` and a regressor R from
    features to class vectors. :meth:`adapt` then aligns unlabelled images with the unseen classes in both directions:

    - A critic D2 tells unlabelled images from features that are generated for unseen classes; these must also be regressed to
      the vectors of their classes.
    - A critic Da tells class vectors from those that R computes for seen and unlabelled images.

    Unseen classes are drawn from a prior: ``"estimated"`` clusters the unlabelled images by k-means that starts at the means of
    the predicted classes, anew in every round; ``"known"`` takes the shares that you give in ``class_shares``; ``"uniform"``
    gives all classes the same share. The classifiers see features, the hidden layer of R and its output side by side.

    The hyperparameters of :meth:`adapt` are ``prior``, ``class_shares``, ``rounds``, ``unseen_weight``, ``regression_weight``,
    ``semantic_weight``, ``n_steps``, ``learning_rate`` and ``batch_size``.

    Differs from the paper: the losses of regressed vectors are weighted L1 distances, with weights as for CUB in
    the authors' code (for AwA it has a ``regression_weight`` and a ``semantic_weight`` of 1); :meth:`adapt` always starts from
    the inductive model; the encoder is that of :class:`FVAEGAN`; the critic Da is updated along with the other critics, about
    eight times as often as in the authors' code; squared errors of reconstructed features are summed over dimensions, in the
    code averaged over dimensions and images and so negligible; interpolated features of the gradient penalty are not
    normalised; the prior is estimated once in each of ``rounds`` rounds instead of after every epoch, with one image added to
    each class; Adam without weight decay; the defaults are narrower networks, a higher learning rate, a lower
    ``adversarial_weight``, class vectors of length 5 as input, far shorter training and at most 100 real images per seen class.

    Parameters
    ----------
    hidden : int, default=512
        Width of the hidden layers.
    latent_size : int or None, default=None
        Length of the latent vector z; None: that of the class vectors.
    n_synthesised : int, default=100
        Number of features synthesised per unseen class.
    n_real : int or None, default=100
        Number of real images of each seen class, the first ones, that the final classifier is trained on and that are saved;
        None: all of them.
    classifier_steps : int, default=600
        Number of gradient steps of each softmax classifier.
    final_classifier : {"softmax", "prototypes"}, default="softmax"
        Classifier that is trained on synthesised features: a softmax regression, or the cosine to prototypes that a network
        computes from class vectors (ZLAP).
    logit_adjustment : float or None, default=None
        Prior odds of seen against unseen classes, by which the scores are adjusted while the classifier among all classes is
        trained (zero-shot logit adjustment); None: no adjustment.
    critic_steps : int, default=5
        Number of steps of the critics between two steps of their opponents.
    gradient_penalty : float, default=10.0
        Weight of the gradient penalty of the critics of features.
    adaptive_penalty : bool, default=True
        Whether this weight grows by a tenth after each cycle with a mean penalty above 1.05 and shrinks below 1.001.
    adversarial_weight : float, default=1.0
        Weight of the critic's value in the loss of the generator.
    n_steps : int, default=2400
        Number of gradient steps, those of the critic included.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="constant"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    momentum : float, default=0.5
        Adam's beta 1; adversarial training needs a lower value than the usual 0.9.
    feature_scaling : {"auto", "none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`. With ``"unit"`` generated features have unit length.
    semantic_norm : float, "sqrt" or None, default=5.0
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled. Regressed vectors have unit length and are compared with class vectors of unit length.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    seed : int, default=0
        Seed from which all random numbers are derived.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training and prediction; ``"auto"`` uses a GPU if there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    networks_ : dict
        ``"encoder"``, ``"generator"``, ``"critic"`` and ``"regressor"`` (R).
    encoder_, generator_, critic_, regressor_ : torch.nn.Module
        The same networks.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import BiVAEGAN
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = BiVAEGAN(n_steps=24, classifier_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.adapt(data.test_unseen.X, prior="uniform", n_steps=24).is_adapted
    True
    """

    adaptation_space = {}
    presets = {
        FULL: Preset(
            {
                "hidden": 4096,
                "n_steps": 66_000,  # with those of the adaptation, 300 epochs of CUB
                "learning_rate": 2e-4,
                "adversarial_weight": 10.0,
                "semantic_norm": 1.0,
                "n_synthesised": 400,
                "n_real": None,
                "classifier_steps": 2000,
            },
            adaptation={"n_steps": 132_000, "learning_rate": 2e-4, "rounds": 20},
        )
    }

    def __init__(
        self,
        hidden: int = 512,
        latent_size: int | None = None,
        n_synthesised: int = 100,
        n_real: int | None = 100,
        classifier_steps: int = 600,
        final_classifier: str = "softmax",
        logit_adjustment: float | None = None,
        critic_steps: int = 5,
        gradient_penalty: float = 10.0,
        adaptive_penalty: bool = True,
        adversarial_weight: float = 1.0,
        n_steps: int = 2400,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        schedule: str = "constant",
        momentum: float = 0.5,
        feature_scaling: str = "unit",
        semantic_norm: float | str | None = 5.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(
            hidden=hidden,
            latent_size=latent_size,
            n_synthesised=n_synthesised,
            n_real=n_real,
            classifier_steps=classifier_steps,
            final_classifier=final_classifier,
            logit_adjustment=logit_adjustment,
            critic_steps=critic_steps,
            gradient_penalty=gradient_penalty,
            adaptive_penalty=adaptive_penalty,
            adversarial_weight=adversarial_weight,
            n_steps=n_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            momentum=momentum,
            feature_scaling=feature_scaling,
            semantic_norm=semantic_norm,
            seen_penalty=seen_penalty,
            seed=seed,
            device=device,
        )

    def check_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Validate hyperparameters of :meth:`adapt`; see :class:`AdaptableClassifier`."""
        super().check_adaptation(settings)
        known = {**self.adaptation_defaults(), **settings}
        check_prior(known["prior"], known["class_shares"])
        for name in ("regression_weight", "semantic_weight"):
            check_number(name, known[name], 0)
        check_whole("rounds", known["rounds"], 1, SIZE)

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _last_activation(self) -> str:
        """Activation after the last layer of the generator: L2 normalisation where features have unit length."""
        return "unit" if self.scaling_.kind == "unit" else super()._last_activation

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        networks = super()._make_networks(rng)
        self.regressor_ = SemanticDecoder(int(self.n_features_in_), self.hidden, self.table_.vectors.shape[1], rng)
        return {**networks, "regressor": initialised(self.regressor_, rng)}

    def _training(self, X: Tensor, targets: Tensor) -> RegressorTraining:
        return RegressorTraining(self, X, targets)

    def _represent(self, X: Tensor) -> Tensor:
        hidden = self.regressor_.hidden(X)
        return torch.cat([X, hidden, self.regressor_.decoded(hidden)], dim=1)

    def _note_adaptation(self, settings: Mapping[str, Any]) -> None:
        shares = settings.get("class_shares")
        if shares is not None:  # model.json holds lists, not mappings
            settings = {**settings, "class_shares": [f"{label}={share}" for label, share in by_label(shares).items()]}
        super()._note_adaptation(settings)

    def _adaptation(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        true_indices: NDArray[np.int64] | None,
        *,
        prior: str = ESTIMATED,
        class_shares: Shares | None = None,
        rounds: int = 5,
        unseen_weight: float = 10.0,
        regression_weight: float = 10.0,
        semantic_weight: float = 0.1,
        n_steps: int = 1800,
        learning_rate: float = 1e-3,
        batch_size: int = 64,
    ) -> tuple[Objective, Optimisation]:
        """Prepare training with critics of unlabelled images and of their class vectors.

        Parameters
        ----------
        prior : {"uniform", "known", "estimated"}, default="estimated"
            Shares of the unseen classes among the unlabelled images: all the same, given, or estimated by clustering.
        class_shares : mapping of label to float or sequence of str, default=None
            Shares of the classes if they are known, by label or as texts such as "cat=0.2"; they need not sum to one.
        rounds : int, default=5
            Largest number of rounds of equal length, at the start of which the shares are estimated.
        unseen_weight : float, default=10.0
            Weight of the critic of features in the loss of the generator.
        regression_weight : float, default=10.0
            Weight of the regression of generated features in the loss of the generator.
        semantic_weight : float, default=0.1
            Weight of the critic of class vectors in the loss of the regressor.
        n_steps : int, default=1800
            Number of gradient steps, those of the critics included.
        learning_rate : float, default=0.001
            Learning rate of Adam.
        batch_size : int, default=64
            Number of seen images, and of unlabelled images, per mini-batch.
        """
        optimisation = Optimisation(n_steps, learning_rate, self.schedule, momentum=self.momentum)
        objective = AlignedTraining(
            self._training(self._on_device(X_seen).contiguous(), self._indices(self.seen_classes_, y_seen)),
            self._on_device(X),
            unseen,
            unseen_weight,
            batch_size,
            regression_weight,
            semantic_weight,
            round_size=-(-n_steps // rounds) if prior == ESTIMATED else None,
            n_steps=n_steps,
        )
        if prior == KNOWN and class_shares is not None:
            objective.shares.copy_(torch.tensor(known_shares(class_shares, unseen)))
        return objective, optimisation
