"""f-CLSWGAN: feature generating networks for zero-shot learning (Xian, Lorenz, Schiele & Akata, CVPR 2018), Eq. 2 to 5."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.array_checks import Expected, indices
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import CLASSIFIER_STEPS, SIZE, SYNTHESISED
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.generative.synthesis import excess, frozen, synthesise, train_softmax
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import TurnObjective
from sightunseen.training.episodes import ClassImages, draw_normal

LEAK = 0.2  # negative slope of the leaky ReLU
MOST_IMAGES = 100  # real images per seen class that the classifiers are trained on

Softmax = tuple[Tensor, Tensor]  # weights (c, d) and biases (c,)


class AdversarialTraining(TurnObjective):
    """Losses of :class:`FCLSWGAN` (Eq. 5): ``critic_steps`` steps of the critic, then one of the generator.

    Parameters
    ----------
    model : FCLSWGAN
        Networks and hyperparameters.
    features : Tensor of shape (n, d)
        Features of the training images.
    targets : Tensor of shape (n,)
        Indices of their classes among the seen classes.
    softmax : tuple of Tensor
        Weights and biases of the classifier in Eq. 4, trained on the seen classes beforehand.
    """

    model: "FCLSWGAN"

    def __init__(self, model: "FCLSWGAN", features: Tensor, targets: Tensor, softmax: Softmax) -> None:
        super().__init__(model, features, targets)
        self.softmax = softmax

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute the loss of the network that is updated in this step."""
        vectors = self.vectors[self.targets[batch["rows"]]]  # (n, a)
        noise = draw_normal(derive_seed(self.model.seed, "noise"), batch["step"], (len(vectors), self.model.noise_size))
        updates_critic = self.updates_critic(batch)
        with torch.set_grad_enabled(not updates_critic):
            fake = self.model.generator_(torch.cat([noise, vectors], dim=1))  # (n, d)
        if updates_critic:
            return self.critic_loss(self.features[batch["rows"]], fake, vectors, self.shares(batch))
        return self.generator_loss(fake, vectors, self.targets[batch["rows"]])

    def critic_loss(self, real: Tensor, fake: Tensor, vectors: Tensor, share: Tensor) -> Tensor:
        """Compute the negative of Eq. 3, which the critic maximises."""
        first, second = self.model.critic_.layers
        hidden = first(torch.cat([torch.cat([fake, real]), torch.cat([vectors, vectors])], dim=1))  # (2n, h)
        values_of_fake, values_of_real = second(functional.leaky_relu(hidden, LEAK)).chunk(2)
        # The first layer is linear, so its output at an interpolated image is the interpolation of the outputs, and the
        # gradient of a critic with one hidden layer is a product of its weights. This halves the cost of double backward.
        hidden_of_fake, hidden_of_real = hidden.detach().chunk(2)
        between = share * hidden_of_real + (1 - share) * hidden_of_fake
        steepness = torch.where(between > 0, second.weight, LEAK * second.weight)  # (n, h)
        slopes = steepness @ first.weight[:, : real.shape[1]]  # (n, d)
        distance: Tensor = values_of_real.mean() - values_of_fake.mean()
        return self.model.gradient_penalty * excess(slopes) - distance

    def generator_loss(self, fake: Tensor, vectors: Tensor, targets: Tensor) -> Tensor:
        """Compute the generator's part of Eq. 3 plus the classification loss of Eq. 4."""
        with frozen(self.model.critic_):
            realness: Tensor = self.model.critic_(torch.cat([fake, vectors], dim=1)).mean()
        weight, bias = self.softmax
        return self.model.classification_weight * cross_entropy(fake @ weight.T + bias, targets) - realness


