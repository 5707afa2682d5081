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
    first, second, scores, gradient, hidden, squares, step : tuple of int
        Tile sizes of a kernel, followed by its number of warps and of pipeline stages. Those of ``step`` are the height and
        width of a tile of the second layer, then of the first.
    layer_spans, score_spans : int
        Number of partial sums of a layer's product and of the scores; several of them occupy the GPU if there are few models.
    unit : int, default=64
        Width of the partial sums of Gram matrices.
    eviction : tuple of (str, str), default=("", "")
        Eviction policies of the L2 cache for updated parameters and moments: ``"evict_first"``, ``"evict_last"`` or none.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    scores: tuple[int, ...]
    gradient: tuple[int, ...]
    hidden: tuple[int, ...]
    squares: tuple[int, ...]
    step: tuple[int, ...]
    layer_spans: int
    score_spans: int
    unit: int = 64
    eviction: tuple[str, str] = ("", "")


MANY = 4  # number of models from which MANY_MODELS is faster
FEW_MODELS = Tiles(
    first=(16, 32, 2, 3),
    second=(32, 64, 2, 3),
    scores=(16, 32, 128, 4, 1),
    gradient=(32, 16, 128, 4, 1),
    hidden=(32, 64, 2, 3),
    squares=(16, 128, 2, 1),
    step=(16, 64, 16, 32, 2, 1),
    layer_spans=4,
    score_spans=16,
    eviction=("", "evict_first"),
)
MANY_MODELS = replace(
    FEW_MODELS,
    first=(64, 128, 4, 1),
    second=(64, 64, 4, 3),
    scores=(64, 32, 64, 4, 3),
    gradient=(32, 64, 32, 4, 3),
    hidden=(64, 64, 4, 3),
    squares=(16, 128, 4, 1),
    layer_spans=2,
    score_spans=4,
    eviction=("evict_last", ""),
)
FREE_TILE = 2048  # weights of free classifiers per tile


