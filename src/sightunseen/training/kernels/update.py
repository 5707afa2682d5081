"""Update kernel: gradient clipping and Adam in one pass over parameters and moments."""

import triton
import triton.language as tl

from sightunseen.training.kernels.backward import scale_gradient
from sightunseen.training.kernels.forward import store_hidden
from sightunseen.training.kernels.tiles import chosen_rows_of, model_of, rows_of


@triton.jit
def with_moments(value, mean, square, at, here):
    """Load parameters and moments."""
    p = tl.load(value + at, mask=here, other=0.0)
    m = tl.load(mean + at, mask=here, other=0.0)
    v = tl.load(square + at, mask=here, other=0.0)
    return p, m, v


@triton.jit
def clipping(squares, settings, model, SQUARES: tl.constexpr, SQUARES_PADDED: tl.constexpr):
    """Factor that clips the gradient to the largest norm."""
    part = tl.arange(0, SQUARES_PADDED)
    norm = tl.sqrt(tl.sum(tl.load(squares + model * SQUARES + part, mask=part < SQUARES, other=0.0)))
    return tl.minimum(tl.load(settings + 4 * model + 3) / (norm + 1e-6), 1.0)


@triton.jit
def adam(
    value, mean, square, at, here, p, m, v, gradient, factor, settings, model, KEEP: tl.constexpr, DROP: tl.constexpr
):  # fmt: skip
    """Adam step with weight decay added to the gradient; stores the new parameters and moments."""
    rate, correction = tl.load(settings + 4 * model), tl.load(settings + 4 * model + 1)
    g = gradient * factor + tl.load(settings + 4 * model + 2) * p
    m += 0.1 * (g - m)
    v = 0.999 * v + 0.001 * g * g
    tl.store(mean + at, m, mask=here, eviction_policy=DROP)
    tl.store(square + at, v, mask=here, eviction_policy=DROP)
    tl.store(value + at, p - rate * m / (tl.sqrt(v) * correction + 1e-8), mask=here, eviction_policy=KEEP)


