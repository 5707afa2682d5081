"""Seeds that follow from one number and a name, and random numbers that follow from a seed and a place."""

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

# The first outputs of SplitMix64 with seed 1234567, as Rosetta Code lists them for implementations to be checked by.
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
LARGEST = 2**63 - 1


def literal_splitmix(seed: int, place: int) -> int:
    """Output number ``place`` of SplitMix64 in Python's own integers, step by step where it is near."""
    state = seed
    if place < 1000:
        for _ in range(place + 1):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
    else:
        state = (seed + (place + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_a_derived_seed_is_the_same_in_another_process() -> None:
    program = "from sightunseen.core.randomness import derive_seed; print(derive_seed(3, 'steps', 5))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert int(found.stdout) == derive_seed(3, "tasks", 5)


def test_seeds_and_names_all_lead_to_different_seeds() -> None:
    names = [(), ("steps",), ("steps", 1), ("steps", 11), ("steps", 1, 1), ("first weights",), (1, "steps"), ("held out", 1)]
    derived = {derive_seed(seed, *name) for seed in range(100) for name in names}
    assert len(derived) == 100 * len(names)


@pytest.mark.parametrize(("one", "other"), [(("a/b",), ("a", "b")), (("a/", "b"), ("a", "/b")), (("a", ""), ("a/",))])
def test_a_slash_in_a_name_does_not_make_it_another_name(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert derive_seed(0, *one) != derive_seed(0, *other)


def test_a_derived_seed_has_63_bits_that_are_all_used() -> None:
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


# -- numbers by their place -----------------------------------------------------------------------------------------------


def test_the_slow_version_gives_what_was_published() -> None:
    assert [literal_splitmix(1234567, place) for place in range(5)] == PUBLISHED


@pytest.mark.parametrize("places", [np.arange(5), torch.arange(5)], ids=["numpy", "torch"])
def test_splitmix_gives_the_published_numbers_without_their_last_bit(places: np.ndarray | torch.Tensor) -> None:
    assert splitmix(1234567, places).tolist() == [number >> 1 for number in PUBLISHED]


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, LARGEST), places=st.lists(st.integers(0, LARGEST - 1), min_size=1, max_size=8))
def test_any_place_holds_what_the_slow_version_finds_in_numpy_and_in_torch(seed: int, places: list[int]) -> None:
    expected = [literal_splitmix(seed, place) >> 1 for place in places]
    assert splitmix(seed, np.array(places)).tolist() == expected
    assert splitmix(seed, torch.tensor(places)).tolist() == expected


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, LARGEST), places=st.lists(st.integers(0, 999), min_size=1, max_size=20))
def test_a_place_does_not_need_those_before_it(seed: int, places: list[int]) -> None:
    assert splitmix(seed, torch.tensor(places)).tolist() == splitmix(seed, torch.arange(1000))[places].tolist()


@pytest.mark.parametrize("seed", [0, 1, LARGEST])
def test_each_of_the_63_bits_is_a_fair_coin(seed: int) -> None:
    numbers = splitmix(seed, np.arange(20_000))
    assert numbers.min() >= 0
    bits = (numbers[:, None] >> np.arange(63)) & 1
    # Five standard deviations of the mean of 20,000 fair coins.
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=5 * 0.5 / np.sqrt(20_000))
    bytes_ = np.stack([(numbers >> shift) & 255 for shift in range(0, 56, 8)])
    assert all(chisquare(np.bincount(row, minlength=256)).pvalue > 1e-3 for row in bytes_)


def test_streams_of_neighbouring_seeds_and_neighbouring_places_are_not_related() -> None:
    streams = np.stack([splitmix(derive_seed(seed, "x"), np.arange(20_000)) for seed in range(5)]).astype(float)
    related = np.corrcoef(np.concatenate([streams, np.roll(streams, 1, axis=1)]))
    np.testing.assert_allclose(related, np.eye(10), atol=5 / np.sqrt(20_000))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_counts_the_same() -> None:
    places = torch.arange(10_000) * 7_654_321
    assert torch.equal(splitmix(99, places.cuda()).cpu(), splitmix(99, places))
