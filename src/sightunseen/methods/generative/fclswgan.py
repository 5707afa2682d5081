"""f-CLSWGAN: feature generating networks for zero-shot learning (Xian, Lorenz, Schiele & Akata, CVPR 2018), Eq. 2 to 5."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import SIZE
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.presets import FULL, Preset
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.generative.base import GenerativeClassifier, Softmax
from sightunseen.methods.generative.critics import ConditionalWGAN, initialised, start_at_mean
from sightunseen.methods.generative.final_classifiers import train_softmax
from sightunseen.methods.shared.networks import Perceptron


class AdversarialTraining(ConditionalWGAN):
    """Losses of :class:`FCLSWGAN` (Eq. 5): ``critic_steps`` steps of the critic, then one of the generator.

    Parameters
    ----------
    model : FCLSWGAN
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    softmax : tuple of Tensor or None
        Weights and biases of the classifier in Eq. 4, trained on the seen classes beforehand; None: without this loss.
    """

    model: "FCLSWGAN"

    def __init__(self, model: "FCLSWGAN", features: Tensor, targets: Tensor, softmax: Softmax | None) -> None:
        super().__init__(model, features, targets)
        self.softmax = softmax

    def opponent_step(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the generator."""
        vectors = self.vectors_of(batch)
        fake = self.model.generator_(torch.cat([self.noise(batch), vectors], dim=1))  # (n, d)
        return self.generator_loss(fake, vectors, self.targets[batch["rows"]])

    def generator_loss(self, fake: Tensor, vectors: Tensor, targets: Tensor) -> Tensor:
        """Compute the generator's part of Eq. 3 plus the classification loss of Eq. 4."""
        realness = self.realness(fake, vectors)
        if self.softmax is None:
            return -realness
        weight, bias = self.softmax
        return self.model.classification_weight * cross_entropy(fake @ weight.T + bias, targets) - realness


class FCLSWGAN(GenerativeClassifier):
    """Feature generating network (f-CLSWGAN): a conditional Wasserstein GAN synthesises features; a softmax classifies them.

    Critic D and generator G solve (Eq. 5)

        min_G max_D E[D(x, s)] - E[D(G(z, s), s)] - lambda E[(||D'|| - 1)^2] + beta L_CLS

    Softmax classifiers are then trained among unseen classes on synthesised features (ZSL), and among all classes on these and
    on real features of seen classes (GZSL). Features that are not negative are scaled to the range 0 to 1, as in the authors'
    code. The preset ``full`` has the authors' sizes and number of steps.

    Differs from the paper: the generator starts at the mean features; the defaults are narrower networks, noise of 312 values
    whatever the length of the class vectors, a higher learning rate and beta, far shorter training and at most 100 real images
    per seen class; with ``full``, beta and the norm of the class vectors (1, as in the authors' code, or larger) are searched.

    Parameters
    ----------
    hidden : int, default=512
        Width of the hidden layer of generator and critic.
    noise_size : int or None, default=312
        Length of the noise vector z; None: that of the class vectors.
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
    classification_weight : float, default=0.1
        Weight beta of the classification loss.
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
        ``"generator"`` (G) and ``"critic"`` (D).
    generator_, critic_ : Perceptron
        The same networks.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import FCLSWGAN
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = FCLSWGAN(n_steps=20, classifier_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    version = 3
    earlier_settings = {"feature_scaling": "range"}  # 0.2.0 had no other scaling
    search_space = {"classification_weight": (0.01, 0.1)}
    presets = {
        FULL: Preset(
            {
                "hidden": 4096,
                "noise_size": None,
                "n_steps": 45_000,
                "learning_rate": 1e-4,
                "n_synthesised": 300,
                "n_real": None,
                "classifier_steps": 2000,
            },
            search={"classification_weight": (0.01, 0.1), "semantic_norm": (1.0, 5.0)},
        )
    }

    def __init__(
        self,
        hidden: int = 512,
        noise_size: int | None = 312,
        n_synthesised: int = 100,
        n_real: int | None = 100,
        classifier_steps: int = 600,
        final_classifier: str = "softmax",
        logit_adjustment: float | None = None,
        critic_steps: int = 5,
        gradient_penalty: float = 10.0,
        classification_weight: float = 0.1,
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
        self.hidden = hidden
        self.noise_size = noise_size
        self.n_synthesised = n_synthesised
        self.n_real = n_real
        self.classifier_steps = classifier_steps
        self.final_classifier = final_classifier
        self.logit_adjustment = logit_adjustment
        self.critic_steps = critic_steps
        self.gradient_penalty = gradient_penalty
        self.classification_weight = classification_weight
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
        for name in ("hidden", "critic_steps", "batch_size"):
            check_whole(name, getattr(self, name), 1, SIZE)
        check_whole("noise_size", self.noise_size, 1, SIZE, optional=True)
        for name in ("gradient_penalty", "classification_weight"):
            check_number(name, getattr(self, name), 0)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, feature_size = self.table_.vectors.shape[1], int(self.n_features_in_)
        sizes = self._or_vector_size(self.noise_size) + semantic_size, self.hidden, feature_size
        self.generator_ = Perceptron(sizes, rng, "leaky relu", self._last_activation)
        self.critic_ = Perceptron((feature_size + semantic_size, self.hidden, 1), rng, "leaky relu")
        networks = {"generator": self.generator_, "critic": self.critic_}
        return {name: initialised(network, rng) for name, network in networks.items()}

    def _objective(self, X: Tensor, targets: Tensor) -> AdversarialTraining:
        X = X.contiguous()  # fixes the order of summation, to which adversarial training is sensitive
        self._keep_images(X, targets)
        start_at_mean(self.generator_, X)
        softmax = None
        if self.classification_weight:
            n_seen, seed = len(self.seen_classes_), derive_seed(self.seed, "seen classes")
            softmax = train_softmax(X, targets, n_seen, seed, self.classifier_steps)
        return AdversarialTraining(self, X, targets, softmax)

    def _synthesise(self, labels: Labels) -> Tensor:
        synthesised: Tensor = self.generator_(self._generator_inputs(labels, self._or_vector_size(self.noise_size)))
        return synthesised
