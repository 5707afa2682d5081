"""Scaling features: against scikit-learn's scalers and plain arithmetic."""

import math

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from sightunseen.methods.base.feature_scaling import SCALINGS, FeatureScaling

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


def roots(X: np.ndarray) -> np.ndarray:
    """One by one, with the sign of what they are of."""
    return np.array([[math.copysign(math.sqrt(abs(value)), value) for value in x] for x in X.astype(float)])


@pytest.mark.parametrize("kind", ["centred", "root"])
def test_directions_are_taken_from_their_mean(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    train, new = (roots(X) if kind == "root" else X.astype(float) for X in (TRAIN, NEW))
    centre = StandardScaler(with_std=False).fit(Normalizer().transform(train))
    for X, values in ((TRAIN, train), (NEW, new)):
        np.testing.assert_allclose(learned(X), centre.transform(Normalizer().transform(values)), rtol=1e-4, atol=1e-6)
    assert learned(NEW).dtype == np.float32
    assert (TRAIN < 0).any()  # roots keep their sign


@pytest.mark.parametrize("kind", ["unit", "centred", "root"])
def test_the_length_of_an_image_does_not_matter(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    longer = NEW * RNG.uniform(1e-3, 1e3, (20, 1)).astype(np.float32)
    np.testing.assert_allclose(learned(longer), learned(NEW), atol=1e-6)
    np.testing.assert_allclose(FeatureScaling.learned(kind, 100 * TRAIN)(NEW), learned(NEW), atol=1e-6)


@pytest.mark.parametrize("kind", ["centred", "root"])
def test_an_image_of_zeros_lies_where_the_mean_is_taken_from(kind: str) -> None:
    zeros = np.zeros((2, 6), dtype=np.float32)
    learned = FeatureScaling.learned(kind, TRAIN)
    np.testing.assert_array_equal(learned(zeros), np.stack([-learned.shift] * 2))
    assert not FeatureScaling.learned(kind, zeros)(zeros).any()


def test_none_is_the_same_array() -> None:
    assert FeatureScaling.learned("none", TRAIN)(NEW) is NEW


def test_an_image_of_zeros_stays_one() -> None:
    zeros = np.zeros((2, 6), dtype=np.float32)
    np.testing.assert_array_equal(FeatureScaling.learned("unit", TRAIN)(zeros), zeros)


@pytest.mark.parametrize("kind", SCALINGS)
def test_what_was_learned_can_be_kept(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    again = FeatureScaling.of_arrays(kind, learned.arrays())
    np.testing.assert_array_equal(again(NEW), learned(NEW))
