"""Derived seeds, and counter-based random numbers."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sightunseen.core.randomness import as_generator, derive_seed, splitmix

# First outputs of SplitMix64 with seed 1234567, reference values of Rosetta Code.
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
LARGEST = 2**63 - 1


def reference_splitmix(seed: int, position: int) -> int:
    """Output number ``position`` of SplitMix64 in Python integers; step by step for small positions."""
    state = seed
    if position < 1000:
        for _ in range(position + 1):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
    else:
        state = (seed + (position + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_derived_seed_is_the_same_in_another_process() -> None:
    program = "from sightunseen.core.randomness import derive_seed; print(derive_seed(3, 'steps', 5))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert int(found.stdout) == derive_seed(3, "steps", 5)


def test_different_seeds_and_names_give_different_seeds() -> None:
    names = [(), ("steps",), ("steps", 1), ("steps", 11), ("steps", 1, 1), ("initial weights",), (1, "steps"), ("held out", 1)]
    derived = {derive_seed(seed, *name) for seed in range(100) for name in names}
    assert len(derived) == 100 * len(names)


@pytest.mark.parametrize(("one", "other"), [(("a/b",), ("a", "b")), (("a/", "b"), ("a", "/b")), (("a", ""), ("a/",))])
def test_slashes_in_names_do_not_collide(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert derive_seed(0, *one) != derive_seed(0, *other)


def test_derived_seeds_use_63_bits() -> None:
    """So that both numpy and torch, whose seeds are signed, take it."""
    derived = np.array([derive_seed(seed, "bits") for seed in range(2000)], dtype=np.uint64)
    ones = np.array([(derived >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(64)])
    assert ones[63] == 0
    # Five standard deviations of the mean of 2000 fair coins.
    np.testing.assert_allclose(ones[:63], 0.5, atol=5 * 0.5 / np.sqrt(2000))


def test_generators_of_one_seed_agree_and_of_neighbouring_seeds_do_not() -> None:
    once, again, other = (as_generator(derive_seed(seed, "x")).random(4000) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once, again)
    assert abs(np.corrcoef(once, other)[0, 1]) < 5 / np.sqrt(4000)


# -- counter-based numbers ------------------------------------------------------------------------------------------------


def test_reference_implementation_gives_the_published_numbers() -> None:
    assert [reference_splitmix(1234567, position) for position in range(5)] == PUBLISHED


@pytest.mark.parametrize("positions", [np.arange(5), torch.arange(5)], ids=["numpy", "torch"])
def test_splitmix_gives_the_published_numbers_shifted_by_one_bit(positions: np.ndarray | torch.Tensor) -> None:
    assert splitmix(1234567, positions).tolist() == [number >> 1 for number in PUBLISHED]


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, LARGEST), positions=st.lists(st.integers(0, LARGEST - 1), min_size=1, max_size=8))
def test_splitmix_matches_the_reference_in_numpy_and_torch(seed: int, positions: list[int]) -> None:
    expected = [reference_splitmix(seed, position) >> 1 for position in positions]
    assert splitmix(seed, np.array(positions)).tolist() == expected
    assert splitmix(seed, torch.tensor(positions)).tolist() == expected


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, LARGEST), positions=st.lists(st.integers(0, 999), min_size=1, max_size=20))
def test_positions_are_independent_of_each_other(seed: int, positions: list[int]) -> None:
    assert splitmix(seed, torch.tensor(positions)).tolist() == splitmix(seed, torch.arange(1000))[positions].tolist()


@pytest.mark.parametrize("seed", [0, 1, LARGEST])
def test_all_63_bits_are_unbiased(seed: int) -> None:
    numbers = splitmix(seed, np.arange(20_000))
    assert numbers.min() >= 0
    bits = (numbers[:, None] >> np.arange(63)) & 1
    # Five standard deviations of the mean of 20,000 fair coins.
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=5 * 0.5 / np.sqrt(20_000))
    bytes_ = np.stack([(numbers >> shift) & 255 for shift in range(0, 56, 8)])
    assert all(chisquare(np.bincount(row, minlength=256)).pvalue > 1e-3 for row in bytes_)


def test_neighbouring_seeds_and_positions_are_uncorrelated() -> None:
    streams = np.stack([splitmix(derive_seed(seed, "x"), np.arange(20_000)) for seed in range(5)]).astype(float)
    related = np.corrcoef(np.concatenate([streams, np.roll(streams, 1, axis=1)]))
    np.testing.assert_allclose(related, np.eye(10), atol=5 / np.sqrt(20_000))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_gpu_gives_the_same_numbers() -> None:
    positions = torch.arange(10_000) * 7_654_321
    assert torch.equal(splitmix(99, positions.cuda()).cpu(), splitmix(99, positions))