class FusedStep:
    """One gradient step of every model: forward pass, loss, backward pass, gradient clipping and Adam, in eight launches.

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
        self.every = self.free + count
        self.units = _up(self.feature_size, tiles.unit), _up(hidden, tiles.unit)
        self.free_tiles = _up(self.free * self.feature_size, FREE_TILE)

        def buffer(*shape: int) -> Tensor:
            return torch.empty(models, *shape, device=features.device)

        self.total = torch.zeros(models, device=features.device)
        self.counts = torch.zeros(models, 2, dtype=torch.int32, device=features.device)  # images; of these, with plain loss
        self.powers = torch.zeros(models, device=features.device)  # q
        self.hidden, self.hidden_gradient = buffer(count, hidden), buffer(count, hidden)
        self.generated = buffer(tiles.layer_spans, count, self.feature_size)
        self.hidden_parts = buffer(tiles.layer_spans, count, hidden)
        self.classifiers, self.gradient = buffer(self.every, self.feature_size), buffer(self.every, self.feature_size)
        self.parts, self.squares = buffer(tiles.score_spans, size, self.every), buffer(tiles.score_spans, self.every)
        self.slopes, self.weighted = buffer(size, self.every), buffer(size, self.every)
        self.losses, self.pulls = buffer(size), buffer(size)
        self.products = buffer(sum(self.units), count, count)
        self.gradient_squares = buffer(_up(hidden, tiles.squares[0]) + count + self.free_tiles + 1)
        if self.free:
            # The free classifiers are stored where the score kernel reads them.
            self.classifiers[:, : self.free] = values["free"]
            values["free"] = self.classifiers[:, : self.free]

    def __call__(self, classes: Tensor, rows: Tensor, labels: Tensor, settings: Tensor, back: bool) -> None:
        """Launch the kernels of one step.

        Parameters
        ----------
        classes : Tensor of shape (models, count)
            Rows of ``vectors``.
        rows : Tensor of shape (models, size)
            Rows of ``features``.
        labels : Tensor of shape (models, size)
            Columns of the score matrix.
        settings : Tensor of shape (models, 4)
            Step size, correction of the second moment, weight decay and largest gradient norm.
        back : bool
            Direction of this step, which alternates to make better use of the cache. If true, the forward pass through the
            second layer visits the models in reverse order, the backward pass in order, and the update models and tiles in
            reverse.
        """
        self._forward(classes, rows, labels, back)
        self._backward(classes, rows, back)
        self._step(classes, settings, back)

    def _forward(self, classes: Tensor, rows: Tensor, labels: Tensor, back: bool) -> None:
        values, tiles, models, deep = self.values, self.tiles, self.models, _up(self.count, self._narrow)
        hidden, features, semantic, precision = self.hidden_size, self.feature_size, self.semantic_size, self.precision
        j, k = tiles.first[:2]
        kernels.forward_layer[(_up(hidden, j), deep, models)](
            self.hidden, self.vectors, classes, values["first"], values["first_bias"], self.count, semantic, hidden,
            _up(semantic, k) * k, 1, True, True, precision, self._narrow, j, k, False, **_options(tiles.first),
        )  # fmt: skip
        j, k = tiles.second[:2]
        spans = tiles.layer_spans
        kernels.forward_layer[(_up(features, j) * spans, deep, models)](
            self.generated, self.hidden, classes, values["second"], values["second_bias"], self.count, hidden, features,
            _up(hidden, spans * k) * k, spans, False, False, precision, self._narrow, j, k, back, **_options(tiles.second),
        )  # fmt: skip
        i, j, k = tiles.scores[:3]
        kernels.score_parts[(_up(self.size, i) * _up(self.every, j), tiles.score_spans, models)](
            self.parts, self.squares, self.features, rows, self.classifiers, self.generated, values["second_bias"],
            self.size, self.count, self.free, features, _up(features, tiles.score_spans * k) * k, spans, self.rectify,
            precision, i, j, k, **_options(tiles.scores),
        )  # fmt: skip
        kernels.loss_and_pull[(self.size, models)](
            self.losses, self.pulls, self.slopes, self.weighted, self.parts, self.squares, labels, values["scale"],
            self.counts, self.powers, self.size, self.every, tiles.score_spans, _power_of_two(self.every),
            num_warps=1 if self.every <= 256 else 4,
        )  # fmt: skip

    def _backward(self, classes: Tensor, rows: Tensor, back: bool) -> None:
        values, tiles, models, spans = self.values, self.tiles, self.models, self.tiles.layer_spans
        hidden, features, precision = self.hidden_size, self.feature_size, self.precision
        i, j, k = tiles.gradient[:3]
        kernels.classifier_gradient[(_up(features, j), _up(self.every, i), models)](
            self.gradient, self.slopes, self.weighted, self.squares, self.features, rows, self.classifiers, values["scale"],
            self.size, self.every, self.free, features, tiles.score_spans, self.rectify, precision, i, j, k,
            **_options(tiles.gradient),
        )  # fmt: skip
        j, k = tiles.hidden[:2]
        kernels.hidden_gradient_parts[(_up(hidden, j) * spans + sum(self.units), _up(self.count, self._narrow) ** 2, models)](
            self.hidden_parts, self.products, self.gradient, values["second"], self.hidden, self.count, self.every, self.free,
            features, hidden, _up(features, spans * k) * k, spans, precision, *self.units, self._narrow, j, k, tiles.unit,
            not back, **_options(tiles.hidden),
        )  # fmt: skip
        tile, j = tiles.squares[:2]
        kernels.gradient_squares[(self.gradient_squares.shape[1], models)](
            self.gradient_squares, self.hidden_gradient, self.products, self.hidden_parts, self.hidden, self.vectors, classes,
            self.gradient, self.pulls, values["scale"], self.count, _power_of_two(self.count), self.every, self.free, self.size,
            _power_of_two(self.size), self.semantic_size, hidden, features, *self.units, _up(hidden, tile), self.free_tiles,
            spans, precision, tile, j, self._narrow, FREE_TILE, **_options(tiles.squares),
        )  # fmt: skip

    def _step(self, classes: Tensor, settings: Tensor, back: bool) -> None:
        hidden, features, semantic = self.hidden_size, self.feature_size, self.semantic_size
        high, across, first_high, first_across = shape = self.tiles.step[:4]
        second = _up(features, high) * _up(hidden, across)
        tiles = second, _up(hidden, first_high) * _up(semantic, first_across), self.free_tiles
        layers = [tensor for role in ("first", "first_bias", "second", "second_bias") for tensor in self._with_moments(role)]
        free = self._with_moments("free" if self.free else "scale")  # placeholder that no tile accesses
        squares = self.gradient_squares.shape[1]
        kernels.clip_and_step[(sum(tiles) + 1, self.models)](
            self.gradient, self.hidden, self.hidden_gradient, self.vectors, classes, self.pulls, self.losses, self.total,
            self.gradient_squares, settings, *layers, *free, *self._with_moments("scale"),
            self.count, self.every, self.free, self.size, _power_of_two(self.size), semantic, hidden, features, self.precision,
            *tiles, squares, _power_of_two(squares), *shape, self._narrow, FREE_TILE, back, *self.tiles.eviction,
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
