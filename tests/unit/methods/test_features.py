"""Scaling features: against scikit-learn's scalers and plain arithmetic."""

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from sightunseen.methods._features import FeatureScaling

RNG = np.random.default_rng(0)
TRAIN = (RNG.normal(3, 2, (50, 6)) * [1, 10, 0.1, 1, 0, 1]).astype(np.float32)  # the fifth feature never varies
NEW = RNG.normal(3, 4, (20, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "scaler"), [("unit", Normalizer()), ("standard", StandardScaler()), ("range", MinMaxScaler(clip=True))]
)
def test_scaling_is_that_of_scikit_learn(kind: str, scaler: object) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    expected = scaler.fit(TRAIN.astype(float))  # type: ignore[attr-defined]
    for X in (TRAIN, NEW):
        np.testing.assert_allclose(learned(X), expected.transform(X.astype(float)), rtol=1e-4, atol=1e-5)
    assert learned(NEW).dtype == np.float32


def test_none_is_the_same_array() -> None:
    assert FeatureScaling.learned("none", TRAIN)(NEW) is NEW


def test_an_image_of_zeros_stays_one() -> None:
    zeros = np.zeros((2, 6), dtype=np.float32)
    np.testing.assert_array_equal(FeatureScaling.learned("unit", TRAIN)(zeros), zeros)


@pytest.mark.parametrize("kind", ["none", "unit", "standard", "range"])
def test_what_was_learned_can_be_kept(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    again = FeatureScaling.of_arrays(kind, learned.arrays())
    np.testing.assert_array_equal(again(NEW), learned(NEW))
