"""Backward kernels: gradients of classifiers and hidden units, and the norm of the gradient of all parameters."""

import triton
import triton.language as tl

from sightunseen.training.kernels.tiles import chosen_rows_of, is_last, model_of, rows_of


@triton.jit
def classifier_gradient(
    out, slopes, weighted, lengths, features, rows, classifiers, scale,
    SIZE: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, FEATURES: tl.constexpr, RECTIFY: tl.constexpr,
    PRECISION: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Gradient d loss / d w, through the L2 normalisation and, for generated w, the last ReLU."""
    model = tl.program_id(2).to(tl.int64)
    i = tl.program_id(1) * TILE_I + tl.arange(0, TILE_I)  # classes
    j = tl.program_id(0) * TILE_J + tl.arange(0, TILE_J)  # features
    total = tl.zeros((TILE_I, TILE_J), tl.float32)
    pull = tl.zeros((TILE_I,), tl.float32)
    for start in range(0, SIZE, TILE_K):
        k = start + tl.arange(0, TILE_K)  # images
        row = tl.load(rows + model * SIZE + k, mask=k < SIZE, other=0)
        at = (model * SIZE + k)[None, :] * CLASSES + i[:, None]
        here = (k < SIZE)[None, :] & (i < CLASSES)[:, None]
        pull += tl.sum(tl.load(weighted + at, mask=here, other=0.0), axis=1)
        slope = tl.load(slopes + at, mask=here, other=0.0)
        x = tl.load(features + row[:, None] * FEATURES + j[None, :], mask=(j < FEATURES)[None, :], other=0.0)
        total = tl.dot(slope, x, total, input_precision=PRECISION)
    length = tl.load(lengths + model * CLASSES + i, mask=i < CLASSES, other=1.0)[:, None]
    at = (model * CLASSES + i)[:, None] * FEATURES + j[None, :]
    here = (i < CLASSES)[:, None] & (j < FEATURES)[None, :]
    w = tl.load(classifiers + at, mask=here, other=0.0)
    gradient = (tl.load(scale + model) * total - w / length * pull[:, None]) / length
    if RECTIFY:
        gradient = tl.where((i >= FREE)[:, None] & (w <= 0.0), 0.0, gradient)
    tl.store(out + at, gradient, mask=here)


@triton.jit
def scale_gradient(pulls, scale, model, SIZE: tl.constexpr, SIZE_PADDED: tl.constexpr):
    """Gradient d loss / d sigma."""
    image = tl.arange(0, SIZE_PADDED)
    return tl.sum(tl.load(pulls + model * SIZE + image, mask=image < SIZE, other=0.0)) / tl.load(scale + model)


@triton.jit
def hidden_gradient_and_norm(
    hidden_gradient, squares, parts, products, arrivals, gradient, weight, hidden, vectors, rows, pulls, scale,
    COUNT: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, SIZE: tl.constexpr, SIZE_PADDED: tl.constexpr,
    ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, FEATURES: tl.constexpr, SPAN: tl.constexpr, SPANS: tl.constexpr,
    FEATURE_UNITS: tl.constexpr, HIDDEN_UNITS: tl.constexpr, FREE_TILES: tl.constexpr, PRECISION: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr, TILE_A: tl.constexpr, TILE_UNIT: tl.constexpr,
    FREE_TILE: tl.constexpr, REVERSED: tl.constexpr,
):  # fmt: skip
    """Gradient d loss / d hidden before the ReLU, and the squared norm of the gradient of all parameters, in parts.

    Parts of the norm: tiles of the first layer, pairs of tiles of classes for the second layer, free classifiers, scale.
    """
    tiles_i: tl.constexpr = (COUNT + TILE_I - 1) // TILE_I
    tiles_j: tl.constexpr = (HIDDEN + TILE_J - 1) // TILE_J
    pairs: tl.constexpr = tiles_i * tiles_i
    units: tl.constexpr = FEATURE_UNITS + HIDDEN_UNITS
    model = model_of(tl.program_id(2), tl.num_programs(2), REVERSED)
    place, across = tl.program_id(0), tl.program_id(1)
    own_squares = squares + model * (tiles_j + pairs + FREE_TILES + 1)
    own_arrivals = arrivals + model * (tiles_j + pairs)
    if place < tiles_j * SPANS:
        if across < tiles_i:
            span, tile_j = place // tiles_j, place % tiles_j
            i, j = across * TILE_I + tl.arange(0, TILE_I), tile_j * TILE_J + tl.arange(0, TILE_J)
            total = tl.zeros((TILE_I, TILE_J), tl.float32)
            for start in range(0, SPAN, TILE_K):
                k = span * SPAN + start + tl.arange(0, TILE_K)
                left = rows_of(gradient, model * CLASSES + FREE, i, k, COUNT, FEATURES)
                right = rows_of(weight, model * FEATURES, k, j, FEATURES, HIDDEN)
                total = tl.dot(left, right, total, input_precision=PRECISION)
            at = ((model * SPANS + span) * COUNT + i)[:, None] * HIDDEN + j[None, :]
            tl.store(parts + at, total, mask=(i < COUNT)[:, None] & (j < HIDDEN)[None, :])
            if is_last(own_arrivals + tile_j, SPANS * tiles_i):
                square = first_layer_square(
                    hidden_gradient, parts, hidden, vectors, rows, model, j,
                    COUNT, ATTRIBUTES, HIDDEN, SPANS, PRECISION, TILE_I, TILE_A,
                )  # fmt: skip
                tl.store(own_squares + tile_j, square)
    elif place < tiles_j * SPANS + units:
        unit = place - tiles_j * SPANS
        if across < pairs:
            own = products + model * units * COUNT * COUNT
            i = (across // tiles_i) * TILE_I + tl.arange(0, TILE_I)
            j = (across % tiles_i) * TILE_I + tl.arange(0, TILE_I)
            if unit < FEATURE_UNITS:
                first_row = model * CLASSES + FREE
                gram(own, gradient, first_row, unit, unit, i, j, COUNT, FEATURES, PRECISION, TILE_UNIT)
            else:
                part = unit - FEATURE_UNITS
                gram(own, hidden, model * COUNT, unit, part, i, j, COUNT, HIDDEN, PRECISION, TILE_UNIT)
            if is_last(own_arrivals + tiles_j + across, units):
                of_gradients = summed(own, 0, i, j, COUNT, FEATURE_UNITS)
                of_hidden = summed(own, FEATURE_UNITS, i, j, COUNT, HIDDEN_UNITS)
                # + 1: the bias is the weight of a constant input of one
                tl.store(own_squares + tiles_j + across, tl.sum(of_gradients * (of_hidden + 1.0)))
    elif across == 0:
        part = place - tiles_j * SPANS - units
        if part < FREE_TILES:
            at = part * FREE_TILE + tl.arange(0, FREE_TILE)
            own = tl.load(gradient + model * CLASSES * FEATURES + at, mask=at < FREE * FEATURES, other=0.0)
            tl.store(own_squares + tiles_j + pairs + part, tl.sum(own * own))
        else:
            slope = scale_gradient(pulls, scale, model, SIZE, SIZE_PADDED)
            tl.store(own_squares + tiles_j + pairs + part, slope * slope)


@triton.jit
def first_layer_square(
    hidden_gradient, parts, hidden, vectors, rows, model, j,
    COUNT: tl.constexpr, ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, SPANS: tl.constexpr, PRECISION: tl.constexpr,
    TILE_I: tl.constexpr, TILE_A: tl.constexpr,
):  # fmt: skip
    """Finish d loss / d hidden for hidden units j, through the ReLU; return the squared norm of their parameters' gradient."""
    bias = tl.zeros((j.shape[0],), tl.float32)
    for start in range(0, COUNT, TILE_I):
        i = start + tl.arange(0, TILE_I)
        at = i[:, None] * HIDDEN + j[None, :]
        here = (i < COUNT)[:, None] & (j < HIDDEN)[None, :]
        finished = tl.zeros((TILE_I, j.shape[0]), tl.float32)
        for span in tl.static_range(SPANS):
            own = parts + (model * SPANS + span) * COUNT * HIDDEN
            finished += tl.load(own + at, mask=here, other=0.0, cache_modifier=".cg")
        finished = tl.where(rows_of(hidden, model * COUNT, i, j, COUNT, HIDDEN) > 0.0, finished, 0.0)
        tl.store(hidden_gradient + model * COUNT * HIDDEN + at, finished, mask=here)
        bias += tl.sum(finished, axis=0)
    tl.debug_barrier()  # the rows are read again, by other threads
    square = tl.sum(bias * bias)
    for start_a in range(0, ATTRIBUTES, TILE_A):
        a = start_a + tl.arange(0, TILE_A)
        total = tl.zeros((j.shape[0], TILE_A), tl.float32)
        for start in range(0, COUNT, TILE_I):
            i = start + tl.arange(0, TILE_I)
            finished = rows_of(hidden_gradient, model * COUNT, i, j, COUNT, HIDDEN)
            described = chosen_rows_of(vectors, rows, model, i, a, COUNT, ATTRIBUTES)
            total = tl.dot(tl.trans(finished), described, total, input_precision=PRECISION)
        square += tl.sum(total * total)
    return square


@triton.jit
def gram(
    out, table, first_row, position, unit, i, j,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, TILE_UNIT: tl.constexpr,
):  # fmt: skip
    """Tile (i, j) of the Gram matrix of a table's rows, summed over one unit of its width.

    The squared norm of a gradient G' H is sum((G G') * (H H')), so that the large matrix is not needed.
    """
    k = unit * TILE_UNIT + tl.arange(0, TILE_UNIT)
    left = rows_of(table, first_row, i, k, COUNT, WIDTH)
    right = rows_of(table, first_row, j, k, COUNT, WIDTH)
    product = tl.dot(left, tl.trans(right), input_precision=PRECISION)
    at = (position * COUNT + i)[:, None] * COUNT + j[None, :]
    tl.store(out + at, product, mask=(i < COUNT)[:, None] & (j < COUNT)[None, :])


@triton.jit
def summed(products, first, i, j, COUNT: tl.constexpr, UNITS: tl.constexpr):
    """Tile (i, j) of a Gram matrix, summed from its partial sums."""
    total = tl.zeros((i.shape[0], j.shape[0]), tl.float32)
    for unit in tl.static_range(UNITS):
        at = ((first + unit) * COUNT + i)[:, None] * COUNT + j[None, :]
        here = (i < COUNT)[:, None] & (j < COUNT)[None, :]
        total += tl.load(products + at, mask=here, other=0.0, cache_modifier=".cg")
    return total
