"""Where Triton kernels replace PyTorch operations."""

from functools import cache
from importlib.util import find_spec

from torch import Tensor


def has_kernels(tensor: Tensor) -> bool:
    """Return whether Triton is installed and a tensor is on a CUDA device."""
    return tensor.is_cuda and _triton_is_installed()


@cache
def _triton_is_installed() -> bool:
    return find_spec("triton") is not None
