"""CADA-VAE: generalized zero- and few-shot learning via aligned variational autoencoders (Schönfeld et al., CVPR 2019)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.generative.autoencoders import GaussianEncoder, kl_divergence, reparametrised
from sightunseen.methods.generative.base import GenerativeClassifier
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import NumberedObjective
from sightunseen.training.episodes import ClassImages, draw_normal

# Fractions of training between which the weight of a term grows linearly; the authors give epochs, of 100.
KL_GROWS, CROSS_GROWS, ALIGNMENT_GROWS = (0.0, 0.93), (0.21, 0.75), (0.06, 0.22)
Gaussian = tuple[Tensor, Tensor]  # mean and log variances, each (n, z)


class AlignedAutoencoding(NumberedObjective):
    """Loss of :class:`CADAVAE` (Eq. 6): both autoencoders, cross-alignment and distribution alignment."""

    model: "CADAVAE"

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of a mini-batch of images and their class vectors."""
        features, vectors = self.features[batch["rows"]], self.vectors[self.targets[batch["rows"]]]
        shape = 2, len(features), self.model._noise_size
        noise = draw_normal(derive_seed(self.model.seed, "latent"), batch["step"], shape)
        return self.aligned(features, vectors, noise, (batch["step"] + 1) / self.model.n_steps)

    def aligned(self, features: Tensor, vectors: Tensor, noise: Tensor, progress: Tensor) -> Tensor:
        """Compute the loss of features (n, d) and vectors (n, a) with noise (2, n, z or 1) at a share of training."""
        model = self.model
        seen: tuple[Tensor, Tensor] = model.feature_encoder_(features)
        described: tuple[Tensor, Tensor] = model.vector_encoder_(vectors)
        latents = torch.cat([reparametrised(*seen, noise[0]), reparametrised(*described, noise[1])])  # (2n, z)
        images, classes = model.feature_decoder_(latents).chunk(2), model.vector_decoder_(latents).chunk(2)
        own = _error(images[0], features) + _error(classes[1], vectors)
        crossed = _error(images[1], features) + _error(classes[0], vectors)
        divergence = kl_divergence(*seen) + kl_divergence(*described)
        return (
            own
            + model.kl_weight * grown(progress, KL_GROWS) * divergence
            + model.cross_weight * grown(progress, CROSS_GROWS) * crossed
            + model.alignment_weight * grown(progress, ALIGNMENT_GROWS) * wasserstein(seen, described)
        )


