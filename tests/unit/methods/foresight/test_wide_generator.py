"""Arc-cosine kernel by sampling and integration; kernel ridge regression as the limit of networks of growing width."""

import numpy as np
import pytest
from scipy import integrate
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from sightunseen.methods.foresight.wide_generator import WideGenerator, wide_kernel

RNG = np.random.default_rng(0)
VECTORS, TARGETS, NEW = RNG.normal(2, 1, (15, 4)), RNG.normal(size=(15, 3)), RNG.normal(2, 1, (6, 4))


def kernel_by_hand(u: np.ndarray, v: np.ndarray) -> float:
    """Cho & Saul, eq. 3 and 6 with n = 1: |u| |v| J(t) / pi."""
    if not u.any() or not v.any():
        return 0.0
    cosine = max(-1.0, min(1.0, float(u @ v / np.sqrt((u @ u) * (v @ v)))))
    t = np.arccos(cosine)
    return float(np.sqrt((u @ u) * (v @ v)) * (np.sin(t) + (np.pi - t) * np.cos(t)) / np.pi)


def centred_by_hand() -> tuple[np.ndarray, float]:
    centre = np.array([sum(column) / len(VECTORS) for column in VECTORS.T])
    return centre, float(np.sqrt(np.mean([(v - centre) @ (v - centre) for v in VECTORS])))


# -- the kernel --------------------------------------------------------------------------------------------------------


def test_kernel_is_the_expected_product_of_hidden_units() -> None:
    one, other = RNG.normal(size=(3, 5)), RNG.normal(size=(4, 5)) * 3
    r = RNG.normal(size=(400_000, 5))
    products = 2 * np.maximum(r @ one.T, 0)[:, :, None] * np.maximum(r @ other.T, 0)[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(r))
    found = wide_kernel(one, other)
    assert found.shape == (3, 4)
    assert (np.abs(found - products.mean(axis=0)) < 5 * error).all()
    assert (error < 0.02 * found.max()).all()  # the estimate is precise enough for the test to fail


@pytest.mark.parametrize("angle", [0.0, 0.3, 1.0, np.pi / 2, 2.5, np.pi])
def test_kernel_agrees_with_numerical_integration(angle: float) -> None:
    u, v = np.array([[1.5, 0.0]]), 0.7 * np.array([[np.cos(angle), np.sin(angle)]])

    def density(t: float, radius: float) -> float:
        r = radius * np.array([np.cos(t), np.sin(t)])
        return float(max(u[0] @ r, 0) * max(v[0] @ r, 0) * np.exp(-(radius**2) / 2) * radius / np.pi)

    # Both factors are positive from angle - pi/2 to pi/2.
    expected = integrate.dblquad(density, 0, 12, angle - np.pi / 2, np.pi / 2)[0]
    assert wide_kernel(u, v)[0, 0] == pytest.approx(expected, abs=1e-7)


def test_diagonal_of_the_kernel_is_the_squared_norm() -> None:
    np.testing.assert_allclose(np.diag(wide_kernel(NEW, NEW)), [v @ v for v in NEW], rtol=1e-12)


def test_kernel_of_opposite_vectors_is_zero() -> None:
    np.testing.assert_allclose(np.diag(wide_kernel(NEW, -3 * NEW)), 0, atol=1e-12)


def test_kernel_of_a_zero_vector_is_zero() -> None:
    zeros = np.zeros((2, 4))
    assert not wide_kernel(zeros, NEW).any()
    assert not wide_kernel(NEW, zeros).any()
    assert not wide_kernel(zeros, zeros).any()


def test_kernel_is_homogeneous_and_symmetric() -> None:
    np.testing.assert_allclose(wide_kernel(3 * NEW, 0.5 * VECTORS), 1.5 * wide_kernel(NEW, VECTORS), rtol=1e-12)
    np.testing.assert_allclose(wide_kernel(NEW, VECTORS), wide_kernel(VECTORS, NEW).T, rtol=1e-12)


# -- the regression ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1e-3, 0.1, 3.0])
def test_generator_agrees_with_kernel_ridge_regression(noise: float) -> None:
    centre, unit = centred_by_hand()
    anchors, new = (VECTORS - centre) / unit, (NEW - centre) / unit
    kernel = np.array([[kernel_by_hand(u, v) for v in anchors] for u in anchors])
    asked = np.array([[kernel_by_hand(u, v) for v in anchors] for u in new])
    expected = KernelRidge(alpha=noise, kernel="precomputed").fit(kernel, TARGETS).predict(asked)
    generator = WideGenerator.solved(VECTORS, TARGETS, np.full(15, noise))
    np.testing.assert_allclose(generator(NEW), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(generator.similarities(NEW), asked, rtol=1e-8)
    assert np.diag(kernel).mean() == pytest.approx(1)  # the unit of the noise


def test_linear_generator_agrees_with_ridge_regression() -> None:
    centre, unit = centred_by_hand()
    expected = Ridge(alpha=0.3, fit_intercept=False).fit((VECTORS - centre) / unit, TARGETS).predict((NEW - centre) / unit)
    generator = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.3), linear=True)
    np.testing.assert_allclose(generator(NEW), expected, rtol=1e-8)
    assert not np.allclose(WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.3))(NEW), expected, rtol=0.1)


