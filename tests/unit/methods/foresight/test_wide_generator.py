"""Arc-cosine kernel by sampling and integration; kernel ridge regression as the limit of networks of growing width."""

import numpy as np
import pytest
from scipy import integrate, linalg
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from sightunseen.core.linear import class_blocks
from sightunseen.methods.foresight import wide_generator
from sightunseen.methods.foresight.wide_generator import WideGenerator, kernel_of, spread_rows, wide_kernel

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


# -- many classes ------------------------------------------------------------------------------------------------------


def many(count: int, size: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class vectors, smooth targets and noise."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(count, size))
    targets = np.tanh(vectors @ rng.normal(size=(size, 4))) + 0.1 * rng.normal(size=(count, 4))
    return vectors, targets, rng.uniform(0.1, 1.0, count)


def in_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(wide_generator, "class_blocks", lambda count, width, _=0: class_blocks(count, width, size))


def landmarks(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(wide_generator, "EXACT_CLASSES", 10)
    monkeypatch.setattr(wide_generator, "LANDMARKS", count)


@pytest.mark.parametrize("linear", [False, True])
def test_regression_in_blocks_of_classes_is_the_same(monkeypatch: pytest.MonkeyPatch, linear: bool) -> None:
    vectors, targets, noise = many(60)
    whole = WideGenerator.solved(vectors, targets, noise, linear=linear)
    in_blocks(monkeypatch, 8 * 60 * 7)
    parts = WideGenerator.solved(vectors, targets, noise, linear=linear)
    np.testing.assert_allclose(parts.weights, whole.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts(3 * vectors), whole(3 * vectors), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
def test_solution_solves_the_equations(linear: bool) -> None:
    vectors, targets, noise = many(60)
    found = WideGenerator.solved(vectors, targets, noise, linear=linear)
    ridge = kernel_of(linear)(found.anchors, found.anchors) + np.diag(noise)
    np.testing.assert_allclose(ridge @ found.weights, targets, atol=1e-10)
    residuals, variances = found.left_out(noise)
    np.testing.assert_allclose(variances, 1 / np.diag(linalg.inv(ridge)), rtol=1e-9)
    alone = [np.delete(np.arange(60), row) for row in range(60)]
    kernel = kernel_of(linear)(found.anchors, found.anchors)
    expected = [
        targets[row] - kernel[row, kept] @ linalg.solve(ridge[np.ix_(kept, kept)], targets[kept])
        for row, kept in enumerate(alone)
    ]
    np.testing.assert_allclose(residuals, expected, atol=1e-9)


def test_arguments_are_not_modified() -> None:
    vectors, targets, noise = many(60)
    before = vectors.copy(), targets.copy(), noise.copy()
    WideGenerator.solved(vectors, targets, noise).left_out(noise)
    WideGenerator.solved(vectors, np.asfortranarray(targets), noise)
    for found, expected in zip((vectors, targets, noise), before, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("block", [None, 5])
def test_all_classes_as_landmarks_give_the_exact_regression(monkeypatch: pytest.MonkeyPatch, block: int | None) -> None:
    vectors, targets, noise = many(80)
    exact = WideGenerator.solved(vectors, targets, noise, length=2.0)
    landmarks(monkeypatch, 80)
    if block is not None:
        in_blocks(monkeypatch, 8 * 80 * block)
    found = WideGenerator.solved(vectors, targets, noise, length=2.0)
    assert (found.unit, found.length) == (exact.unit, exact.length)
    np.testing.assert_allclose(found(vectors + 0.1), exact(vectors + 0.1), atol=1e-5)


def test_landmarks_approximate_the_exact_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, targets, noise = many(1500)
    new = np.random.default_rng(4).normal(size=(200, 6))
    exact = WideGenerator.solved(vectors, targets, noise)(new)
    errors = []
    for count in (20, 100, 500):
        landmarks(monkeypatch, count)
        found = WideGenerator.solved(vectors, targets, noise)
        assert found.anchors.shape == (count, 6)
        assert found.weights.shape == (count, 4)
        errors.append(np.linalg.norm(found(new) - exact) / np.linalg.norm(exact))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_linear_regression_of_many_classes_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, targets, noise = many(300)
    exact = WideGenerator.solved(vectors, targets, noise, linear=True)(vectors)
    landmarks(monkeypatch, 50)
    found = WideGenerator.solved(vectors, targets, noise, linear=True)
    assert found.anchors.shape == (6, 6)
    np.testing.assert_allclose(found(vectors), exact, atol=1e-10)


def test_landmarks_may_have_the_same_class_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, targets, noise = many(40)
    vectors[:20], targets[:20] = vectors[0], targets[0]
    exact = WideGenerator.solved(vectors, targets, noise)(vectors)
    landmarks(monkeypatch, 40)
    np.testing.assert_allclose(WideGenerator.solved(vectors, targets, noise)(vectors), exact, atol=1e-5)


def test_leave_one_out_residuals_need_an_exact_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, targets, noise = many(40)
    landmarks(monkeypatch, 15)
    with pytest.raises(ValueError, match="at most 10 classes"):
        WideGenerator.solved(vectors, targets, noise).left_out(noise)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_targets_that_are_not_finite_raise_an_error(wrong: float) -> None:
    vectors, targets, noise = many(20)
    targets[3, 1] = wrong
    with pytest.raises(ValueError, match="not finite"):
        WideGenerator.solved(vectors, targets, noise)


@pytest.mark.parametrize("count", [1, 2, 37, 100, 200])
def test_spread_rows_are_distinct_and_evenly_spaced_along_the_widest_direction(count: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(100, 3)) * [1, 20, 1]
    rows = spread_rows(vectors, count)
    assert len(set(rows.tolist())) == len(rows) == min(count, 100)
    ranks = np.sort(np.argsort(np.argsort(vectors[:, 1]))[rows])
    expected = np.linspace(0, 99, min(count, 100))
    assert np.abs(ranks - expected).max() <= 12 or count == 1  # the principal component is not quite the second axis
    np.testing.assert_array_equal(spread_rows(-vectors, count), spread_rows(-vectors, count))
