"""Forward kernels: layers of the generator (Eq. 1), scores (Eq. 2) and losses (Eq. 3 and 6)."""

import triton
import triton.language as tl

from sightunseen.training.kernels.tiles import chosen_rows_of, is_last, model_of, rows_of

EPSILON = tl.constexpr(1e-12)  # smallest norm to divide by, as in torch


@triton.jit
def layer_tile(
    inputs, rows, weight, model, i, j, first,
    COUNT: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, GATHER: tl.constexpr,
    PRECISION: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Tile (i, j) of the product inputs weight', summed over one span of the depth."""
    total = tl.zeros((i.shape[0], j.shape[0]), tl.float32)
    for start in range(0, SPAN, TILE_K):
        k = first + start + tl.arange(0, TILE_K)
        left = (
            chosen_rows_of(inputs, rows, model, i, k, COUNT, DEPTH)
            if GATHER
            else rows_of(inputs, model * COUNT, i, k, COUNT, DEPTH)
        )
        at = model * WIDTH * DEPTH + j[None, :] * DEPTH + k[:, None]
        right = tl.load(weight + at, mask=(j < WIDTH)[None, :] & (k < DEPTH)[:, None], other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def store_hidden(
    out, vectors, rows, weight, bias, model, i, j,
    COUNT: tl.constexpr, ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, PRECISION: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """First layer of the generator (Eq. 1): a tile of relu(vectors weight' + bias)."""
    span: tl.constexpr = (ATTRIBUTES + TILE_K - 1) // TILE_K * TILE_K
    total = layer_tile(vectors, rows, weight, model, i, j, 0, COUNT, ATTRIBUTES, HIDDEN, span, True, PRECISION, TILE_K)
    total = tl.maximum(total + tl.load(bias + model * HIDDEN + j, mask=j < HIDDEN, other=0.0)[None, :], 0.0)
    at = (model * COUNT + i)[:, None] * HIDDEN + j[None, :]
    tl.store(out + at, total, mask=(i < COUNT)[:, None] & (j < HIDDEN)[None, :])


@triton.jit
def first_layer(
    out, vectors, rows, weight, bias,
    COUNT: tl.constexpr, ATTRIBUTES: tl.constexpr, HIDDEN: tl.constexpr, PRECISION: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """First layer of the generator for the first batch of a run; each step computes that of the next batch."""
    model = tl.program_id(2).to(tl.int64)
    i, j = tl.program_id(1) * TILE_I + tl.arange(0, TILE_I), tl.program_id(0) * TILE_J + tl.arange(0, TILE_J)
    store_hidden(out, vectors, rows, weight, bias, model, i, j, COUNT, ATTRIBUTES, HIDDEN, PRECISION, TILE_K)


@triton.jit
def second_layer(
    classifiers, parts, arrivals, hidden, weight, bias,
    COUNT: tl.constexpr, FREE: tl.constexpr, HIDDEN: tl.constexpr, FEATURES: tl.constexpr, SPAN: tl.constexpr,
    SPANS: tl.constexpr, RECTIFY: tl.constexpr, PRECISION: tl.constexpr,
    TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr, REVERSED: tl.constexpr,
):  # fmt: skip
    """Second layer of the generator (Eq. 1): classifiers hidden weight' + bias, stored after the free ones."""
    tiles_j: tl.constexpr = (FEATURES + TILE_J - 1) // TILE_J
    model, span = model_of(tl.program_id(2), tl.num_programs(2), REVERSED), tl.program_id(0) // tiles_j
    tile_i, tile_j = tl.program_id(1), tl.program_id(0) % tiles_j
    i, j = tile_i * TILE_I + tl.arange(0, TILE_I), tile_j * TILE_J + tl.arange(0, TILE_J)
    total = layer_tile(
        hidden, hidden, weight, model, i, j, span * SPAN, COUNT, HIDDEN, FEATURES, SPAN, False, PRECISION, TILE_K
    )
    at = i[:, None] * FEATURES + j[None, :]
    here = (i < COUNT)[:, None] & (j < FEATURES)[None, :]
    tl.store(parts + (model * SPANS + span) * COUNT * FEATURES + at, total, mask=here)
    if is_last(arrivals + (model * tl.num_programs(1) + tile_i) * tiles_j + tile_j, SPANS):
        whole = tl.zeros((TILE_I, TILE_J), tl.float32) + tl.load(bias + model * FEATURES + j, mask=j < FEATURES, other=0.0)
        for part in tl.static_range(SPANS):
            own = parts + (model * SPANS + part) * COUNT * FEATURES
            whole += tl.load(own + at, mask=here, other=0.0, cache_modifier=".cg")
        if RECTIFY:
            whole = tl.maximum(whole, 0.0)
        tl.store(classifiers + (model * (FREE + COUNT) + FREE) * FEATURES + at, whole, mask=here)


@triton.jit
def scores_and_loss(
    losses, pulls, slopes, weighted, lengths, parts, squares, arrivals,
    features, rows, classifiers, labels, scale, counts, powers,
    SIZE: tl.constexpr, CLASSES: tl.constexpr, FEATURES: tl.constexpr, SPAN: tl.constexpr, SPANS: tl.constexpr,
    PRECISION: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Scores of images and classes (Eq. 2), their losses (Eq. 3 and 6) and the gradient with respect to the scores."""
    tiles_i: tl.constexpr = (SIZE + TILE_I - 1) // TILE_I
    tiles_j: tl.constexpr = (CLASSES + TILE_J - 1) // TILE_J
    model, span = tl.program_id(2).to(tl.int64), tl.program_id(1)
    tile_i, tile_j = tl.program_id(0) // tiles_j, tl.program_id(0) % tiles_j
    i, j = tile_i * TILE_I + tl.arange(0, TILE_I), tile_j * TILE_J + tl.arange(0, TILE_J)
    row = tl.load(rows + model * SIZE + i, mask=i < SIZE, other=0)
    total = tl.zeros((TILE_I, TILE_J), tl.float32)
    square = tl.zeros((TILE_J,), tl.float32)
    for start in range(0, SPAN, TILE_K):
        k = span * SPAN + start + tl.arange(0, TILE_K)
        x = tl.load(features + row[:, None] * FEATURES + k[None, :], mask=(k < FEATURES)[None, :], other=0.0)
        at = (model * CLASSES + j)[None, :] * FEATURES + k[:, None]
        w = tl.load(classifiers + at, mask=(j < CLASSES)[None, :] & (k < FEATURES)[:, None], other=0.0)
        total = tl.dot(x, w, total, input_precision=PRECISION)
        square += tl.sum(w * w, axis=0)
    tile = model * tiles_i + tile_i
    at = ((model * SPANS + span) * SIZE + i)[:, None] * CLASSES + j[None, :]
    tl.store(parts + at, total, mask=(i < SIZE)[:, None] & (j < CLASSES)[None, :])
    tl.store(squares + (tile * SPANS + span) * CLASSES + j, square, mask=j < CLASSES)
    if is_last(arrivals + tile, SPANS * tiles_j):
        every = tl.arange(0, WIDTH)
        squared = tl.zeros((WIDTH,), tl.float32)
        for part in tl.static_range(SPANS):
            own = squares + (tile * SPANS + part) * CLASSES
            squared += tl.load(own + every, mask=every < CLASSES, other=0.0, cache_modifier=".cg")
        length = tl.maximum(tl.sqrt(squared), EPSILON)
        tl.store(lengths + model * CLASSES + every, length, mask=(every < CLASSES) & (tile_i + 0 * every == 0))
        for start in range(0, TILE_I, ROWS):
            store_losses(
                losses, pulls, slopes, weighted, parts, labels, scale, counts, powers, length, model,
                tile_i * TILE_I + start + tl.arange(0, ROWS), every, SIZE, CLASSES, SPANS,
            )  # fmt: skip


@triton.jit
def store_losses(
    losses, pulls, slopes, weighted, parts, labels, scale, counts, powers, length, model, i, j,
    SIZE: tl.constexpr, CLASSES: tl.constexpr, SPANS: tl.constexpr,
):  # fmt: skip
    """Losses of images i, d loss / d score (``slopes``), its product with the score (``weighted``), and the sums of these."""
    score = tl.zeros((i.shape[0], j.shape[0]), tl.float32)
    is_class = (j < CLASSES)[None, :]
    at = i[:, None] * CLASSES + j[None, :]
    here = (i < SIZE)[:, None] & is_class
    for part in tl.static_range(SPANS):
        own = parts + (model * SPANS + part) * SIZE * CLASSES
        score += tl.load(own + at, mask=here, other=0.0, cache_modifier=".cg")
    score = tl.load(scale + model) * score / length[None, :]
    top = tl.max(tl.where(is_class, score, float("-inf")), axis=1)
    exponential = tl.where(is_class, tl.exp(score - top[:, None]), 0.0)
    whole = tl.sum(exponential, axis=1)
    is_label = j[None, :] == tl.load(labels + model * SIZE + i, mask=i < SIZE, other=0)[:, None]
    log_p = tl.sum(tl.where(is_label, score, 0.0), axis=1) - top - tl.log(whole)
    images, plain = tl.load(counts + 2 * model), tl.load(counts + 2 * model + 1)
    q = tl.load(powers + model + 0 * i)  # shaped like i: masks are tensors
    robust = (i >= plain) & (q > 0)
    p_q = tl.where(robust, tl.exp(q * log_p), 1.0)
    loss = tl.where(robust, (1.0 - p_q) / tl.where(q > 0, q, 1.0), -log_p)
    weight = tl.where(i < images, 1.0 / images, 0.0)
    slope = (weight * p_q)[:, None] * (exponential / whole[:, None] - is_label.to(tl.float32))
    pull = slope * score
    tl.store(losses + model * SIZE + i, weight * loss, mask=i < SIZE)
    tl.store(pulls + model * SIZE + i, tl.sum(tl.where(is_class, pull, 0.0), axis=1), mask=i < SIZE)
    tl.store(slopes + model * SIZE * CLASSES + at, slope, mask=here)
    tl.store(weighted + model * SIZE * CLASSES + at, pull, mask=here)
