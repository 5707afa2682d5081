"""Triton kernels of a comparator's scores and of their gradient, which do not store the n * c hidden layers.

The score of image i and class j is sum_h w[h] lrelu(a[i, h] + b[j, h]). Its gradient needs only the slopes s of the leaky ReLU:
with P[i, h] = sum_j g[i, j] s and Q[j, h] = sum_i g[i, j] s, for the gradient g of the scores, the gradients are w P of a, w Q
of b, and sum_i a P + sum_j b Q of w, as lrelu(x) = s x. Sums have a fixed order, so that results are reproducible bit by bit.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from sightunseen.methods.shared.networks import LEAK

SLOPE = tl.constexpr(LEAK)
SCORE_TILES = 4, 8, 128, 4  # images, classes and hidden units of a tile, warps
SLOPE_TILES = 8, 256, 2, 2  # rows and hidden units of a tile, steps of the unrolled loop, warps
PROGRAMS = 768  # programs that occupy an H200; sums are divided into parts to have about as many


@triton.jit
def score_tile(
    out, images, classes, weights, COUNT, CLASSES,
    HIDDEN: tl.constexpr, TILE_I: tl.constexpr, TILE_J: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Scores of a tile of images and classes; each thread adds up its own hidden units, and threads are summed at the end."""
    i, j = tl.program_id(0) * TILE_I + tl.arange(0, TILE_I), tl.program_id(1) * TILE_J + tl.arange(0, TILE_J)
    total = tl.zeros((TILE_I, TILE_J, TILE_K), tl.float32)
    for start in range(0, HIDDEN, TILE_K):
        k = start + tl.arange(0, TILE_K)
        a = tl.load(images + i[:, None] * HIDDEN + k[None, :], mask=(i < COUNT)[:, None] & (k < HIDDEN)[None, :], other=0.0)
        b = tl.load(classes + j[:, None] * HIDDEN + k[None, :], mask=(j < CLASSES)[:, None] & (k < HIDDEN)[None, :], other=0.0)
        w = tl.load(weights + k, mask=k < HIDDEN, other=0.0)
        x = a[:, None, :] + b[None, :, :]
        total += w[None, None, :] * tl.maximum(x, x * SLOPE)
    here = (i < COUNT)[:, None] & (j < CLASSES)[None, :]
    tl.store(out + i[:, None] * CLASSES + j[None, :], tl.sum(total, axis=2), mask=here)


@triton.jit
def slope_tile(
    out, own, other, gradient, COUNT, OTHERS, STRIDE, OTHER_STRIDE, SPAN,
    HIDDEN: tl.constexpr, TILE_I: tl.constexpr, TILE_K: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Tile of P, or of Q with the roles of images and classes exchanged, summed over one span of the other rows."""
    part = tl.program_id(2)
    i, k = tl.program_id(0) * TILE_I + tl.arange(0, TILE_I), tl.program_id(1) * TILE_K + tl.arange(0, TILE_K)
    at, here = i[:, None] * HIDDEN + k[None, :], (i < COUNT)[:, None] & (k < HIDDEN)[None, :]
    a = tl.load(own + at, mask=here, other=0.0)
    active = tl.zeros((TILE_I, TILE_K), tl.float32)  # sum of g where a + b > 0
    every = tl.zeros((TILE_I,), tl.float32)  # sum of all g
    for j in tl.range(part * SPAN, tl.minimum((part + 1) * SPAN, OTHERS), loop_unroll_factor=UNROLL):
        b = tl.load(other + j * HIDDEN + k, mask=k < HIDDEN, other=0.0)
        g = tl.load(gradient + i * STRIDE + j * OTHER_STRIDE, mask=i < COUNT, other=0.0)
        active += g[:, None] * (a + b[None, :] > 0.0).to(tl.float32)
        every += g
    tl.store(out + part * COUNT * HIDDEN + at, active * (1 - SLOPE) + every[:, None] * SLOPE, mask=here)


def pair_scores(images: Tensor, classes: Tensor, weights: Tensor) -> Tensor:
    """Compute sum_h w[h] lrelu(a[i, h] + b[j, h]) for each image i and class j.

    Parameters
    ----------
    images : Tensor of shape (n, h)
        Hidden layer a of the images, in float32.
    classes : Tensor of shape (c, h)
        Hidden layer b of the classes, in float32.
    weights : Tensor of shape (h,)
        Weights w of the hidden units, in float32.

    Returns
    -------
    Tensor of shape (n, c)
        The scores, which can be differentiated once.
    """
    return cast("Tensor", _PairScores.apply(images, classes, weights))  # type: ignore[no-untyped-call]


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, classes: Tensor, weights: Tensor) -> Tensor:
        images, classes, weights = images.contiguous(), classes.contiguous(), weights.contiguous()
        ctx.save_for_backward(images, classes, weights)
        (n, hidden), c = images.shape, len(classes)
        i, j, k, warps = SCORE_TILES
        scores = images.new_empty(n, c)
        grid = triton.cdiv(n, i), triton.cdiv(c, j)
        score_tile[grid](scores, images, classes, weights, n, c, hidden, i, j, k, num_warps=warps)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, classes, weights = ctx.saved_tensors
        for_images, for_classes, for_weights = ctx.needs_input_grad
        P = _slope_sums(images, classes, gradient) if for_images or for_weights else None
        Q = _slope_sums(classes, images, gradient.T) if for_classes or for_weights else None
        return (
            weights * P if for_images else None,
            weights * Q if for_classes else None,
            (images * P).sum(dim=0) + (classes * Q).sum(dim=0) if for_weights else None,
        )


def _slope_sums(own: Tensor, other: Tensor, gradient: Tensor) -> Tensor:
    """Compute the sums (n, h) over the other m rows of a gradient (n, m) times the slopes of the leaky ReLU."""
    (n, hidden), m = own.shape, len(other)
    i, k, unroll, warps = SLOPE_TILES
    tiles = triton.cdiv(n, i), triton.cdiv(hidden, k)
    span = triton.cdiv(m, max(1, PROGRAMS // (tiles[0] * tiles[1])))
    parts = own.new_empty(triton.cdiv(m, span), n, hidden)
    slope_tile[(*tiles, len(parts))](
        parts, own, other, gradient, n, m, *gradient.stride(), span, hidden, i, k, unroll, num_warps=warps
    )
    return parts.sum(dim=0)
