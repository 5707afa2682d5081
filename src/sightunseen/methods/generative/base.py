"""Base class of generative methods: synthesise features of unseen classes, then train a classifier on them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sightunseen.core.array_checks import Expected, indices
from sightunseen.core.arrays import Floats
from sightunseen.core.calibration import Calibration
from sightunseen.core.checks import check_choice, check_positive, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.limits import CLASSIFIER_STEPS, SIZE, SYNTHESISED
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.feature_scaling import AUTO, ONE_VIEW
from sightunseen.methods.base.gradient_trained import GradientTrainedClassifier
from sightunseen.methods.generative.final_classifiers import (
    FINAL_CLASSIFIERS,
    PROTOTYPES,
    SOFTMAX,
    log_priors,
    train_prototypes,
    train_softmax,
)
from sightunseen.training.episodes import ClassImages, draw_normal

Softmax = tuple[Tensor, Tensor]  # weights (c, k) and biases (c,)


class GenerativeClassifier(GradientTrainedClassifier):
    """Abstract base class of methods that synthesise features.

    Two softmax classifiers are trained on what the networks synthesise: among unseen classes on synthesised features (ZSL), and
    among all classes on these and on real features of seen classes (GZSL). After ``add_classes`` they are trained again when
    they are first used; the networks stay as they are. With ``final_classifier="prototypes"`` there is one classifier, among
    all classes: the cosine to prototypes that a network computes from class vectors. With ``logit_adjustment`` the classifier
    among all classes is trained with scores that are adjusted by the priors of seen and unseen classes (ZLAP, IJCAI 2022).

    A subclass implements :meth:`_make_networks`, :meth:`_objective` and :meth:`_synthesise`, and :meth:`_represent` if its
    classifiers see something else than features. It has the hyperparameters ``n_synthesised``, ``n_real``,
    ``classifier_steps``, ``final_classifier`` and ``logit_adjustment``.
    """

    feature_scalings = (AUTO, *ONE_VIEW)
    scores_jointly = True  # another classifier is trained among unseen classes alone

    n_synthesised: int
    n_real: int | None
    classifier_steps: int
    final_classifier: str = SOFTMAX
    logit_adjustment: float | None = None

    @abstractmethod
    def _synthesise(self, labels: Labels) -> Tensor:
        """Synthesise the input (c * n_synthesised, k) of the classifiers for classes, class by class."""

    def _represent(self, X: Tensor) -> Tensor:
        """Map scaled features (n, d) to the input (n, k) of the classifiers; by default the features themselves."""
        return X

    def _real(self) -> tuple[Tensor, Tensor]:
        """Return what the classifier among all classes is trained on for seen classes: inputs (n, k) and class indices (n,)."""
        return self._represent(self._images.to(torch.float32)), self._image_targets

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_whole("n_synthesised", self.n_synthesised, 1, SYNTHESISED)
        check_whole("classifier_steps", self.classifier_steps, 1, CLASSIFIER_STEPS)
        check_whole("n_real", self.n_real, 1, SIZE, optional=True)
        check_choice("final_classifier", self.final_classifier, FINAL_CLASSIFIERS)
        if self.logit_adjustment is not None:
            check_positive("logit_adjustment", self.logit_adjustment)

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _last_activation(self) -> str:
        """Activation after the last layer of a generator: a ReLU where no feature is negative."""
        return "relu" if self.scaling_.kind == "range" else "linear"

    def _keep_images(self, X: Tensor, targets: Tensor) -> None:
        """Keep up to ``n_real`` images of every seen class for the final classifier; :meth:`_objective` calls this."""
        images = ClassImages.of(targets)
        kept = torch.cat([part[: self.n_real] for part in torch.split(images.rows, images.count.tolist())])
        # Half precision suffices for scaled features and keeps model files small; others may exceed its range.
        precision = torch.float32 if self.scaling_.kind == "none" else torch.float16
        self._images, self._image_targets = X[kept].to(precision), targets[kept]
        self._known: dict[str, tuple[bytes, Softmax]] = {}

    def _noise(self, labels: Labels, size: int) -> Tensor:
        """Draw the noise (c, n_synthesised, size) of classes; that of a class depends on its vector, not on its name."""
        step = torch.zeros((), dtype=torch.long, device=self._device)
        seeds = [derive_seed(self.seed, "synthesis", vector.tobytes().hex()) for vector in self._vectors_of(labels)]
        return torch.stack([draw_normal(seed, step, (self.n_synthesised, size)) for seed in seeds])

    def _or_vector_size(self, size: int | None) -> int:
        """Return a size; if it is None, the length of the class vectors."""
        return int(self.table_.vectors.shape[1]) if size is None else size

    def _conditions(self, labels: Labels) -> Tensor:
        """Repeat the class vectors for every synthesised image: (c, n_synthesised, a)."""
        return self._vectors_on_device(labels)[:, None].expand(-1, self.n_synthesised, -1)

    def _generator_inputs(self, labels: Labels, size: int) -> Tensor:
        """Return noise and class vectors side by side (c * n_synthesised, size + a), class by class."""
        return torch.cat([self._noise(labels, size), self._conditions(labels)], dim=2).flatten(0, 1)

    def _among(self) -> Sequence[str]:
        """Names of the classifiers."""
        alone = len(self.unseen_classes_) and self.final_classifier == SOFTMAX
        return ("all", "unseen") if alone else ("all",)

    def _state(self, among: str) -> bytes:
        """Identify what a classifier was trained for: classes, class vectors and, by samples of their weights, the networks."""
        parameters = [parameter for network in self.networks_.values() for parameter in network.parameters()]
        samples = [parameter.detach().flatten()[-16:] for parameter in parameters]
        labels = self.candidates(among)
        return bytes(labels.tobytes() + self._vectors_of(labels).tobytes() + torch.cat(samples).cpu().numpy().tobytes())

    def _softmax(self, among: str) -> Softmax:
        """Return the classifier among ``unseen`` or ``all`` classes; train it unless it is up to date."""
        state = self._state(among)
        if among not in self._known or self._known[among][0] != state:
            self._known[among] = state, self._trained_softmax(among)
        return self._known[among][1]

    def _trained_softmax(self, among: str) -> Softmax:
        """Train the classifier among ``unseen`` or ``all`` classes."""
        labels, unseen = self.candidates(among), self.unseen_classes_
        with torch.no_grad():
            features = [self._synthesise(unseen)] if len(unseen) else []
            targets = [self._indices(labels, np.repeat(unseen, self.n_synthesised))]
            if among == "all":
                real, indices_of_seen = self._real()
                features.append(real)
                targets.append(self._indices(labels, self.seen_classes_)[indices_of_seen])
        images, adjustment = (torch.cat(features), torch.cat(targets)), None
        if among == "all" and self.logit_adjustment is not None:
            seen = torch.as_tensor(np.isin(labels, self.seen_classes_), device=self._device)
            adjustment = log_priors(images[1], seen, self.logit_adjustment)
        seed = derive_seed(self.seed, among)
        if self.final_classifier == SOFTMAX:
            return train_softmax(*images, len(labels), seed, self.classifier_steps, adjustment=adjustment)
        vectors = self._vectors_on_device(labels)
        prototypes = train_prototypes(*images, vectors, seed, self.classifier_steps, adjustment=adjustment)
        return prototypes, prototypes.new_zeros(len(labels))

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._softmax("all")

    def _among_which(self, labels: Labels) -> str:
        """Name of the classifier that scores these candidates."""
        return "unseen" if "unseen" in self._among() and not np.isin(labels, self.seen_classes_).any() else "all"

    def calibration_for(self, labels: Labels) -> Calibration | None:
        """Return the calibration of the scores among these candidates; None for those of the classifier of unseen classes."""
        return self.calibration_ if self._among_which(labels) == "all" else None

    def _prepare(self, labels: Labels) -> Softmax:
        among = self._among_which(labels)
        weight, bias = self._softmax(among)
        columns = self._indices(self.candidates(among), labels)
        return weight[columns], bias[columns]

    def _score_images(self, X: Tensor, prepared: Softmax) -> Tensor:
        weight, bias = prepared
        represented = self._represent(X)
        if self.final_classifier == PROTOTYPES:
            represented = functional.normalize(represented, dim=1)
        # Not transposed: otherwise the rounding of an image's scores may depend on its position among the images.
        return represented @ weight.T.contiguous() + bias

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {**super()._arrays(), "images": self._images.cpu().numpy(), "places": self._image_targets.cpu().numpy()}
        for among in self._among():
            weight, bias = self._softmax(among)
            arrays |= {f"{among}.weight": weight.cpu().numpy(), f"{among}.bias": bias.cpu().numpy()}
        return arrays

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        softmax = {"all.weight": Expected("c k"), "all.bias": Expected("c")}
        if "unseen" in self._among():
            softmax |= {"unseen.weight": Expected("u k"), "unseen.bias": Expected("u")}
        images = {"images": Expected("n d"), "places": indices("n", "s")}
        return {**super()._expected_arrays(arrays), **images, **softmax}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        self._images = torch.tensor(arrays["images"], device=self._device)
        self._image_targets = torch.tensor(arrays["places"], dtype=torch.int64, device=self._device)
        self._known = {}
        for among in self._among():
            softmax = self._on_device(arrays[f"{among}.weight"]), self._on_device(arrays[f"{among}.bias"])
            self._known[among] = self._state(among), softmax
