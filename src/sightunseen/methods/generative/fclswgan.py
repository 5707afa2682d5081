"""f-CLSWGAN: feature generating networks for zero-shot learning (Xian, Lorenz, Schiele & Akata, CVPR 2018), Eq. 2 to 5."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.generative.synthesis import excess, frozen, linear_layers, synthesise, train_softmax
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.shared.objectives import TurnObjective
from sightunseen.training.episodes import ClassImages, draw_normal, draw_uniform

LEAK = 0.2  # of the leaky ReLU
MOST_IMAGES = 100  # of a seen class, kept to train classifiers on

Softmax = tuple[Tensor, Tensor]  # weights (c, d) and biases (c,)


class AdversarialTraining(TurnObjective):
    """The critic takes ``critic_steps`` tasks, then the generator one (Eq. 5).

    Parameters
    ----------
    method : whose networks and settings these are.
    softmax : the classifier of seen classes in Eq. 4, trained on their images beforehand.
    vectors : (s, a), of the seen classes.
    features, places : (n, d) with the place of each image's class among the seen ones, (n,).
    """

    def __init__(self, method: "FCLSWGAN", softmax: Softmax, vectors: Tensor, features: Tensor, places: Tensor) -> None:
        seed = derive_seed(method.seed, "batches")
        super().__init__(method._trained_parameters(), features, places, method.batch_size, seed)
        self.method, self.softmax, self.vectors = method, softmax, vectors
        self.generator, self.critic = method.generator_, method.critic_
        self.seeds = {name: derive_seed(method.seed, name) for name in ("noise", "between")}

    def loss(self, task: Mapping[str, Tensor]) -> Tensor:
        """The loss of whose turn it is."""
        vectors = self.vectors[self.places[task["rows"]]]  # (n, a)
        noise = draw_normal(self.seeds["noise"], task["task"], (len(vectors), self.method.noise_size))
        steps = self.method.critic_steps
        if int(task["task"]) % (steps + 1) == steps:
            return self.generator_loss(self.generate(noise, vectors), vectors, self.places[task["rows"]])
        with torch.no_grad():
            fake = self.generate(noise, vectors)
        share = draw_uniform(self.seeds["between"], task["task"], (len(vectors), 1))
        return self.critic_loss(self.features[task["rows"]], fake, vectors, share)

    def generate(self, noise: Tensor, vectors: Tensor) -> Tensor:
        """G(z, c(y)): noise (n, z) and class vectors (n, a) -> features (n, d)."""
        features: Tensor = self.generator(torch.cat([noise, vectors], dim=1))
        return features

    def critic_loss(self, real: Tensor, fake: Tensor, vectors: Tensor, share: Tensor) -> Tensor:
        """Eq. 3, which the critic maximises, with its sign turned."""
        first, second = linear_layers(self.critic)
        hidden = first(torch.cat([torch.cat([fake, real]), torch.cat([vectors, vectors])], dim=1))  # (2n, h)
        values_of_fake, values_of_real = second(functional.leaky_relu(hidden, LEAK)).chunk(2)
        # Between a fake and a real image of a class the hidden layer, being linear, lies between theirs; and the slope of a
        # critic with one such layer is a product of its weights. That is half the work of differentiating twice.
        hidden_of_fake, hidden_of_real = hidden.detach().chunk(2)
        between = share * hidden_of_real + (1 - share) * hidden_of_fake
        steepness = torch.where(between > 0, second.weight, LEAK * second.weight)  # (n, h)
        slopes = steepness @ first.weight[:, : real.shape[1]]  # (n, d)
        distance: Tensor = values_of_real.mean() - values_of_fake.mean()
        return self.method.gradient_penalty * excess(slopes) - distance

    def generator_loss(self, fake: Tensor, vectors: Tensor, places: Tensor) -> Tensor:
        """What of Eq. 3 depends on the generator, and Eq. 4: are the features recognised as the class they were made of?"""
        with frozen(self.critic):
            realness: Tensor = self.critic(torch.cat([fake, vectors], dim=1)).mean()
        weight, bias = self.softmax
        return self.method.classification_weight * cross_entropy(fake @ weight.T + bias, places) - realness


class FCLSWGAN(GradientTrainedClassifier):
    """A conditional Wasserstein GAN learns to synthesise features of a class from its vector; a softmax classifies them.

    Critic D and generator G play min_G max_D E[D(x, s)] - E[D(G(z, s), s)] - lambda E[(||D'|| - 1)^2] + beta L_CLS (Eq. 5).
    Then softmax classifiers are trained: among unseen classes on synthesised features (ZSL), among all on those and on real
    ones of the seen classes (GZSL). A class added later is synthesised, and the classifiers are trained anew when they are
    next asked for; generator and critic stay as they are. Features are brought to the range 0 to 1, as in the authors' code.

    Other than in the paper the networks are narrower, the learning rate and beta are higher and training is far shorter, to
    be fitted on one core within a minute. The paper's: hidden 4096, beta 0.01, learning rate 1e-4, unit class vectors, 300
    synthesised features a class, some 40,000 steps.

    Parameters
    ----------
    hidden : width of the hidden layer of generator and critic (the paper's: 4096).
    noise_size : length of z (the paper's: as many as attributes).
    n_synthesised : features synthesised an unseen class.
    classifier_steps : mini-batches that each softmax classifier is trained on.
    critic_steps, gradient_penalty : steps of the critic for each of the generator, and lambda.
    classification_weight : beta.
    n_steps, batch_size : steps of critic and generator together, and images in each.
    learning_rate, schedule, momentum : see :class:`~sightunseen.training.Optimisation`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"classification_weight": (0.03, 0.1)}
    feature_scaling = "range"  # not a setting: the generator's last ReLU wants features from zero up

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
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        for name in ("hidden", "noise_size", "n_synthesised", "classifier_steps", "critic_steps", "batch_size"):
            check_whole(name, getattr(self, name), 1)
        for name in ("gradient_penalty", "classification_weight"):
            check_number(name, getattr(self, name), 0)

    def synthesised(self, labels: Any) -> Floats:
        """Synthesised features, ``n_synthesised`` a class, class after class, in the range 0 to 1: (c * n, d)."""
        return np.asarray(self._synthesised(self.candidates(labels)).cpu().numpy())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        semantic_size, feature_size = self.table_.vectors.shape[1], int(self.n_features_in_)
        self.generator_ = Perceptron((self.noise_size + semantic_size, self.hidden, feature_size), rng, "leaky relu", "relu")
        self.critic_ = Perceptron((feature_size + semantic_size, self.hidden, 1), rng, "leaky relu")
        self._known: dict[str, tuple[bytes, Softmax]] = {}
        for layer in linear_layers(self.generator_) + linear_layers(self.critic_):
            nn.init.normal_(layer.weight, 0.0, 0.02, generator=rng)  # the authors'
        return {"generator": self.generator_, "critic": self.critic_}

    def _objective(self, X: Tensor, places: Tensor) -> AdversarialTraining:
        X = X.contiguous()  # another order of sums, and adversaries end elsewhere
        images = ClassImages.of(places)
        kept = torch.cat([part[:MOST_IMAGES] for part in torch.split(images.rows, images.count.tolist())])
        # Half precision is enough for numbers from 0 to 1, and makes for small files.
        self._images, self._places_of_images = X[kept].to(torch.float16), places[kept]
        with torch.no_grad():  # start where the images are, so that no ReLU is dead from the start
            linear_layers(self.generator_)[-1].bias.copy_(X.mean(dim=0))
        n_seen, seed = len(self.seen_classes_), derive_seed(self.seed, "seen classes")
        softmax = train_softmax(X, places, n_seen, seed, self.classifier_steps)
        vectors = self._vectors_on_device(self.seen_classes_)
        return AdversarialTraining(self, softmax, vectors, X, places)

    def _synthesised(self, labels: Labels) -> Tensor:
        return synthesise(self.generator_, self._vectors_on_device(labels), self.noise_size, self.n_synthesised, self.seed)

    def _state(self, among: str) -> bytes:
        """What a classifier was trained for: its classes, and the generator as it is, which changes with every step."""
        labels = {"all": self.classes_, "unseen": self.unseen_classes_}[among]
        return bytes(labels.tobytes() + linear_layers(self.generator_)[-1].bias.detach().cpu().numpy().tobytes())

    def _softmax(self, among: str) -> Softmax:
        """The classifier among ``unseen`` classes or among ``all``, trained where none is known for this state of things."""
        labels = self.candidates(among)
        state = self._state(among)
        if among not in self._known or self._known[among][0] != state:
            unseen = self.unseen_classes_
            features = [self._synthesised(unseen)] if len(unseen) else []
            places = [self._indices(labels, np.repeat(unseen, self.n_synthesised))]
            if among == "all":
                features.append(self._images.to(torch.float32))
                places.append(self._indices(labels, self.seen_classes_)[self._places_of_images])
            seed = derive_seed(self.seed, among)
            softmax = train_softmax(torch.cat(features), torch.cat(places), len(labels), seed, self.classifier_steps)
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
        arrays = {**super()._arrays(), "images": self._images.cpu().numpy(), "places": self._places_of_images.cpu().numpy()}
        for among in ("all", "unseen") if len(self.unseen_classes_) else ("all",):
            weight, bias = self._softmax(among)
            arrays |= {f"{among}.weight": weight.cpu().numpy(), f"{among}.bias": bias.cpu().numpy()}
        return arrays

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        self._images = torch.from_numpy(arrays["images"]).to(self._device)
        self._places_of_images = torch.from_numpy(arrays["places"]).to(self._device)
        for among in ("all", "unseen"):
            if f"{among}.weight" in arrays:
                softmax = self._on_device(arrays[f"{among}.weight"]), self._on_device(arrays[f"{among}.bias"])
                self._known[among] = self._state(among), softmax
