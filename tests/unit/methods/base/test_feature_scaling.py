"""Feature scalings agree with scikit-learn's transformers and with plain arithmetic."""

import math

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from sightunseen.core.errors import SettingsError
from sightunseen.methods import METHODS
from sightunseen.methods.base.feature_scaling import ONE_VIEW, TWO_VIEWS, FeatureScaling

RNG = np.random.default_rng(0)
TRAIN = (RNG.normal(3, 2, (50, 6)) * [1, 10, 0.1, 1, 0, 1]).astype(np.float32)  # the fifth feature is constant
LABELS = np.repeat(list("abcde"), 10)
NEW = RNG.normal(3, 4, (20, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "scaler"), [("unit", Normalizer()), ("standard", StandardScaler()), ("range", MinMaxScaler(clip=True))]
)
def test_scaling_agrees_with_scikit_learn(kind: str, scaler: object) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    expected = scaler.fit(TRAIN.astype(float))  # type: ignore[attr-defined]
    for X in (TRAIN, NEW):
        np.testing.assert_allclose(learned(X), expected.transform(X.astype(float)), rtol=1e-4, atol=1e-5)
    assert learned(NEW).dtype == np.float32


@pytest.mark.parametrize(("lowest", "kind"), [(0.0, "range"), (-1e-3, "unit")])
def test_auto_is_range_if_no_training_feature_is_negative(lowest: float, kind: str) -> None:
    X = np.abs(TRAIN)
    X[3, 2] = lowest
    found, expected = FeatureScaling.learned("auto", X), FeatureScaling.learned(kind, X)
    assert found.kind == kind
    np.testing.assert_array_equal(found(NEW), expected(NEW))


def roots(X: np.ndarray) -> np.ndarray:
    """Signed square roots, one value at a time."""
    return np.array([[math.copysign(math.sqrt(abs(value)), value) for value in x] for x in X.astype(float)])


@pytest.mark.parametrize("kind", ["centred", "root"])
def test_centred_scalings_normalise_then_subtract_the_mean(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    train, new = (roots(X) if kind == "root" else X.astype(float) for X in (TRAIN, NEW))
    centre = StandardScaler(with_std=False).fit(Normalizer().transform(train))
    for X, values in ((TRAIN, train), (NEW, new)):
        np.testing.assert_allclose(learned(X), centre.transform(Normalizer().transform(values)), rtol=1e-4, atol=1e-6)
    assert learned(NEW).dtype == np.float32
    assert (TRAIN < 0).any()  # the square root is signed


@pytest.mark.parametrize("kind", ["unit", "centred", "root", "root+centred"])
def test_scaling_is_invariant_to_the_norm_of_an_image(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN)
    longer = NEW * RNG.uniform(1e-3, 1e3, (20, 1)).astype(np.float32)
    np.testing.assert_allclose(learned(longer), learned(NEW), atol=1e-6)
    np.testing.assert_allclose(FeatureScaling.learned(kind, 100 * TRAIN)(NEW), learned(NEW), atol=1e-6)


@pytest.mark.parametrize("kind", ["centred", "root", "root+centred"])
def test_zero_image_is_mapped_to_minus_the_mean(kind: str) -> None:
    zeros = np.zeros((2, 6), dtype=np.float32)
    learned = FeatureScaling.learned(kind, TRAIN)
    np.testing.assert_array_equal(learned(zeros), np.stack([-learned.shift] * 2))
    assert not FeatureScaling.learned(kind, zeros)(zeros).any()


def test_two_views_are_root_and_centred_side_by_side() -> None:
    learned = FeatureScaling.learned("root+centred", TRAIN)
    expected = np.hstack([FeatureScaling.learned(kind, TRAIN)(NEW) for kind in ("root", "centred")])
    np.testing.assert_array_equal(learned(NEW), expected)
    assert learned(NEW).shape == (20, 12)
    assert learned(NEW).dtype == np.float32


@pytest.mark.parametrize("kind", [*ONE_VIEW, TWO_VIEWS])
def test_number_of_views_is_that_of_the_output(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN, LABELS)
    assert learned(NEW).shape == (20, 6 * learned.views)


def test_only_foresight_has_two_views() -> None:
    """Networks and maps of the other methods have one input per feature."""
    scaled = {name for name, method in METHODS.items() if "feature_scaling" in method().get_params()}
    for name in scaled - {"Foresight"}:
        with pytest.raises(SettingsError, match=r"feature_scaling must be one of .*; got 'root\+centred'"):
            METHODS[name](feature_scaling="root+centred").check_settings()
    METHODS["Foresight"](feature_scaling="root+centred").check_settings()


def test_none_returns_the_same_array() -> None:
    assert FeatureScaling.learned("none", TRAIN)(NEW) is NEW


def test_unit_scaling_keeps_a_zero_image() -> None:
    zeros = np.zeros((2, 6), dtype=np.float32)
    np.testing.assert_array_equal(FeatureScaling.learned("unit", TRAIN)(zeros), zeros)


@pytest.mark.parametrize("kind", [*ONE_VIEW, TWO_VIEWS])
def test_arrays_round_trip(kind: str) -> None:
    learned = FeatureScaling.learned(kind, TRAIN, LABELS)
    again = FeatureScaling.of_arrays(kind, learned.arrays())
    np.testing.assert_array_equal(again(NEW), learned(NEW))