def test_networks_of_growing_width_converge_to_the_generator() -> None:
    centre, unit = centred_by_hand()
    limit = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1))(NEW)

    def network(width: int, seed: int) -> np.ndarray:
        first = np.random.default_rng(seed).normal(size=(4, width)) * np.sqrt(2 / width)
        hidden, asked = (np.maximum((v - centre) / unit @ first, 0) for v in (VECTORS, NEW))
        return Ridge(alpha=0.1, fit_intercept=False).fit(hidden, TARGETS).predict(asked)

    errors = [np.mean([np.abs(network(width, seed) - limit).mean() for seed in range(5)]) for width in (100, 1600, 25_600)]
    # Monte Carlo error: sixteen times as many units, a quarter of the error.
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2
    assert errors[2] < 0.04 * np.abs(limit).mean()


def test_small_noise_interpolates_and_large_noise_shrinks_to_zero() -> None:
    np.testing.assert_allclose(WideGenerator.solved(VECTORS, TARGETS, np.full(15, 1e-10))(VECTORS), TARGETS, atol=1e-7)
    for noise in (1e3, 1e6):
        found = WideGenerator.solved(VECTORS, TARGETS, np.full(15, noise))(NEW)
        assert np.abs(found).max() < 100 / noise
    exact = np.where(np.arange(15) == 4, 1e-10, 1e8)  # only one target has little noise
    np.testing.assert_allclose(WideGenerator.solved(VECTORS, TARGETS, exact)(VECTORS[4:5]), TARGETS[4:5], atol=1e-6)


def test_two_observations_equal_one_with_half_the_noise() -> None:
    on_sphere = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)  # so that a repeated vector does not change the unit
    origin, difference = np.zeros(4), np.array([[1.0, -2.0, 0.5]])
    once = WideGenerator.solved(on_sphere, TARGETS, np.append(0.15, np.full(14, 0.3)), origin)
    twice = WideGenerator.solved(
        np.concatenate([on_sphere[:1], on_sphere]),
        np.concatenate([TARGETS[:1] + difference, TARGETS[:1] - difference, TARGETS[1:]]),  # with the same mean
        np.full(16, 0.3),
        origin,
    )
    np.testing.assert_allclose(once(NEW), twice(NEW), rtol=1e-9)
    assert not np.allclose(once(NEW), WideGenerator.solved(on_sphere, TARGETS, np.full(15, 0.3), origin)(NEW), rtol=1e-2)


def test_mean_vector_is_mapped_to_zero_and_scale_does_not_matter() -> None:
    generator = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1))
    np.testing.assert_allclose(generator(VECTORS.mean(axis=0)[None]), 0, atol=1e-9)
    moved = WideGenerator.solved(100 * VECTORS - 7, TARGETS, np.full(15, 0.1))
    np.testing.assert_allclose(moved(100 * NEW - 7), generator(NEW), rtol=1e-8)


def test_followed_by_composes_with_a_linear_map() -> None:
    generator, layer = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1)), RNG.normal(size=(5, 3))
    np.testing.assert_allclose(generator.followed_by(layer)(NEW), [layer @ target for target in generator(NEW)], rtol=1e-9)


def test_targets_are_scaled_to_the_length() -> None:
    plain = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1))(NEW)
    found = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1), length=2.5)(NEW)
    np.testing.assert_allclose(found, [2.5 * target / np.sqrt(target @ target) for target in plain], rtol=1e-9)


def test_target_of_the_centre_has_no_direction_and_stays_zero() -> None:
    generator = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1), centre=np.zeros(4), length=2.5)
    assert not generator(np.zeros((1, 4))).any()


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("length", [0.0, 2.5])
def test_arrays_round_trip(linear: bool, length: float) -> None:
    generator = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1), linear=linear, length=length)
    assert WideGenerator.of_arrays(generator.arrays()).length == length
    np.testing.assert_array_equal(WideGenerator.of_arrays(generator.arrays())(NEW), generator(NEW))


def test_arrays_of_an_earlier_version_have_no_length() -> None:
    generator = WideGenerator.solved(VECTORS, TARGETS, np.full(15, 0.1))
    arrays = {name: array for name, array in generator.arrays().items() if name.split(".")[1] not in ("linear", "length")}
    np.testing.assert_array_equal(WideGenerator.of_arrays(arrays)(NEW), generator(NEW))


@pytest.mark.parametrize("count", [1, 2])
def test_identical_vectors_give_zero_predictions(count: int) -> None:
    alike = np.full((count, 4), 0.5)
    generator = WideGenerator.solved(alike, TARGETS[:count], np.full(count, 0.1))
    assert not generator(alike).any()
    assert not generator(NEW).any()
