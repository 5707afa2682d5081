"""Triton kernel of ``episodes.draw_uniform`` and ``draw_normal``: the random numbers of one step in one launch."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightunseen.core import randomness

TILE = 1024
# Constants of SplitMix64 as unsigned integers.
GAMMA = tl.constexpr(randomness.GAMMA + (1 << 64))
FIRST_FACTOR = tl.constexpr(randomness.FIRST_FACTOR + (1 << 64))
SECOND_FACTOR = tl.constexpr(randomness.SECOND_FACTOR + (1 << 64))
TWO_PI = tl.constexpr(6.283185307179586)


@triton.jit
def uniform_at(seed, position):
    """Uniform random numbers in [0, 1) at positions of the stream of a seed: the upper 24 bits of SplitMix64."""
    z = seed.to(tl.uint64) + (position + 1).to(tl.uint64) * GAMMA
    z = (z ^ (z >> 30)) * FIRST_FACTOR
    z = (z ^ (z >> 27)) * SECOND_FACTOR
    return ((z ^ (z >> 31)) >> 40).to(tl.int32).to(tl.float32) * (1.0 / 16777216)


@triton.jit(do_not_specialize=["seed", "size"])
def draw(out, seed, step, size, NORMAL: tl.constexpr, TILE: tl.constexpr):
    """Draw ``size`` uniform or, by the Box-Muller transform, normal random numbers of a step."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    first = tl.load(step)
    if NORMAL:
        radius = uniform_at(seed, first * 2 * size + at)
        angle = uniform_at(seed, first * 2 * size + size + at)
        # The radius is a multiple of 2**-24, so that 1 - radius is exact; its logarithm may be rounded to above zero.
        values = tl.sqrt(tl.maximum(-2.0 * tl.log(1.0 - radius), 0.0)) * tl.cos(angle * TWO_PI)
    else:
        values = uniform_at(seed, first * size + at)
    tl.store(out + at, values, mask=at < size)


def drawn(seed: int, step: Tensor, shape: Sequence[int], normal: bool) -> Tensor:
    """Draw random numbers for one step on its device.

    Parameters
    ----------
    seed : int
        Random seed.
    step : Tensor of shape ()
        Number of the step.
    shape : sequence of int
        Shape of the result.
    normal : bool
        Whether the numbers are standard normal instead of uniform.

    Returns
    -------
    Tensor of the given shape
        Random numbers in single precision.
    """
    out = torch.empty(*shape, device=step.device)
    size = out.numel()
    draw[(triton.cdiv(size, TILE),)](out, seed, step, size, normal, TILE)
    return out
