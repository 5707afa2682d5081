"""CE-GZSL: contrastive embedding for generalized zero-shot learning (Han, Fu, Chen & Yang, CVPR 2021)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_number, check_positive, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.generative.base import GenerativeClassifier
from sightunseen.methods.generative.contrastive import class_loss, instance_loss
from sightunseen.methods.generative.critics import ConditionalWGAN, initialised, start_at_mean
from sightunseen.methods.shared.adversarial import frozen
from sightunseen.methods.shared.networks import Perceptron


class ContrastiveTraining(ConditionalWGAN):
    """Losses of :class:`CEGZSL`: ``critic_steps`` steps of critic and embedding on real images, then one of the generator."""

    model: "CEGZSL"

    def critic_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the losses of the critic and, on real images, of the networks of the embedding."""
        real, targets = self.features[batch["rows"]], self.targets[batch["rows"]]
        embeddings = self.model.embedding_(real)
        contrast = instance_loss(self.model.projection_(embeddings), targets, self.model.instance_temperature)
        return super().critic_step(batch) + contrast + self.class_loss(embeddings, targets)

    def opponent_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the generator."""
        vectors = self.vectors_of(batch)
        fake = self.model.generator_(torch.cat([self.noise(batch), vectors], dim=1))  # (n, d)
        return self.generator_loss(fake, self.features[batch["rows"]], self.targets[batch["rows"]])

    def generator_loss(self, fake: Tensor, real: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss of the generator for fake and real features (n, d) of classes (n,)."""
        model = self.model
        with frozen(model.embedding_, model.projection_, model.comparator_):
            embeddings = model.embedding_(fake)
            with torch.no_grad():
                projections_of_real = model.projection_(model.embedding_(real))
            projections = torch.cat([model.projection_(embeddings), projections_of_real])
            instances = instance_loss(projections, torch.cat([targets, targets]), model.instance_temperature)
            classes = self.class_loss(embeddings, targets)
        contrast = model.instance_level_weight * instances + model.class_level_weight * classes
        return contrast - self.realness(fake, self.vectors[targets])

    def class_loss(self, embeddings: Tensor, targets: Tensor) -> Tensor:
        """Compute the class-level loss of embeddings (n, k) among the seen classes."""
        return class_loss(self.model.comparator_, embeddings, targets, self.vectors, self.model.class_temperature)


