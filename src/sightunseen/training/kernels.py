"""Triton kernels of one gradient step of many models, for the loss of an ``objective.FusedForm``.

The last grid axis of every kernel is the model. Indexed rows of tables (``rows``, ``classes``) are gathered while they are
read. The gradient of a weight matrix is never stored: it is the product of two thin matrices and is computed in the pass that
clips it and applies Adam. Partial sums of tiles are added in a fixed order, so that results are reproducible bit by bit.

Sizes: ``COUNT`` generated classes per batch, ``FREE`` free classifiers before them, ``SIZE`` images, and ``ATTRIBUTES``,
``HIDDEN`` and ``FEATURES`` for the dimensions of class vectors, of the hidden layer and of features.
"""

import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-12)  # smallest norm to divide by, as in torch


@triton.jit
def rows_of(table, first_row, i, k, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Load a tile (i, k) of a table with rows of this width."""
    at = (first_row + i)[:, None] * WIDTH + k[None, :]
    return tl.load(table + at, mask=(i < COUNT)[:, None] & (k < WIDTH)[None, :], other=0.0)


@triton.jit
def chosen_rows_of(table, rows, model, i, k, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Load a tile (i, k) of the rows that a batch selects."""
    row = tl.load(rows + model * COUNT + i, mask=i < COUNT, other=0)
    return tl.load(table + row[:, None] * WIDTH + k[None, :], mask=(i < COUNT)[:, None] & (k < WIDTH)[None, :], other=0.0)


@triton.jit
def model_of(position, models, REVERSED: tl.constexpr):
    """Model of a program; alternating directions, as the weights that are accessed last are still in the cache."""
    return (models - 1 - position if REVERSED else position).to(tl.int64)


@triton.jit
def forward_layer(
    out, inputs, rows, weight, bias,
    COUNT: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, SPANS: tl.constexpr,
    GATHER: tl.constexpr, FINISH: tl.constexpr, PRECISION: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr, REVERSED: tl.constexpr,
):  # fmt: skip
    """Layer of the generator (Eq. 1): relu(inputs weight' + bias), or the partial sum of inputs weight' over one span."""
    tiles_j: tl.constexpr = (WIDTH + TILE_J - 1) // TILE_J
    model, span = model_of(tl.program_id(2), tl.num_programs(2), REVERSED), tl.program_id(0) // tiles_j
    i = tl.program_id(1) * TILE_I + tl.arange(0, TILE_I)
    j = (tl.program_id(0) % tiles_j) * TILE_J + tl.arange(0, TILE_J)
    total = tl.zeros((TILE_I, TILE_J), tl.float32)
    for start in range(0, SPAN, TILE_K):
        k = span * SPAN + start + tl.arange(0, TILE_K)
        left = (
            chosen_rows_of(inputs, rows, model, i, k, COUNT, DEPTH)
            if GATHER
            else rows_of(inputs, model * COUNT, i, k, COUNT, DEPTH)
        )
        at = model * WIDTH * DEPTH + j[None, :] * DEPTH + k[:, None]
        right = tl.load(weight + at, mask=(j < WIDTH)[None, :] & (k < DEPTH)[:, None], other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    if FINISH:
        total = tl.maximum(total + tl.load(bias + model * WIDTH + j, mask=j < WIDTH, other=0.0)[None, :], 0.0)
    at = ((model * SPANS + span) * COUNT + i)[:, None] * WIDTH + j[None, :]
    tl.store(out + at, total, mask=(i < COUNT)[:, None] & (j < WIDTH)[None, :])


@triton.jit
def finished_classifiers(
    classifiers, generated, bias, model, j, k,
    COUNT: tl.constexpr, FREE: tl.constexpr, FEATURES: tl.constexpr, LAYER_SPANS: tl.constexpr, RECTIFY: tl.constexpr,
):  # fmt: skip
    """Load a tile (k, j) of the classifiers: free ones as stored, generated ones summed from their partial sums."""
    inside = (k < FEATURES)[:, None]
    at = (model * (FREE + COUNT) + j)[None, :] * FEATURES + k[:, None]
    is_new = (j >= FREE) & (j < FREE + COUNT)
    total = tl.zeros((k.shape[0], j.shape[0]), tl.float32)
    for span in tl.static_range(LAYER_SPANS):
        part = ((model * LAYER_SPANS + span) * COUNT + j - FREE)[None, :] * FEATURES + k[:, None]
        total += tl.load(generated + part, mask=is_new[None, :] & inside, other=0.0)
    total += tl.load(bias + model * FEATURES + k, mask=k < FEATURES, other=0.0)[:, None]
    if RECTIFY:
        total = tl.maximum(total, 0.0)
    old = tl.load(classifiers + at, mask=(j < FREE)[None, :] & inside, other=0.0)
    return tl.where(is_new[None, :] & inside, total, old), at, is_new[None, :] & inside


@triton.jit
def score_parts(
    parts, squares, features, rows, classifiers, generated, bias,
    SIZE: tl.constexpr, COUNT: tl.constexpr, FREE: tl.constexpr, FEATURES: tl.constexpr, SPAN: tl.constexpr,
    LAYER_SPANS: tl.constexpr, RECTIFY: tl.constexpr, PRECISION: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Partial sums of x . w and of |w|^2 over one span of the features, for all images and classes; stores complete w."""
    classes: tl.constexpr = FREE + COUNT
    tiles_j: tl.constexpr = (classes + TILE_J - 1) // TILE_J
    model = tl.program_id(2).to(tl.int64)
    span, spans = tl.program_id(1), tl.num_programs(1)
    i = (tl.program_id(0) // tiles_j) * TILE_I + tl.arange(0, TILE_I)
    j = (tl.program_id(0) % tiles_j) * TILE_J + tl.arange(0, TILE_J)
    is_first = (tl.program_id(0) + 0 * j) < tiles_j  # shaped like j: masks are tensors
    row = tl.load(rows + model * SIZE + i, mask=i < SIZE, other=0)
    total = tl.zeros((TILE_I, TILE_J), tl.float32)
    square = tl.zeros((TILE_J,), tl.float32)
    for start in range(0, SPAN, TILE_K):
        k = span * SPAN + start + tl.arange(0, TILE_K)
        x = tl.load(features + row[:, None] * FEATURES + k[None, :], mask=(k < FEATURES)[None, :], other=0.0)
        w, at, is_new = finished_classifiers(
            classifiers, generated, bias, model, j, k, COUNT, FREE, FEATURES, LAYER_SPANS, RECTIFY
        )
        tl.store(classifiers + at, w, mask=is_new & is_first[None, :])
        total = tl.dot(x, w, total, input_precision=PRECISION)
        square += tl.sum(w * w, axis=0)
    at = ((model * spans + span) * SIZE + i)[:, None] * classes + j[None, :]
    tl.store(parts + at, total, mask=(i < SIZE)[:, None] & (j < classes)[None, :])
    tl.store(squares + (model * spans + span) * classes + j, square, mask=(j < classes) & is_first)


@triton.jit
def loss_and_pull(
    losses, pulls, slopes, weighted, parts, squares, labels, scale, counts, powers,
    SIZE: tl.constexpr, CLASSES: tl.constexpr, SPANS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Eq. 2, 3 and 6 for one image: loss, d loss / d score (``slopes``), and its product with the score (``weighted``)."""
    i, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    j = tl.arange(0, WIDTH)
    score = tl.zeros((WIDTH,), tl.float32)
    square = tl.zeros((WIDTH,), tl.float32)
    for span in tl.static_range(SPANS):
        score += tl.load(parts + ((model * SPANS + span) * SIZE + i) * CLASSES + j, mask=j < CLASSES, other=0.0)
        square += tl.load(squares + (model * SPANS + span) * CLASSES + j, mask=j < CLASSES, other=0.0)
    score = tl.load(scale + model) * score / tl.maximum(tl.sqrt(square), EPSILON)
    top = tl.max(tl.where(j < CLASSES, score, float("-inf")), axis=0)
    exponential = tl.where(j < CLASSES, tl.exp(score - top), 0.0)
    whole = tl.sum(exponential, axis=0)
    is_label = j == tl.load(labels + model * SIZE + i)
    log_p = tl.sum(tl.where(is_label, score, 0.0), axis=0) - top - tl.log(whole)
    images, plain = tl.load(counts + 2 * model), tl.load(counts + 2 * model + 1)
    q = tl.load(powers + model)
    robust = (i >= plain) & (q > 0)
    p_q = tl.where(robust, tl.exp(q * log_p), 1.0)
    loss = tl.where(robust, (1.0 - p_q) / tl.where(q > 0, q, 1.0), -log_p)
    weight = tl.where(i < images, 1.0 / images, 0.0)
    slope = weight * p_q * (exponential / whole - is_label.to(tl.float32))
    pull = slope * score
    tl.store(losses + model * SIZE + i, weight * loss)
    tl.store(pulls + model * SIZE + i, tl.sum(tl.where(j < CLASSES, pull, 0.0), axis=0))
    at = (model * SIZE + i) * CLASSES + j
    tl.store(slopes + at, slope, mask=j < CLASSES)
    tl.store(weighted + at, pull, mask=j < CLASSES)


@triton.jit
def classifier_gradient(
    out, slopes, weighted, squares, features, rows, classifiers, scale,
    SIZE: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, FEATURES: tl.constexpr, SPANS: tl.constexpr,
    RECTIFY: tl.constexpr, PRECISION: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
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
    square = tl.zeros((TILE_I,), tl.float32)
    for span in tl.static_range(SPANS):
        square += tl.load(squares + (model * SPANS + span) * CLASSES + i, mask=i < CLASSES, other=1.0)
    length = tl.maximum(tl.sqrt(square), EPSILON)[:, None]
    at = (model * CLASSES + i)[:, None] * FEATURES + j[None, :]
    here = (i < CLASSES)[:, None] & (j < FEATURES)[None, :]
    w = tl.load(classifiers + at, mask=here, other=0.0)
    gradient = (tl.load(scale + model) * total - w / length * pull[:, None]) / length
    if RECTIFY:
        gradient = tl.where((i >= FREE)[:, None] & (w <= 0.0), 0.0, gradient)
    tl.store(out + at, gradient, mask=here)


@triton.jit
def gram(
    out, table, first_row, position, unit,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr, TILE: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Tile of the Gram matrix of a table's rows, summed over one unit of its width."""
    tiles: tl.constexpr = (COUNT + TILE - 1) // TILE
    i = (tl.program_id(1) // tiles) * TILE + tl.arange(0, TILE)
    j = (tl.program_id(1) % tiles) * TILE + tl.arange(0, TILE)
    k = unit * TILE_K + tl.arange(0, TILE_K)
    left = rows_of(table, first_row, i, k, COUNT, WIDTH)
    right = left if tiles == 1 else rows_of(table, first_row, j, k, COUNT, WIDTH)
    product = tl.dot(left, tl.trans(right), input_precision=PRECISION)
    at = (position * COUNT + i)[:, None] * COUNT + j[None, :]
    tl.store(out + at, product, mask=(i < COUNT)[:, None] & (j < COUNT)[None, :])


@triton.jit
def hidden_gradient_parts(
    out, products, gradient, weight, hidden,
    COUNT: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, FEATURES: tl.constexpr, HIDDEN: tl.constexpr,
    SPAN: tl.constexpr, SPANS: tl.constexpr, PRECISION: tl.constexpr,
    FEATURE_UNITS: tl.constexpr, HIDDEN_UNITS: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr, TILE_UNIT: tl.constexpr,
    REVERSED: tl.constexpr,
):  # fmt: skip
    """Partial sums of d loss / d hidden over spans of the features, before the ReLU; and Gram matrices for the norm.

    The squared norm of a gradient G' H is sum((G G') * (H H')), so that the large matrix is not needed.
    """
    tiles_i: tl.constexpr = (COUNT + TILE_I - 1) // TILE_I
    tiles_j: tl.constexpr = (HIDDEN + TILE_J - 1) // TILE_J
    model, unit = model_of(tl.program_id(2), tl.num_programs(2), REVERSED), tl.program_id(0) - tiles_j * SPANS
    first_position = model * (FEATURE_UNITS + HIDDEN_UNITS)
    if unit < 0:
        if tl.program_id(1) < tiles_i:
            span = tl.program_id(0) // tiles_j
            i = tl.program_id(1) * TILE_I + tl.arange(0, TILE_I)
            j = (tl.program_id(0) % tiles_j) * TILE_J + tl.arange(0, TILE_J)
            total = tl.zeros((TILE_I, TILE_J), tl.float32)
            for start in range(0, SPAN, TILE_K):
                k = span * SPAN + start + tl.arange(0, TILE_K)
                left = rows_of(gradient, model * CLASSES + FREE, i, k, COUNT, FEATURES)
                right = rows_of(weight, model * FEATURES, k, j, FEATURES, HIDDEN)
                total = tl.dot(left, right, total, input_precision=PRECISION)
            at = ((model * SPANS + span) * COUNT + i)[:, None] * HIDDEN + j[None, :]
            tl.store(out + at, total, mask=(i < COUNT)[:, None] & (j < HIDDEN)[None, :])
    elif unit < FEATURE_UNITS:
        first_row = model * CLASSES + FREE
        gram(products, gradient, first_row, first_position + unit, unit, COUNT, FEATURES, PRECISION, TILE_I, TILE_UNIT)
    else:
        span = unit - FEATURE_UNITS
        gram(products, hidden, model * COUNT, first_position + unit, span, COUNT, HIDDEN, PRECISION, TILE_I, TILE_UNIT)


@triton.jit
def gram_row(table, first, i, j, COUNT: tl.constexpr, UNITS: tl.constexpr):
    """Row i of a Gram matrix, summed from its partial sums."""
    total = tl.zeros((j.shape[0],), tl.float32)
    for unit in tl.static_range(UNITS):
        total += tl.load(table + ((first + unit) * COUNT + i) * COUNT + j, mask=j < COUNT, other=0.0)
    return total


@triton.jit
def first_layer_square(
    hidden_gradient, parts, hidden, vectors, rows, model, tile,
    COUNT: tl.constexpr, ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, LAYER_SPANS: tl.constexpr, PRECISION: tl.constexpr,
    TILE: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Sum d loss / d hidden of a tile of hidden units, through the ReLU; return the squared norm of their weight gradient."""
    i = tile * TILE + tl.arange(0, TILE)
    bias = tl.zeros((TILE,), tl.float32)
    square = 0.0
    for start_j in range(0, ATTRIBUTES, TILE_J):
        j = start_j + tl.arange(0, TILE_J)
        total = tl.zeros((TILE, TILE_J), tl.float32)
        for start in range(0, COUNT, TILE_K):
            k = start + tl.arange(0, TILE_K)
            finished = tl.zeros((TILE_K, TILE), tl.float32)
            for span in tl.static_range(LAYER_SPANS):
                finished += rows_of(parts, (model * LAYER_SPANS + span) * COUNT, k, i, COUNT, HIDDEN)
            finished = tl.where(rows_of(hidden, model * COUNT, k, i, COUNT, HIDDEN) > 0.0, finished, 0.0)
            at = (model * COUNT + k)[:, None] * HIDDEN + i[None, :]
            here = (k < COUNT)[:, None] & (i < HIDDEN)[None, :]
            tl.store(hidden_gradient + at, finished, mask=here & ((start_j + 0 * i) == 0)[None, :])
            bias += tl.where(start_j == 0, tl.sum(finished, axis=0), 0.0)
            described = chosen_rows_of(vectors, rows, model, k, j, COUNT, ATTRIBUTES)
            total = tl.dot(tl.trans(finished), described, total, input_precision=PRECISION)
        square += tl.sum(total * total)
    return square + tl.sum(bias * bias)


@triton.jit
def scale_gradient(pulls, scale, model, SIZE: tl.constexpr, SIZE_PADDED: tl.constexpr):
    """Gradient d loss / d sigma."""
    image = tl.arange(0, SIZE_PADDED)
    return tl.sum(tl.load(pulls + model * SIZE + image, mask=image < SIZE, other=0.0)) / tl.load(scale + model)


@triton.jit
def gradient_squares(
    out, hidden_gradient, products, parts, hidden, vectors, rows, gradient, pulls, scale,
    COUNT: tl.constexpr, COUNT_PADDED: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, SIZE: tl.constexpr,
    SIZE_PADDED: tl.constexpr, ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, FEATURES: tl.constexpr,
    FEATURE_UNITS: tl.constexpr, HIDDEN_UNITS: tl.constexpr, HIDDEN_TILES: tl.constexpr, FREE_TILES: tl.constexpr,
    LAYER_SPANS: tl.constexpr, PRECISION: tl.constexpr,
    TILE: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr, FREE_TILE: tl.constexpr,
):  # fmt: skip
    """Squared norm of the gradient, in parts: first layer, second layer, free classifiers, scale."""
    part, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    if part < HIDDEN_TILES:
        square = first_layer_square(
            hidden_gradient, parts, hidden, vectors, rows, model, part,
            COUNT, ATTRIBUTES, HIDDEN, LAYER_SPANS, PRECISION, TILE, TILE_J, TILE_K,
        )  # fmt: skip
    elif part < HIDDEN_TILES + COUNT:
        row = part - HIDDEN_TILES
        other = tl.arange(0, COUNT_PADDED)
        first = model * (FEATURE_UNITS + HIDDEN_UNITS)
        of_gradients = gram_row(products, first, row, other, COUNT, FEATURE_UNITS)
        of_hidden = gram_row(products, first + FEATURE_UNITS, row, other, COUNT, HIDDEN_UNITS)
        square = tl.sum(of_gradients * (of_hidden + 1.0))  # + 1: the bias is the weight of a constant input of one
    elif part < HIDDEN_TILES + COUNT + FREE_TILES:
        at = (part - HIDDEN_TILES - COUNT) * FREE_TILE + tl.arange(0, FREE_TILE)
        own = tl.load(gradient + model * CLASSES * FEATURES + at, mask=at < FREE * FEATURES, other=0.0)
        square = tl.sum(own * own)
    else:
        slope = scale_gradient(pulls, scale, model, SIZE, SIZE_PADDED)
        square = slope * slope
    tl.store(out + model * tl.num_programs(0) + part, square)


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
    left, left_row, right, rows, tile, model, squares, settings,
    value, mean, square, bias_value, bias_mean, bias_square,
    COUNT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GATHER: tl.constexpr, PRECISION: tl.constexpr,
    SQUARES: tl.constexpr, SQUARES_PADDED: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Adam step of a tile of a layer with gradient left' right; the first tile of each row also updates the bias."""
    across: tl.constexpr = (WIDTH + TILE_J - 1) // TILE_J
    i, j = (tile // across) * TILE_I + tl.arange(0, TILE_I), (tile % across) * TILE_J + tl.arange(0, TILE_J)
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
    if tile % across == 0:
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
    gradient, hidden, hidden_gradient, vectors, rows, pulls, losses, total_loss, squares, settings,
    first, first_mean, first_square, first_bias, first_bias_mean, first_bias_square,
    second, second_mean, second_square, second_bias, second_bias_mean, second_bias_square,
    free, free_mean, free_square, scale, scale_mean, scale_square,
    COUNT: tl.constexpr, CLASSES: tl.constexpr, FREE: tl.constexpr, SIZE: tl.constexpr, SIZE_PADDED: tl.constexpr,
    ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, FEATURES: tl.constexpr, PRECISION: tl.constexpr,
    SECOND_TILES: tl.constexpr, FIRST_TILES: tl.constexpr, FREE_TILES: tl.constexpr, SQUARES: tl.constexpr,
    SQUARES_PADDED: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, FIRST_I: tl.constexpr, FIRST_J: tl.constexpr,
    TILE_K: tl.constexpr, FREE_TILE: tl.constexpr, REVERSED: tl.constexpr, KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Clip the gradient to the largest norm and apply Adam, in one pass over parameters and moments."""
    tile, model = tl.program_id(0), model_of(tl.program_id(1), tl.num_programs(1), REVERSED)
    if REVERSED:
        tile = tl.num_programs(0) - 1 - tile
    if tile < SECOND_TILES:
        step_layer(
            gradient, model * CLASSES + FREE, hidden, rows, tile, model, squares, settings,
            second, second_mean, second_square, second_bias, second_bias_mean, second_bias_square,
            COUNT, FEATURES, HIDDEN, False, PRECISION, SQUARES, SQUARES_PADDED, TILE_I, TILE_J, TILE_K, KEEP, DROP,
        )  # fmt: skip
    elif tile < SECOND_TILES + FIRST_TILES:
        step_layer(
            hidden_gradient, model * COUNT, vectors, rows, tile - SECOND_TILES, model, squares, settings,
            first, first_mean, first_square, first_bias, first_bias_mean, first_bias_square,
            COUNT, HIDDEN, ATTRIBUTES, True, PRECISION, SQUARES, SQUARES_PADDED, FIRST_I, FIRST_J, TILE_K, KEEP, DROP,
        )  # fmt: skip
    elif tile < SECOND_TILES + FIRST_TILES + FREE_TILES:
        # The free classifiers are stored before the generated ones; their moments are stored alone.
        step_free(
            gradient + model * CLASSES * FEATURES, tile - SECOND_TILES - FIRST_TILES, model, squares, settings,
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
