"""TF-VAEGAN: latent embedding feedback and discriminative features (Narayan, Gupta, Khan, Snoek & Shao, ECCV 2020)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_number
from sightunseen.core.class_table import Labels
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.generative.autoencoders import SemanticDecoder, semantic_loss
from sightunseen.methods.generative.critics import initialised
from sightunseen.methods.generative.fvaegan import FVAEGAN
from sightunseen.methods.generative.vaegan import VAEGANTraining
from sightunseen.methods.shared.networks import ACTIVATIONS, Perceptron


class FeedbackTraining(VAEGANTraining):
    """Losses of :class:`TFVAEGAN`: cycles without and with feedback in alternation.

    A cycle has ``critic_steps`` steps of critic and decoder, then one of encoder, generator and decoder, and of the feedback
    module in cycles with feedback.

    Parameters
    ----------
    model : TFVAEGAN
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    """

    model: "TFVAEGAN"

    def __init__(self, model: "TFVAEGAN", features: Tensor, targets: Tensor) -> None:
        super().__init__(model, features, targets)
        self.turns = 2 * (model.critic_steps + 1)
        self.with_feedback = False

    def loss_in_turn(self, batch: Mapping[str, Tensor], turn: int) -> Tensor:
        """Compute the loss of critic and decoder or, in the last turn of a cycle, of the other networks."""
        self.with_feedback = turn > self.model.critic_steps
        return super().loss_in_turn(batch, turn)

    def generated(self, latent: Tensor, vectors: Tensor) -> Tensor:
        """Generate features (n, d), in cycles with feedback by two passes."""
        inputs = torch.cat([latent, vectors], dim=1)
        return self.model._with_feedback(inputs) if self.with_feedback else super().generated(latent, vectors)

    def critic_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the critic plus that of the decoder on real features."""
        decoded = self.model.decoder_(self.features[batch["rows"]])
        return super().critic_step(batch) + self.model.cycle_weight * semantic_loss(decoded, self.vectors_of(batch))

    def further_loss(self, fake: Tensor, vectors: Tensor) -> Tensor:
        """Compute the cycle consistency of fake features."""
        return self.model.cycle_weight * semantic_loss(self.model.decoder_(fake), vectors)