class FCLSWGAN(GradientTrainedClassifier):
    """Feature generating network (f-CLSWGAN): a conditional Wasserstein GAN synthesises features; a softmax classifies them.

    Critic D and generator G solve (Eq. 5)

        min_G max_D E[D(x, s)] - E[D(G(z, s), s)] - lambda E[(||D'|| - 1)^2] + beta L_CLS

    Two softmax classifiers are then trained: among unseen classes on synthesised features (ZSL), and among all classes on these
    and on real features of seen classes (GZSL). After ``add_classes`` the classifiers are trained again on first use; generator
    and critic stay as they are. Features are scaled to the range 0 to 1, as in the authors' code.

    Differs from the paper: to train within a minute on one core, the networks are narrower, learning rate and beta are higher
    and training is far shorter. At most 100 real images per seen class are used for the classifiers, and all classes get the
    same noise. The paper's hyperparameters are hidden 4096, noise as long as the class vector, beta 0.01, learning rate 1e-4,
    unit class vectors, 300 synthesised features per class and about 40,000 steps.

    Parameters
    ----------
    hidden : int, default=512
        Width of the hidden layer of generator and critic.
    noise_size : int, default=312
        Length of the noise vector z.
    n_synthesised : int, default=100
        Number of features synthesised per unseen class.
    classifier_steps : int, default=600
        Number of gradient steps of each softmax classifier.
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

    search_space = {"classification_weight": (0.03, 0.1)}
    scores_jointly = True  # another classifier is trained among unseen classes alone
    feature_scaling = "range"  # fixed: the generator ends in a ReLU, so features must not be negative

    def __init__(
        self,
        hidden: int = 512,
        noise_size: int = 312,
        n_synthesised: int = 100,
        classifier_steps: int = 600,
        critic_steps: int = 5,
        gradient_penalty: float = 10.0,
        classification_weight: float = 0.1,
        n_steps: int = 2400,
        batch_size: int = 64,
        learning_rate: float = 4e-4,
        schedule: str = "constant",
        momentum: float = 0.5,
        semantic_norm: float | str | None = 5.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.noise_size = noise_size
        self.n_synthesised = n_synthesised
        self.classifier_steps = classifier_steps
        self.critic_steps = critic_steps
        self.gradient_penalty = gradient_penalty
        self.classification_weight = classification_weight
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.momentum = momentum
        self.semantic_norm = semantic_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        for name in ("hidden", "noise_size", "critic_steps", "batch_size"):
            check_whole(name, getattr(self, name), 1, SIZE)
        check_whole("n_synthesised", self.n_synthesised, 1, SYNTHESISED)
        check_whole("classifier_steps", self.classifier_steps, 1, CLASSIFIER_STEPS)
        for name in ("gradient_penalty", "classification_weight"):
            check_number(name, getattr(self, name), 0)

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, feature_size = self.table_.vectors.shape[1], int(self.n_features_in_)
        self.generator_ = Perceptron((self.noise_size + semantic_size, self.hidden, feature_size), rng, "leaky relu", "relu")
        self.critic_ = Perceptron((feature_size + semantic_size, self.hidden, 1), rng, "leaky relu")
        self._known: dict[str, tuple[bytes, Softmax]] = {}
        for layer in (*self.generator_.layers, *self.critic_.layers):
            nn.init.normal_(layer.weight, 0.0, 0.02, generator=rng)  # as in the authors' code
        return {"generator": self.generator_, "critic": self.critic_}

    def _objective(self, X: Tensor, targets: Tensor) -> AdversarialTraining:
        X = X.contiguous()  # fixes the order of summation, to which adversarial training is sensitive
        images = ClassImages.of(targets)
        kept = torch.cat([part[:MOST_IMAGES] for part in torch.split(images.rows, images.count.tolist())])
        # Half precision suffices for values from 0 to 1 and keeps model files small.
        self._images, self._image_targets = X[kept].to(torch.float16), targets[kept]
        with torch.no_grad():  # start at the mean features, so that no output ReLU is dead
            self.generator_.layers[-1].bias.copy_(X.mean(dim=0))
        n_seen, seed = len(self.seen_classes_), derive_seed(self.seed, "seen classes")
        softmax = train_softmax(X, targets, n_seen, seed, self.classifier_steps)
        return AdversarialTraining(self, X, targets, softmax)

    def _synthesised(self, labels: Labels) -> Tensor:
        return synthesise(self.generator_, self._vectors_on_device(labels), self.noise_size, self.n_synthesised, self.seed)

    def _state(self, among: str) -> bytes:
        """Identify what a classifier was trained for: its classes and the state of the generator."""
        labels = {"all": self.classes_, "unseen": self.unseen_classes_}[among]
        return bytes(labels.tobytes() + self.generator_.layers[-1].bias.detach().cpu().numpy().tobytes())

    def _softmax(self, among: str) -> Softmax:
        """Return the classifier among ``unseen`` or ``all`` classes; train it unless it is up to date."""
        labels = self.candidates(among)
        state = self._state(among)
        if among not in self._known or self._known[among][0] != state:
            unseen = self.unseen_classes_
            features = [self._synthesised(unseen)] if len(unseen) else []
            targets = [self._indices(labels, np.repeat(unseen, self.n_synthesised))]
            if among == "all":
                features.append(self._images.to(torch.float32))
                targets.append(self._indices(labels, self.seen_classes_)[self._image_targets])
            seed = derive_seed(self.seed, among)
            softmax = train_softmax(torch.cat(features), torch.cat(targets), len(labels), seed, self.classifier_steps)
            self._known[among] = state, softmax
        return self._known[among][1]

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._softmax("all")

    def _prepare(self, labels: Labels) -> Softmax:
        among = "all" if np.isin(labels, self.seen_classes_).any() else "unseen"
        weight, bias = self._softmax(among)
        columns = self._indices(self.candidates(among), labels)
        return weight[columns], bias[columns]

    def _score_images(self, X: Tensor, prepared: Softmax) -> Tensor:
        weight, bias = prepared
        return X @ weight.T + bias

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {**super()._arrays(), "images": self._images.cpu().numpy(), "places": self._image_targets.cpu().numpy()}
        for among in ("all", "unseen") if len(self.unseen_classes_) else ("all",):
            weight, bias = self._softmax(among)
            arrays |= {f"{among}.weight": weight.cpu().numpy(), f"{among}.bias": bias.cpu().numpy()}
        return arrays

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        softmax = {"all.weight": Expected("c d"), "all.bias": Expected("c")}
        if len(self.unseen_classes_):
            softmax |= {"unseen.weight": Expected("u d"), "unseen.bias": Expected("u")}
        images = {"images": Expected("n d"), "places": indices("n", "s")}
        return {**super()._expected_arrays(arrays), **images, **softmax}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        self._images = torch.tensor(arrays["images"], device=self._device)
        self._image_targets = torch.tensor(arrays["places"], dtype=torch.int64, device=self._device)
        for among in ("all", "unseen") if len(self.unseen_classes_) else ("all",):
            softmax = self._on_device(arrays[f"{among}.weight"]), self._on_device(arrays[f"{among}.bias"])
            self._known[among] = self._state(among), softmax
