"""Seeds that follow from one number and a name."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sightunseen.randomness import as_generator, derive_seed


def test_a_derived_seed_is_the_same_in_another_process() -> None:
    program = "from sightunseen.randomness import derive_seed; print(derive_seed(3, 'tasks', 5))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert int(found.stdout) == derive_seed(3, "tasks", 5)


def test_seeds_and_names_all_lead_to_different_seeds() -> None:
    names = [(), ("tasks",), ("tasks", 1), ("tasks", 11), ("tasks", 1, 1), ("first weights",), (1, "tasks"), ("held out", 1)]
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