class TFVAEGAN(FVAEGAN):
    """VAE-GAN with feedback from a semantic decoder (TF-VAEGAN), which also provides features for the classifiers.

    To :class:`FVAEGAN`, a decoder Dec from features to class vectors is added:

    - Cycle consistency: generated features must be decoded to the vector of their class (Eq. 3).
    - Feedback: a module F maps the hidden layer of Dec to an addition to the hidden layer of the generator (Eq. 4), so that
      features are generated in two passes. Training alternates between cycles with and without feedback.
    - The classifiers see features and, side by side, the hidden layer and the output of Dec.

    The preset ``full`` has the authors' sizes and half of their steps. :meth:`adapt` is that of :class:`FVAEGAN`.

    Differs from the paper: training alternates after every cycle instead of every epoch; the generator starts at the mean
    features; images are scaled to unit length if a feature is negative; Adam's beta 1 is the same for all networks; the
    defaults are narrower networks, a higher learning rate, a lower adversarial weight, far shorter training and at most 100
    real images per seen class. The L1 distance of class vectors is the paper's; the authors' code weights each difference by
    its size, which makes the loss far smaller.

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
        Number of steps of the critic between two steps of its opponent.
    gradient_penalty : float, default=10.0
        Weight of the critic's gradient penalty.
    adaptive_penalty : bool, default=True
        Whether this weight grows by a tenth after each cycle with a mean penalty above 1.05 and shrinks below 1.001.
    adversarial_weight : float, default=1.0
        Weight of the critic's value in the loss of the generator.
    cycle_weight : float, default=0.01
        Weight of the decoder's losses on real and generated features, and of cycle consistency in the loss of the generator. 0
        leaves the decoder, which the classifiers use, untrained.
    feedback_weight : float, default=1.0
        Factor of the addition to the hidden layer of the generator.
    feedback_rate : float, default=0.1
        Learning rate of the feedback module relative to ``learning_rate``.
    n_steps : int, default=2400
        Number of gradient steps, those of the critic included.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=4e-4
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="constant"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    momentum : float, default=0.5
        Adam's beta 1; adversarial training needs a lower value than the usual 0.9.
    feature_scaling : {"auto", "none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="auto"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`. ``"auto"`` is ``"range"`` if no feature is negative,
        otherwise ``"unit"``.
    semantic_norm : float, "sqrt" or None, default=5.0
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
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
        ``"encoder"``, ``"generator"``, ``"critic"``, ``"decoder"`` (Dec) and ``"feedback"`` (F).
    encoder_, generator_, critic_, decoder_, feedback_ : torch.nn.Module
        The same networks.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import TFVAEGAN
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = TFVAEGAN(n_steps=24, classifier_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    version = 3
    presets = {
        FULL: Preset(
            FVAEGAN.presets[FULL].settings,  # 300 epochs of CUB, every other cycle with feedback
            FVAEGAN.presets[FULL].adaptation,
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
        cycle_weight: float = 0.01,
        feedback_weight: float = 1.0,
        feedback_rate: float = 0.1,
        n_steps: int = 2400,
        batch_size: int = 64,
        learning_rate: float = 4e-4,
        schedule: str = "constant",
        momentum: float = 0.5,
        feature_scaling: str = "auto",
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
        self.cycle_weight = cycle_weight
        self.feedback_weight = feedback_weight
        self.feedback_rate = feedback_rate

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        for name in ("cycle_weight", "feedback_weight"):
            check_number(name, getattr(self, name), 0)
        check_number("feedback_rate", self.feedback_rate, 1e-6)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        networks = super()._make_networks(rng)
        self.decoder_ = SemanticDecoder(int(self.n_features_in_), self.hidden, self.table_.vectors.shape[1], rng)
        self.feedback_ = Perceptron((self.hidden, self.hidden, self.hidden), rng, "leaky relu", "leaky relu")
        for network in (self.decoder_, self.feedback_):
            initialised(network, rng)
        with torch.no_grad():  # see _feedback
            for layer in self.feedback_.layers:
                layer.weight /= self.feedback_rate
        return {**networks, "decoder": self.decoder_, "feedback": self.feedback_}

    def _training(self, X: Tensor, targets: Tensor) -> FeedbackTraining:
        return FeedbackTraining(self, X, targets)

    def _feedback(self, features: Tensor) -> Tensor:
        """Compute the addition (n, h) to the hidden layer of the generator for features (n, d) of the first pass."""
        with torch.no_grad():
            hidden = self.decoder_.hidden(features)
        # A step of Adam has the size of the learning rate. Weights that are larger by a factor, in layers whose outputs are
        # multiplied by its inverse, therefore learn as with a lower rate, and so do their biases. Leaky ReLUs are homogeneous.
        added: Tensor = self.feedback_weight * self.feedback_rate * self.feedback_(hidden, (1.0, self.feedback_rate))
        return added

    def _with_feedback(self, inputs: Tensor) -> Tensor:
        """Generate features (n, d) from noise and class vectors, side by side, in two passes."""
        first, last = self.generator_.layers
        hidden = ACTIVATIONS[self.generator_.activation](first(inputs))
        with torch.no_grad():
            features = ACTIVATIONS[self.generator_.last](last(hidden))
        return ACTIVATIONS[self.generator_.last](last(hidden + self._feedback(features)))

    def _generate(self, labels: Labels) -> Tensor:
        return self._with_feedback(self._generator_inputs(labels, self._latent))

    def _represent(self, X: Tensor) -> Tensor:
        hidden = self.decoder_.hidden(X)
        return torch.cat([X, hidden, self.decoder_.decoded(hidden)], dim=1)