class CEGZSL(GenerativeClassifier):
    """Contrastive embedding (CE-GZSL): a conditional Wasserstein GAN synthesises features; a softmax classifies embeddings.

    An embedding network E is trained along with the critic, by two contrastive losses on real images: images of a class should
    be similar after a projection H of their embeddings (instance level), and a comparator F should prefer the vector of an
    image's class to those of the other seen classes (class level). The generator minimises both losses of its images besides
    the adversarial loss. Softmax classifiers are then trained on embeddings E(x): among unseen classes on synthesised features
    (ZSL), and among all classes on these and on real features of seen classes (GZSL). The preset ``full`` has the authors'
    sizes, weights and number of steps.

    Differs from the paper: an image is contrasted with all images of a batch, with every other one of its class as a positive,
    as in the authors' code; the generator starts at the mean features; images are scaled to unit length if a feature is
    negative; smaller networks and batches, noise of 312 values, a higher learning rate, larger weights of the generator's
    contrastive losses and far fewer steps by default; ``full`` has class vectors with the norm of the noise, batches of 512
    images instead of 2,048 and no decay of the learning rate (1 % per 2,400 steps in the authors' code).

    Parameters
    ----------
    hidden : int, default=512
        Width of the hidden layer of generator and critic.
    noise_size : int or None, default=312
        Length of the noise vector z; None: that of the class vectors.
    embedding_size : int, default=512
        Number of values of an embedding.
    projection_size : int, default=128
        Number of values of its projection.
    comparator_hidden : int, default=128
        Width of the hidden layer of the comparator.
    instance_level_weight : float, default=0.1
        Weight of the instance-level loss in the loss of the generator.
    class_level_weight : float, default=0.1
        Weight of the class-level loss in the loss of the generator.
    instance_temperature : float, default=0.1
        Divisor of the cosines of the instance-level loss.
    class_temperature : float, default=0.1
        Divisor of the scores of the class-level loss.
    n_synthesised : int, default=100
        Number of features synthesised per unseen class.
    n_real : int or None, default=100
        Number of real images of each seen class, the first ones, that the final classifier is trained on and that are saved;
        None: all of them.
    classifier_steps : int, default=600
        Number of gradient steps of each final classifier.
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
    feature_scaling : {"auto", "none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="auto"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`. ``"auto"`` is ``"range"`` if no feature is negative,
        otherwise ``"unit"``. With ``"range"`` the generator ends in a ReLU.
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
        ``"generator"`` (G), ``"critic"`` (D), ``"embedding"`` (E), ``"projection"`` (H) and ``"comparator"`` (F).
    generator_, critic_, embedding_, projection_, comparator_ : Perceptron
        The same networks.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import CEGZSL
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = CEGZSL(n_steps=20, classifier_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    version = 2
    presets = {
        FULL: Preset(
            {
                "hidden": 4096,
                "noise_size": None,
                "embedding_size": 2048,
                "projection_size": 512,
                "comparator_hidden": 2048,
                "instance_level_weight": 0.001,
                "class_level_weight": 0.001,
                "n_real": None,
                "classifier_steps": 2000,
                "n_steps": 48_000,
                "batch_size": 512,
                "learning_rate": 1e-4,
                "semantic_norm": "sqrt",
            }
        )
    }

    def __init__(
        self,
        hidden: int = 512,
        noise_size: int | None = 312,
        embedding_size: int = 512,
        projection_size: int = 128,
        comparator_hidden: int = 128,
        instance_level_weight: float = 0.1,
        class_level_weight: float = 0.1,
        instance_temperature: float = 0.1,
        class_temperature: float = 0.1,
        n_synthesised: int = 100,
        n_real: int | None = 100,
        classifier_steps: int = 600,
        final_classifier: str = "softmax",
        logit_adjustment: float | None = None,
        critic_steps: int = 5,
        gradient_penalty: float = 10.0,
        n_steps: int = 2400,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        schedule: str = "constant",
        momentum: float = 0.5,
        feature_scaling: str = "auto",
        semantic_norm: float | str | None = 5.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.noise_size = noise_size
        self.embedding_size = embedding_size
        self.projection_size = projection_size
        self.comparator_hidden = comparator_hidden
        self.instance_level_weight = instance_level_weight
        self.class_level_weight = class_level_weight
        self.instance_temperature = instance_temperature
        self.class_temperature = class_temperature
        self.n_synthesised = n_synthesised
        self.n_real = n_real
        self.classifier_steps = classifier_steps
        self.final_classifier = final_classifier
        self.logit_adjustment = logit_adjustment
        self.critic_steps = critic_steps
        self.gradient_penalty = gradient_penalty
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.momentum = momentum
        self.feature_scaling = feature_scaling
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        sizes = ("hidden", "embedding_size", "projection_size", "comparator_hidden", "critic_steps", "batch_size")
        for name in sizes:
            check_whole(name, getattr(self, name), 1, SIZE)
        check_whole("noise_size", self.noise_size, 1, SIZE, optional=True)
        for name in ("gradient_penalty", "instance_level_weight", "class_level_weight"):
            check_number(name, getattr(self, name), 0)
        for name in ("instance_temperature", "class_temperature"):
            check_positive(name, getattr(self, name))

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        a, d, k = self.table_.vectors.shape[1], int(self.n_features_in_), self.embedding_size
        self.generator_ = Perceptron(
            (self._or_vector_size(self.noise_size) + a, self.hidden, d), rng, "leaky relu", self._last_activation
        )
        self.critic_ = Perceptron((d + a, self.hidden, 1), rng, "leaky relu")
        self.embedding_ = Perceptron((d, k), rng, last="relu")
        self.projection_ = Perceptron((k, self.projection_size), rng)
        self.comparator_ = Perceptron((k + a, self.comparator_hidden, 1), rng, "leaky relu")
        networks = {
            "generator": self.generator_,
            "critic": self.critic_,
            "embedding": self.embedding_,
            "projection": self.projection_,
            "comparator": self.comparator_,
        }
        return {name: initialised(network, rng) for name, network in networks.items()}

    def _objective(self, X: Tensor, targets: Tensor) -> ContrastiveTraining:
        X = X.contiguous()  # fixes the order of summation, to which adversarial training is sensitive
        self._keep_images(X, targets)
        start_at_mean(self.generator_, X)
        return ContrastiveTraining(self, X, targets)

    def _synthesise(self, labels: Labels) -> Tensor:
        return self._represent(self.generator_(self._generator_inputs(labels, self._or_vector_size(self.noise_size))))

    def _represent(self, X: Tensor) -> Tensor:
        embeddings: Tensor = self.embedding_(X)
        return embeddings