@triton.jit
def step_layer(
    left, left_row, right, rows, tile_i, tile_j, model, squares, settings,
    value, mean, square, bias_value, bias_mean, bias_square,
    COUNT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GATHER: tl.constexpr, PRECISION: tl.constexpr,
    SQUARES: tl.constexpr, SQUARES_PADDED: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Adam step of a tile of a layer with gradient left' right; the first tile of each row also updates the bias."""
    i, j = tile_i * TILE_I + tl.arange(0, TILE_I), tile_j * TILE_J + tl.arange(0, TILE_J)
    own = model * HEIGHT * WIDTH
    value, mean, square = value + own, mean + own, square + own
    at = i[:, None] * WIDTH + j[None, :]
    here = (i < HEIGHT)[:, None] & (j < WIDTH)[None, :]
    if not GATHER:  # issued first, as memory is the bottleneck; the first layer is small, and its loads would take registers
        p, m, v = with_moments(value, mean, square, at, here)
    total = tl.zeros((TILE_I, TILE_J), tl.float32)
    for start in range(0, COUNT, TILE_K):
        k = start + tl.arange(0, TILE_K)
        a = rows_of(left, left_row, k, i, COUNT, HEIGHT)
        other = (
            chosen_rows_of(right, rows, model, k, j, COUNT, WIDTH)
            if GATHER
            else rows_of(right, model * COUNT, k, j, COUNT, WIDTH)
        )
        total = tl.dot(tl.trans(a), other, total, input_precision=PRECISION)
    # Loads nothing, but the result has the layout of a load. Otherwise the compiler would move p, m and v through shared
    # memory to the layout of the product, and the updated values back.
    total = tl.load(value + at, mask=here & (i < 0)[:, None], other=total)
    factor = clipping(squares, settings, model, SQUARES, SQUARES_PADDED)
    if GATHER:
        p, m, v = with_moments(value, mean, square, at, here)
    adam(value, mean, square, at, here, p, m, v, total, factor, settings, model, KEEP, DROP)
    if tile_j == 0:
        bias = tl.zeros((TILE_I,), tl.float32)
        for start in range(0, COUNT, TILE_K):
            bias += tl.sum(rows_of(left, left_row, start + tl.arange(0, TILE_K), i, COUNT, HEIGHT), axis=0)
        row, inside = model * HEIGHT + i, i < HEIGHT
        b, n, u = with_moments(bias_value, bias_mean, bias_square, row, inside)
        adam(bias_value, bias_mean, bias_square, row, inside, b, n, u, bias, factor, settings, model, KEEP, DROP)


@triton.jit
def step_free(
    gradient, tile, model, squares, settings, value, mean, square,
    LENGTH: tl.constexpr, SQUARES: tl.constexpr, SQUARES_PADDED: tl.constexpr, TILE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Adam step of a tile of a model's free classifiers."""
    at = tile * TILE + tl.arange(0, TILE)
    p, m, v = with_moments(value, mean, square, at, at < LENGTH)
    slope = tl.load(gradient + at, mask=at < LENGTH, other=0.0)
    factor = clipping(squares, settings, model, SQUARES, SQUARES_PADDED)
    adam(value, mean, square, at, at < LENGTH, p, m, v, slope, factor, settings, model, KEEP, DROP)


@triton.jit
def clip_and_step(
    next_hidden, gradient, hidden, hidden_gradient, vectors, rows, next_rows, pulls, losses, total_loss, squares, settings,
    first, first_mean, first_square, first_bias, first_bias_mean, first_bias_square,
    second, second_mean, second_square, second_bias, second_bias_mean, second_bias_square,
    free, free_mean, free_square, scale, scale_mean, scale_square,
    COUNT: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, SIZE: tl.constexpr, SIZE_PADDED: tl.constexpr,
    ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, FEATURES: tl.constexpr, PRECISION: tl.constexpr,
    FREE_TILES: tl.constexpr, SQUARES: tl.constexpr, SQUARES_PADDED: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, FIRST_I: tl.constexpr, FIRST_J: tl.constexpr,
    TILE_K: tl.constexpr, FREE_TILE: tl.constexpr, REVERSED: tl.constexpr, KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Clip the gradient to the largest norm and apply Adam, in one pass over parameters and moments.

    Programs that update rows of the first layer then compute the hidden units of the next batch from them.
    """
    first_tiles: tl.constexpr = (HIDDEN + FIRST_I - 1) // FIRST_I
    first_across: tl.constexpr = (ATTRIBUTES + FIRST_J - 1) // FIRST_J
    across: tl.constexpr = (HIDDEN + TILE_J - 1) // TILE_J
    second_tiles: tl.constexpr = (FEATURES + TILE_I - 1) // TILE_I * across
    place, model = tl.program_id(0), model_of(tl.program_id(1), tl.num_programs(1), REVERSED)
    if place < first_tiles:  # they take longest
        for tile in range(first_across):
            step_layer(
                hidden_gradient, model * COUNT, vectors, rows, place, tile, model, squares, settings,
                first, first_mean, first_square, first_bias, first_bias_mean, first_bias_square,
                COUNT, HIDDEN, ATTRIBUTES, True, PRECISION, SQUARES, SQUARES_PADDED, FIRST_I, FIRST_J, TILE_K, KEEP, DROP,
            )  # fmt: skip
        tl.debug_barrier()  # the rows are read again, by other threads
        j = place * FIRST_I + tl.arange(0, FIRST_I)
        for start in range(0, COUNT, TILE_K):
            i = start + tl.arange(0, TILE_K)
            store_hidden(
                next_hidden, vectors, next_rows, first, first_bias, model, i, j, COUNT, ATTRIBUTES, HIDDEN, PRECISION, FIRST_J
            )
    elif place < first_tiles + second_tiles:
        tile = first_tiles + second_tiles - 1 - place if REVERSED else place - first_tiles
        step_layer(
            gradient, model * CLASSES + FREE, hidden, rows, tile // across, tile % across, model, squares, settings,
            second, second_mean, second_square, second_bias, second_bias_mean, second_bias_square,
            COUNT, FEATURES, HIDDEN, False, PRECISION, SQUARES, SQUARES_PADDED, TILE_I, TILE_J, TILE_K, KEEP, DROP,
        )  # fmt: skip
    elif place < first_tiles + second_tiles + FREE_TILES:
        # The free classifiers are stored before the generated ones; their moments are stored alone.
        step_free(
            gradient + model * CLASSES * FEATURES, place - first_tiles - second_tiles, model, squares, settings,
            free + model * CLASSES * FEATURES, free_mean + model * FREE * FEATURES, free_square + model * FREE * FEATURES,
            FREE * FEATURES, SQUARES, SQUARES_PADDED, FREE_TILE, KEEP, DROP,
        )  # fmt: skip
    else:
        slope = scale_gradient(pulls, scale, model, SIZE, SIZE_PADDED)
        factor = clipping(squares, settings, model, SQUARES, SQUARES_PADDED)
        p, m, v = with_moments(scale, scale_mean, scale_square, model, model >= 0)
        adam(scale, scale_mean, scale_square, model, model >= 0, p, m, v, slope, factor, settings, model, "", "")
        image = tl.arange(0, SIZE_PADDED)
        loss = tl.sum(tl.load(losses + model * SIZE + image, mask=image < SIZE, other=0.0))
        tl.store(total_loss + model, tl.load(total_loss + model) + loss)
