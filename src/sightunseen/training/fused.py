"""One fused gradient step of many models: the buffers between the kernels and their launches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sightunseen.training import kernels


@dataclass(frozen=True)
class Tiles:
    """Launch configuration of the kernels, tuned on an H200.

    Parameters
    ----------
    second, scores, gradient, hidden, step : tuple of int
        Tile sizes of a kernel, followed by its number of warps and of pipeline stages. The third of ``hidden`` is the number of
        attributes in a tile of the first layer's gradient. Those of ``step`` are the height and width of a tile of the second
        layer, then of the first.
    layer_spans, hidden_spans, score_spans : int
        Number of partial sums of the products of the second layer, of its gradient with respect to the hidden units, and of
        the scores; several of them occupy the GPU if there are few models.
    unit : int, default=128
        Width of the partial sums of Gram matrices.
    eviction : tuple of (str, str), default=("", "")
        Eviction policies of the L2 cache for updated parameters and moments: ``"evict_first"``, ``"evict_last"`` or none.
    """

    second: tuple[int, ...]
    scores: tuple[int, ...]
    gradient: tuple[int, ...]
    hidden: tuple[int, ...]
    step: tuple[int, ...]
    layer_spans: int
    hidden_spans: int
    score_spans: int
    unit: int = 128
    eviction: tuple[str, str] = ("", "")


MANY = 4  # number of models from which MANY_MODELS is faster
FEW_MODELS = Tiles(
    second=(32, 64, 2, 3),
    scores=(16, 32, 128, 8, 1),
    gradient=(32, 16, 128, 4, 1),
    hidden=(32, 64, 64, 2, 3),
    step=(16, 64, 16, 64, 2, 1),
    layer_spans=4,
    hidden_spans=4,
    score_spans=16,
    eviction=("", "evict_first"),
)
MANY_MODELS = replace(
    FEW_MODELS,
    second=(64, 64, 4, 3),
    scores=(64, 32, 64, 4, 3),
    gradient=(32, 64, 32, 4, 3),
    hidden=(64, 64, 64, 4, 3),
    layer_spans=2,
    hidden_spans=2,
    score_spans=4,
    eviction=("evict_last", ""),
)
FREE_TILE = 2048  # weights of free classifiers per tile
LOSSES = 2048  # scores whose losses are computed at a time


class FusedStep:
    """One gradient step of every model: forward pass, loss, backward pass, gradient clipping and Adam, in five launches.

    Parameters
    ----------
    sizes : tuple of (int, int)
        Number of generated classes and of images per batch.
    values : dict of str to Tensor of shape (models, ...)
        Parameters of all models by role, updated in place.
    moments : mapping of str to Tensor of shape (models, ...)
        Adam's moments of the parameters, updated in place.
    vectors : Tensor of shape (t, a)
        Class vectors that batches index.
    features : Tensor of shape (n, d)
        Features that batches index, L2-normalised.
    rectify : bool
        Whether the generator ends in a ReLU.
    precision : {"tf32", "tf32x3", "ieee"}
        Precision of matrix products.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        values: dict[str, Tensor],
        moments: Mapping[str, Tensor],
        vectors: Tensor,
        features: Tensor,
        rectify: bool,
        precision: str,
    ) -> None:
        self.values, self.moments, self.vectors, self.features = values, moments, vectors, features
        self.rectify, self.precision = rectify, precision
        self.models = models = len(values["scale"])
        self.tiles = tiles = FEW_MODELS if models < MANY else MANY_MODELS
        self.count, self.size = count, size = sizes
        self.semantic_size, self.feature_size = vectors.shape[1], features.shape[1]
        self.hidden_size = hidden = values["first"].shape[1]
        self.free = values["free"].shape[1] if "free" in values else 0
        self.every = every = self.free + count
        self.units = _up(self.feature_size, tiles.unit), _up(hidden, tiles.unit)
        self.free_tiles = _up(self.free * self.feature_size, FREE_TILE)
        deep, of_hidden, of_images = _up(count, self._narrow), _up(hidden, tiles.hidden[0]), _up(size, tiles.scores[0])

        def buffer(*shape: int) -> Tensor:
            return torch.empty(models, *shape, device=features.device)

        def arrivals(*shape: int) -> Tensor:
            return torch.zeros(models, *shape, dtype=torch.int32, device=features.device)

        self.total = torch.zeros(models, device=features.device)
        self.counts = torch.zeros(models, 2, dtype=torch.int32, device=features.device)  # images; of these, with plain loss
        self.powers = torch.zeros(models, device=features.device)  # q
        self.hidden = buffer(count, hidden), buffer(count, hidden)  # of this batch and of the next, by turns
        self.layer_parts = buffer(tiles.layer_spans, count, self.feature_size)
        self.layer_arrivals = arrivals(deep, _up(self.feature_size, tiles.second[0]))
        self.classifiers, self.gradient = buffer(every, self.feature_size), buffer(every, self.feature_size)
        self.score_parts, self.lengths = buffer(tiles.score_spans, size, every), buffer(every)
        self.length_parts, self.score_arrivals = buffer(of_images, tiles.score_spans, every), arrivals(of_images)
        self.slopes, self.weighted = buffer(size, every), buffer(size, every)
        self.losses, self.pulls = buffer(size), buffer(size)
        self.hidden_gradient, self.hidden_parts = buffer(count, hidden), buffer(tiles.hidden_spans, count, hidden)
        self.products, self.norm_arrivals = buffer(sum(self.units), count, count), arrivals(of_hidden + deep**2)
        self.squares = buffer(of_hidden + deep**2 + self.free_tiles + 1)
        if self.free:
            # The free classifiers are stored where the score kernel reads them.
            self.classifiers[:, : self.free] = values["free"]
            values["free"] = self.classifiers[:, : self.free]

    def start(self, classes: Tensor) -> None:
        """Compute the hidden units of the first batch of a run; its first step must not be ``back``.

        Parameters
        ----------
        classes : Tensor of shape (models, count)
            Rows of ``vectors``.
        """
        values, hidden, semantic = self.values, self.hidden_size, self.semantic_size
        j, k = self.tiles.step[2:4]  # those of the steps, for the same rounding
        kernels.first_layer[(_up(hidden, j), _up(self.count, self._narrow), self.models)](
            self.hidden[0], self.vectors, classes, values["first"], values["first_bias"], self.count, semantic, hidden,
            self.precision, self._narrow, j, k, **_options(self.tiles.step),
        )  # fmt: skip

    def __call__(
        self, classes: Tensor, next_classes: Tensor, rows: Tensor, labels: Tensor, settings: Tensor, back: bool
    ) -> None:
        """Launch the kernels of one step.

        Parameters
        ----------
        classes, next_classes : Tensor of shape (models, count)
            Rows of ``vectors``, for this batch and for the next.
        rows : Tensor of shape (models, size)
            Rows of ``features``.
        labels : Tensor of shape (models, size)
            Columns of the score matrix.
        settings : Tensor of shape (models, 4)
            Step size, correction of the second moment, weight decay and largest gradient norm.
        back : bool
            Whether the number of the step in its run is odd. Directions alternate to make better use of the cache: if true, the
            forward pass through the second layer visits the models in reverse order, the backward pass in order, and the
            update models and tiles in reverse.
        """
        self._forward(rows, labels, back)
        self._backward(classes, rows, back)
        self._step(classes, next_classes, settings, back)

    def _forward(self, rows: Tensor, labels: Tensor, back: bool) -> None:
        values, tiles, models, count, every = self.values, self.tiles, self.models, self.count, self.every
        hidden, features, precision = self.hidden_size, self.feature_size, self.precision
        j, k = tiles.second[:2]
        spans = tiles.layer_spans
        kernels.second_layer[(_up(features, j) * spans, _up(count, self._narrow), models)](
            self.classifiers, self.layer_parts, self.layer_arrivals, self.hidden[back], values["second"],
            values["second_bias"], count, self.free, hidden, features, _up(hidden, spans * k) * k, spans, self.rectify,
            precision, self._narrow, j, k, back, **_options(tiles.second),
        )  # fmt: skip
        i, j, k = tiles.scores[:3]
        spans, width = tiles.score_spans, _power_of_two(every)
        kernels.scores_and_loss[(_up(self.size, i) * _up(every, j), spans, models)](
            self.losses, self.pulls, self.slopes, self.weighted, self.lengths, self.score_parts, self.length_parts,
            self.score_arrivals, self.features, rows, self.classifiers, labels, values["scale"], self.counts, self.powers,
            self.size, every, features, _up(features, spans * k) * k, spans, precision, i, j, k,
            min(i, max(1, LOSSES // width)), width, **_options(tiles.scores),
        )  # fmt: skip

    def _backward(self, classes: Tensor, rows: Tensor, back: bool) -> None:
        values, tiles, models, count, every = self.values, self.tiles, self.models, self.count, self.every
        hidden, features, precision = self.hidden_size, self.feature_size, self.precision
        i, j, k = tiles.gradient[:3]
        kernels.classifier_gradient[(_up(features, j), _up(every, i), models)](
            self.gradient, self.slopes, self.weighted, self.lengths, self.features, rows, self.classifiers, values["scale"],
            self.size, every, self.free, features, self.rectify, precision, i, j, k, **_options(tiles.gradient),
        )  # fmt: skip
        j, k, a = tiles.hidden[:3]
        spans = tiles.hidden_spans
        places = _up(hidden, j) * spans + sum(self.units) + self.free_tiles + 1
        kernels.hidden_gradient_and_norm[(places, _up(count, self._narrow) ** 2, models)](
            self.hidden_gradient, self.squares, self.hidden_parts, self.products, self.norm_arrivals, self.gradient,
            values["second"], self.hidden[back], self.vectors, classes, self.pulls, values["scale"],
            count, every, self.free, self.size, _power_of_two(self.size), self.semantic_size, hidden, features,
            _up(features, spans * k) * k, spans, *self.units, self.free_tiles, precision, self._narrow, j, k, a, tiles.unit,
            FREE_TILE, not back, **_options(tiles.hidden),
        )  # fmt: skip

    def _step(self, classes: Tensor, next_classes: Tensor, settings: Tensor, back: bool) -> None:
        hidden, features, semantic = self.hidden_size, self.feature_size, self.semantic_size
        high, across, first_high, _ = shape = self.tiles.step[:4]
        programs = _up(hidden, first_high) + _up(features, high) * _up(hidden, across) + self.free_tiles + 1
        layers = [tensor for role in ("first", "first_bias", "second", "second_bias") for tensor in self._with_moments(role)]
        free = self._with_moments("free" if self.free else "scale")  # placeholder that no tile accesses
        squares = self.squares.shape[1]
        kernels.clip_and_step[(programs, self.models)](
            self.hidden[not back], self.gradient, self.hidden[back], self.hidden_gradient, self.vectors, classes, next_classes,
            self.pulls, self.losses, self.total, self.squares, settings, *layers, *free, *self._with_moments("scale"),
            self.count, self.every, self.free, self.size, _power_of_two(self.size), semantic, hidden, features, self.precision,
            self.free_tiles, squares, _power_of_two(squares), *shape, self._narrow, FREE_TILE, back, *self.tiles.eviction,
            **_options(self.tiles.step),
        )  # fmt: skip

    @property
    def _narrow(self) -> int:
        """Height of a tile of classes."""
        return 16 if self.count <= 16 else 32

    def _with_moments(self, role: str) -> tuple[Tensor, Tensor, Tensor]:
        return self.values[role], self.moments[f"{role}_mean"], self.moments[f"{role}_square"]


def _options(tiles: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(("num_warps", "num_stages"), tiles[-2:], strict=True))


def _up(number: int, step: int) -> int:
    """Divide, rounded up."""
    return -(-number // step)


def _power_of_two(number: int) -> int:
    """Smallest power of two (at least 16) that is not less than the number; Triton requires it of ranges."""
    return max(16, 1 << (number - 1).bit_length())
