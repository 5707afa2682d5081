"""GFZSL, compared with scipy's densities, scikit-learn's kernel ridge regression and the properties of EM."""

from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.kernel_ridge import KernelRidge

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.base.passes import accumulated
from sightunseen.methods.gfzsl import GFZSL, Mixture, log_densities, map_variances


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=20, n_unseen=5, n_attributes=8, n_features=24, images_per_class=15, private=0.0, noise=0.5))


def test_densities_match_scipy() -> None:
    rng = np.random.default_rng(0)
    X, means, variances = rng.normal(size=(7, 4)), rng.normal(size=(3, 4)), rng.random((3, 4)) + 0.1
    expected = [[stats.multivariate_normal(m, np.diag(v)).logpdf(x) for m, v in zip(means, variances, strict=True)] for x in X]
    np.testing.assert_allclose(log_densities(X, means, variances), expected, rtol=1e-9)


def estimates(X: np.ndarray, targets: np.ndarray, prior_images: float) -> tuple[np.ndarray, np.ndarray]:
    """Class means and MAP variances (s, d) of unscaled features."""
    sums = accumulated(X, targets, ["none"], by_class=True)["none"]
    scaling = sums.scaling("none")
    return sums.means(scaling), map_variances(sums.squares(scaling), sums.counts, prior_images)


def test_variances_are_map_estimates() -> None:
    rng = np.random.default_rng(1)
    X, targets = rng.normal(size=(30, 2)) * [1, 3], np.repeat([0, 1, 2], [5, 10, 15])
    means, variances = estimates(X, targets, prior_images=4.0)
    within = np.mean([(X[i] - X[targets == targets[i]].mean(axis=0)) ** 2 for i in range(30)])
    for c in range(3):
        np.testing.assert_allclose(means[c], X[targets == c].mean(axis=0))
        for j in range(2):
            x = X[targets == c, j]

            def negative_log_posterior(log_v: float, x: np.ndarray = x) -> float:
                prior = stats.invgamma.logpdf(np.exp(log_v), 4 / 2 - 1, scale=4 * within / 2)
                return -stats.norm.logpdf(x, x.mean(), np.exp(log_v / 2)).sum() - prior

            best = optimize.minimize_scalar(negative_log_posterior, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9}).x
            assert variances[c, j] == pytest.approx(np.exp(best), rel=1e-5)


def test_variance_of_constant_features_is_positive() -> None:
    _, variances = estimates(np.ones((6, 3), dtype=np.float32), np.array([0, 0, 0, 1, 1, 1]), 10.0)
    assert (variances > 0).all()


@pytest.mark.parametrize("kernel", ["linear", "quadratic"])
def test_unseen_parameters_match_kernel_ridge_regression(kernel: str, world: ZeroShotDataset) -> None:
    model = GFZSL(kernel, mean_penalty=0.3, variance_penalty=0.7, semantic_norm=None).fit(
        world.train.X, world.train.y, world.classes
    )
    S, U = (world.classes.vectors_of(labels).astype(float) for labels in (world.seen, world.unseen))
    means, variances = estimates(world.train.X, np.searchsorted(world.seen, world.train.y), model.prior_images)
    size = np.mean([(s @ s) if kernel == "linear" else (1 + s @ s) ** 2 for s in S])
    options = {"kernel": "linear"} if kernel == "linear" else {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
    found = model.parameters_of(world.unseen)
    for targets, penalty, parameter in ((means, 0.3, found[0]), (np.log(variances), 0.7, np.log(found[1]))):
        regression = KernelRidge(alpha=penalty * size, **options).fit(S, targets - targets.mean(axis=0))
        np.testing.assert_allclose(parameter, targets.mean(axis=0) + regression.predict(U), rtol=1e-6)


def test_seen_classes_can_use_estimated_parameters(world: ZeroShotDataset) -> None:
    model = GFZSL(seen="estimated").fit(world.train.X, world.train.y, world.classes)
    means, variances = estimates(world.train.X, np.searchsorted(world.seen, world.train.y), model.prior_images)
    found = model.parameters_of(world.seen[::-1])
    np.testing.assert_array_equal(found[0], means[::-1])
    np.testing.assert_array_equal(found[1], variances[::-1])
    predicted = GFZSL().fit(world.train.X, world.train.y, world.classes)
    np.testing.assert_array_equal(predicted.parameters_of(world.unseen)[0], model.parameters_of(world.unseen)[0])
    assert not np.allclose(predicted.parameters_of(world.seen)[0], means[:])


@pytest.mark.parametrize(("mean_images", "variance_images"), [(0.0, 1e-3), (5.0, 2.0), (10.0, 1e6)])
def test_em_steps_raise_the_posterior(mean_images: float, variance_images: float) -> None:
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(4, 6)) * 2
    X = centres[rng.integers(4, size=200)] + rng.normal(size=(200, 6))
    means, variances = centres + rng.normal(size=(4, 6)), np.full((4, 6), 2.0)
    mixture, values = Mixture(means, variances, mean_images, variance_images), []
    for _ in range(15):
        v = mixture.variances
        densities = np.stack([stats.norm.pdf(X, m, s).prod(axis=1) for m, s in zip(mixture.means, np.sqrt(v), strict=True)])
        prior = mean_images * (mixture.means - means) ** 2 / v + variance_images * (np.log(v) + variances / v)
        values.append(np.log(mixture.shares @ densities).sum() - prior.sum() / 2 + np.log(mixture.shares).sum())
        assert mixture.objective(X) == pytest.approx(values[-1], rel=1e-9)
        mixture.step(X)
    rises = np.diff(values)
    assert (rises > -1e-9 * abs(values[-1])).all()
    assert rises[0] > 1
    assert mixture.shares.sum() == pytest.approx(1)


def test_adapt_moves_means_towards_the_true_means(world: ZeroShotDataset, tmp_path: Path) -> None:
    X, y = world.test_unseen.X, world.test_unseen.y
    model = GFZSL().fit(world.train.X, world.train.y, world.classes)
    adapted = model.adapt(X, world.unseen[::-1])
    truth = np.stack([X[y == label].mean(axis=0) for label in world.unseen])
    before, after = (np.abs(m.parameters_of(world.unseen)[0] - truth).mean() for m in (model, adapted))
    assert after < before
    assert (np.diff(adapted.history_) >= -1e-6).all()
    assert adapted.score(X, y, "unseen") >= model.score(X, y, "unseen")
    # Seen classes and classes added later do not change.
    np.testing.assert_array_equal(adapted.decision_function(X, "seen"), model.decision_function(X, "seen"))
    adapted.add_classes({"a": np.ones(8)}).save(tmp_path / "model")
    model.add_classes({"a": np.ones(8)})
    np.testing.assert_array_equal(adapted.decision_function(X, ["a"]), model.decision_function(X, ["a"]))
    np.testing.assert_array_equal(GFZSL.load(tmp_path / "model").decision_function(X), adapted.decision_function(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [("kernel", "rbf"), ("mean_penalty", 0.0), ("variance_penalty", -1), ("prior_images", 0), ("seen", "both")],
)
def test_invalid_hyperparameter_is_named(name: str, value: object, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        GFZSL(**{name: value}).fit(world.train.X, world.train.y, world.classes)