class CADAVAE(GenerativeClassifier):
    """Cross and distribution aligned variational autoencoders (CADA-VAE): images and class vectors share a latent space.

    One variational autoencoder encodes features, another one class vectors. Besides reconstruction and KL divergence, the loss
    has two terms: the other decoder must be able to decode each latent vector (cross-alignment), and the two Gaussians of an
    image and its class must be close in Wasserstein distance (distribution alignment). Softmax classifiers then see latent
    vectors: of class vectors for unseen classes, of images for seen ones. The preset ``full`` has the authors' sizes and
    number of steps; the weights of the terms grow during training as theirs do.

    Differs from the paper: one random number per latent vector, as in the authors' code (``shared_noise``); Adam without its
    variant AMSGrad; images are scaled to unit length if a feature is negative, otherwise test features are clipped to the range
    of the training images; the defaults are narrower networks, a higher learning rate, fewer steps and at most 100 real images
    per seen class.

    Parameters
    ----------
    latent_size : int, default=64
        Length of the latent vectors.
    shared_noise : bool, default=True
        Whether the values of a latent vector are drawn with one random number, as in the authors' code, instead of one each.
    feature_encoder_hidden, feature_decoder_hidden : int, default=512
        Width of the hidden layer of encoder and decoder of features.
    vector_encoder_hidden, vector_decoder_hidden : int, default=512 and 256
        Width of the hidden layer of encoder and decoder of class vectors.
    kl_weight : float, default=0.25
        Final weight of the KL divergences.
    cross_weight : float, default=2.37
        Final weight of the cross-alignment.
    alignment_weight : float, default=8.13
        Final weight of the distribution alignment.
    n_synthesised : int, default=400
        Number of latent vectors per unseen class that the classifiers are trained on.
    n_latent : int, default=200
        Number of latent vectors per seen class that the final classifier is trained on, drawn from the kept images in turn.
    n_real : int or None, default=100
        Number of real images of each seen class, the first ones, that the final classifier is trained on and that are saved;
        None: all of them.
    classifier_steps : int, default=3000
        Number of gradient steps of each softmax classifier.
    final_classifier : {"softmax", "prototypes"}, default="softmax"
        Classifier that is trained on latent vectors: a softmax regression, or the cosine to prototypes that a network computes
        from class vectors (ZLAP).
    logit_adjustment : float or None, default=None
        Prior odds of seen against unseen classes, by which the scores are adjusted while the classifier among all classes is
        trained (zero-shot logit adjustment); None: no adjustment.
    n_steps : int, default=2500
        Number of gradient steps.
    batch_size : int, default=50
        Number of images per mini-batch.
    learning_rate : float, default=5e-4
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="constant"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    feature_scaling : {"auto", "none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="auto"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`. ``"auto"`` is ``"range"`` if no feature is negative,
        otherwise ``"unit"``.
    semantic_norm : float, "sqrt" or None, default=1.0
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
        ``"feature_encoder"``, ``"feature_decoder"``, ``"vector_encoder"`` and ``"vector_decoder"``.
    feature_encoder_, vector_encoder_ : GaussianEncoder
        The encoders.
    feature_decoder_, vector_decoder_ : Perceptron
        The decoders.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import CADAVAE
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = CADAVAE(n_steps=20, classifier_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    version = 2
    presets = {
        FULL: Preset(
            {
                "feature_encoder_hidden": 1560,
                "feature_decoder_hidden": 1660,
                "vector_encoder_hidden": 1450,
                "vector_decoder_hidden": 660,
                "n_real": None,
                "n_steps": 14_000,
                "learning_rate": 1.5e-4,
            },
            search={"kl_weight": (0.05, 0.25)},
        )
    }

    def __init__(
        self,
        latent_size: int = 64,
        shared_noise: bool = True,
        feature_encoder_hidden: int = 512,
        feature_decoder_hidden: int = 512,
        vector_encoder_hidden: int = 512,
        vector_decoder_hidden: int = 256,
        kl_weight: float = 0.25,
        cross_weight: float = 2.37,
        alignment_weight: float = 8.13,
        n_synthesised: int = 400,
        n_latent: int = 200,
        n_real: int | None = 100,
        classifier_steps: int = 3000,
        final_classifier: str = "softmax",
        logit_adjustment: float | None = None,
        n_steps: int = 2500,
        batch_size: int = 50,
        learning_rate: float = 5e-4,
        schedule: str = "constant",
        feature_scaling: str = "auto",
        semantic_norm: float | str | None = 1.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.latent_size = latent_size
        self.shared_noise = shared_noise
        self.feature_encoder_hidden = feature_encoder_hidden
        self.feature_decoder_hidden = feature_decoder_hidden
        self.vector_encoder_hidden = vector_encoder_hidden
        self.vector_decoder_hidden = vector_decoder_hidden
        self.kl_weight = kl_weight
        self.cross_weight = cross_weight
        self.alignment_weight = alignment_weight
        self.n_synthesised = n_synthesised
        self.n_latent = n_latent
        self.n_real = n_real
        self.classifier_steps = classifier_steps
        self.final_classifier = final_classifier
        self.logit_adjustment = logit_adjustment
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        widths = [f"{what}_{part}_hidden" for what in ("feature", "vector") for part in ("encoder", "decoder")]
        for name in (*widths, "latent_size", "n_latent", "batch_size"):
            check_whole(name, getattr(self, name), 1, SIZE)
        for name in ("kl_weight", "cross_weight", "alignment_weight"):
            check_number(name, getattr(self, name), 0)
        check_choice("shared_noise", self.shared_noise, (True, False))

    @property
    def _noise_size(self) -> int:
        """Number of random numbers of a latent vector."""
        return 1 if self.shared_noise else self.latent_size

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        d, a, z = int(self.n_features_in_), self.table_.vectors.shape[1], self.latent_size
        self.feature_encoder_ = GaussianEncoder((d, self.feature_encoder_hidden, z), rng)
        self.feature_decoder_ = Perceptron((z, self.feature_decoder_hidden, d), rng)
        self.vector_encoder_ = GaussianEncoder((a, self.vector_encoder_hidden, z), rng)
        self.vector_decoder_ = Perceptron((z, self.vector_decoder_hidden, a), rng)
        networks = {
            "feature_encoder": self.feature_encoder_,
            "feature_decoder": self.feature_decoder_,
            "vector_encoder": self.vector_encoder_,
            "vector_decoder": self.vector_decoder_,
        }
        for network in networks.values():
            for layer in network.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.xavier_uniform_(layer.weight, gain=0.5, generator=rng)  # as in the authors' code
        return networks

    def _objective(self, X: Tensor, targets: Tensor) -> AlignedAutoencoding:
        self._keep_images(X, targets)
        return AlignedAutoencoding(self, X, targets)

    def _synthesise(self, labels: Labels) -> Tensor:
        mean, log_variance = self.vector_encoder_(self._conditions(labels))
        return reparametrised(mean, log_variance, self._noise(labels, self._noise_size)).flatten(0, 1)

    def _represent(self, X: Tensor) -> Tensor:
        mean: Tensor = self.feature_encoder_(X)[0]
        return mean

    def _real(self) -> tuple[Tensor, Tensor]:
        images = ClassImages.of(self._image_targets)
        turns = torch.arange(self.n_latent, device=self._device) % images.count[:, None]  # (s, n_latent)
        rows = images.rows[(images.start[:, None] + turns).flatten()]
        step = torch.zeros((), dtype=torch.long, device=self._device)
        noise = draw_normal(derive_seed(self.seed, "latent of images"), step, (len(rows), self._noise_size))
        mean, log_variance = self.feature_encoder_(self._images[rows].to(torch.float32))
        return reparametrised(mean, log_variance, noise), self._image_targets[rows]


def grown(progress: Tensor, between: tuple[float, float]) -> Tensor:
    """Grow linearly from 0 to 1 between two shares of training.

    Parameters
    ----------
    progress : Tensor of shape ()
        Share of training, from 0 to 1.
    between : tuple of float
        Shares at which growth starts and ends.

    Returns
    -------
    Tensor of shape ()
        Number from 0 to 1.
    """
    start, end = between
    return ((progress - start) / (end - start)).clamp(0, 1)


def wasserstein(one: Gaussian, other: Gaussian) -> Tensor:
    """Compute the mean 2-Wasserstein distance between diagonal Gaussians (Eq. 4).

    Parameters
    ----------
    one, other : tuple of Tensor
        Means and log variances, each of shape (n, z).

    Returns
    -------
    Tensor of shape ()
        The distance, averaged over images.
    """
    means = (one[0] - other[0]).square().sum(dim=1)
    deviations = ((0.5 * one[1]).exp() - (0.5 * other[1]).exp()).square().sum(dim=1)
    return torch.sqrt(means + deviations + 1e-12).mean()  # the gradient stays finite where the Gaussians are equal


def _error(found: Tensor, wanted: Tensor) -> Tensor:
    """Compute the L1 error, summed over dimensions and averaged over images."""
    return (found - wanted).abs().sum(dim=1).mean()
