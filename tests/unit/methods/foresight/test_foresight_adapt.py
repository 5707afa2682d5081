"""``Foresight.adapt`` agrees with a reference implementation of EM; behaviour with few images."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.calibration import Calibration
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import Foresight, load_model

from .textbook_foresight import Textbook


@pytest.fixture(scope="module")
def fitted(small_world: ZeroShotDataset) -> Foresight:
    return Foresight().fit(small_world.train.X, small_world.train.y, small_world.classes)


def assert_close(found: np.ndarray, expected: np.ndarray, part: float = 1e-4) -> None:
    """Compare scores (n, c) up to a constant per image."""
    found, expected = (scores.astype(float) - scores.mean(axis=1, keepdims=True) for scores in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.ptp(expected))


# -- EM ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "temperature", "prior", "trust"),
    [
        ("root", 2.0, None, 1.0),
        ("root", 2.0, [0.1, 0.2, 0.3, 0.4], 1.0),
        ("centred", 8.0, None, 0.2),
        ("centred", 8.0, [0.1, 0.2, 0.3, 0.4], 3.0),
    ],
)
def test_adapt_agrees_with_reference_em(
    kind: str, temperature: float, prior: list[float] | None, trust: float, small_world: ZeroShotDataset
) -> None:
    X, vectors = small_world.test_unseen.X, small_world.classes.vectors_of(small_world.unseen)
    model = Foresight(0.3, 0.2, kind).fit(small_world.train.X, small_world.train.y, small_world.classes)
    textbook = Textbook(
        small_world.train.X,
        np.searchsorted(small_world.seen, small_world.train.y),
        small_world.classes.vectors_of(small_world.seen),
        shrinkage=0.3,
        noise=0.2,
        root=kind == "root",
    )
    shares = None if prior is None else np.array(prior)
    labels = list(textbook.adapt(X, vectors, rounds=3, temperature=temperature, prior=shares, trust=trust))
    adapted = model.adapt(X, small_world.unseen, rounds=3, temperature=temperature, prior=prior, trust=trust)
    both = np.concatenate([small_world.test_seen.X[::2], X[::2]])
    expected = textbook.log_densities(both, small_world.classes.vectors_of(adapted.classes_))
    # The prior is met to a tolerance of 1e-3, which changes the means by about as much.
    assert_close(adapted.decision_function(both), expected, 1e-4 if prior is None else 2e-3)
    assert np.abs(expected - expected.mean(axis=1, keepdims=True)).max() > 1
    best = [found.argmax(axis=1) for found in labels]
    changed = [len(X), int((best[1] != best[0]).sum()), int((best[2] != best[1]).sum())]
    assert [entry["changed_labels"] for entry in adapted.history_] == changed
    assert [entry["round"] for entry in adapted.history_] == [1, 2, 3]


def test_result_does_not_depend_on_the_order_of_images(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    mixed = np.random.default_rng(0).permutation(len(X))
    assert_close(fitted.adapt(X[mixed]).decision_function(X), fitted.adapt(X).decision_function(X))


def test_result_does_not_depend_on_the_order_of_candidates(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X, prior = small_world.test_unseen.X, np.array([0.1, 0.2, 0.3, 0.4])
    one = fitted.adapt(X, small_world.unseen, prior=prior)
    other = fitted.adapt(X, small_world.unseen[::-1], prior=prior[::-1])
    assert_close(other.decision_function(X), one.decision_function(X), 1e-3)
    assert (
        np.abs(fitted.adapt(X, small_world.unseen, prior=prior[::-1]).decision_function(X) - one.decision_function(X)).max() > 1
    )


def test_loaded_model_adapts_like_the_original(fitted: Foresight, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    settings: dict[str, Any] = {"temperature": 4.0, "prior": "uniform", "rounds": 4}
    X = small_world.test_unseen.X
    again = load_model(tmp_path / "model").adapt(X, X_seen=small_world.train.X, y_seen=small_world.train.y, **settings)
    np.testing.assert_array_equal(again.decision_function(X), fitted.adapt(X, **settings).decision_function(X))


def test_temperature_defaults_to_the_calibrated_one(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    calibrated = Foresight().fit(small_world.train.X, small_world.train.y, small_world.classes)
    calibrated.calibration_ = Calibration(temperature=6.5, ECE=1.0, ECE_before=2.0)
    np.testing.assert_array_equal(
        calibrated.adapt(X).decision_function(X), fitted.adapt(X, temperature=6.5).decision_function(X)
    )
    np.testing.assert_array_equal(
        calibrated.adapt(X, temperature=3.0).decision_function(X), fitted.adapt(X, temperature=3.0).decision_function(X)
    )
    assert not np.array_equal(calibrated.adapt(X).decision_function(X), fitted.adapt(X).decision_function(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", 0),
        ("rounds", 2.5),
        ("temperature", 0),
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("trust", -0.1),
        ("images_of", "seen"),
    ],
)
def test_invalid_hyperparameter_is_named(name: str, value: Any, fitted: Foresight, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        fitted.adapt(small_world.test_unseen.X, **{name: value})


def test_shares_of_unseen_classes_do_not_go_with_images_of_all_classes(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="prior"):
        fitted.adapt(small_world.test_unseen.X, prior="uniform", images_of="all")


# -- trust, other images, ambiguous pairs ------------------------------------------------------------------------------


def test_no_trust_leaves_the_scores_as_they_are(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    adapted = fitted.adapt(X, trust=0)
    np.testing.assert_allclose(adapted.decision_function(X), fitted.decision_function(X), rtol=1e-4, atol=1e-3)
    assert adapted.is_adapted
    assert adapted.history_ == []


def test_images_of_seen_classes_do_little_harm_if_they_are_expected(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    mixed = np.concatenate([X, small_world.test_seen.X, small_world.train.X])
    means = {}
    for images_of in ("unseen", "all"):
        adapted = fitted.adapt(mixed, images_of=images_of)
        known = adapted.class_means_.only(small_world.unseen)
        truth = np.array([adapted.whitening_(adapted._features(X[y == label])).mean(axis=0) for label in known.labels])
        means[images_of] = np.linalg.norm(known.means - truth, axis=1).mean()
    assert means["all"] < 0.5 * means["unseen"]


def test_images_of_no_class_are_left_out_if_the_model_rejects_them(small_world: ZeroShotDataset) -> None:
    model = Foresight().fit(small_world.train.X, small_world.train.y, small_world.classes)
    X = small_world.test_unseen.X
    scores = model.decision_function(X)
    rejected = scores.max(axis=1) < np.median(scores.max(axis=1))
    model.calibration_ = Calibration(temperature=2.0, ECE=1.0, ECE_before=2.0, none_below=float(np.median(scores.max(axis=1))))
    expected = model.adapt(X[~rejected], images_of="all").decision_function(X)
    np.testing.assert_allclose(model.adapt(X, images_of="all").decision_function(X), expected, rtol=1e-4, atol=1e-3)


def test_twins_are_named(small_world: ZeroShotDataset) -> None:
    vectors = {label: small_world.classes.vectors_of([label])[0] for label in small_world.classes.labels.tolist()}
    one, other, *_ = small_world.unseen.tolist()
    vectors[other] = vectors[one] + 1e-3 * np.random.default_rng(0).normal(size=len(vectors[one]))
    model = Foresight().fit(small_world.train.X, small_world.train.y, vectors)
    pairs = model.adapt(small_world.test_unseen.X).ambiguous_pairs_
    assert {one, other} in [set(pair) for pair in pairs]


# -- few images --------------------------------------------------------------------------------------------------------


def test_single_image_per_class(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    first = [np.flatnonzero(y == label)[0] for label in small_world.unseen]
    for prior in (None, "uniform"):
        adapted = fitted.adapt(X[first], prior=prior)
        assert adapted.score(X, y, "unseen") > fitted.score(X, y, "unseen") - 0.1
        assert np.isfinite(adapted.decision_function(X)).all()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_images_than_classes(count: int, fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    adapted = fitted.adapt(X[:count])
    assert np.isfinite(adapted.decision_function(X)).all()
    assert adapted.score(X, y, "unseen") > fitted.score(X, y, "unseen") - 0.15


@pytest.mark.parametrize("temperature", [1e-6, 1e6])
@pytest.mark.parametrize("prior", [None, "uniform"])
def test_extreme_temperatures_give_finite_scores(
    prior: str | None, temperature: float, fitted: Foresight, small_world: ZeroShotDataset
) -> None:
    adapted = fitted.adapt(small_world.test_unseen.X, temperature=temperature, prior=prior)
    assert np.isfinite(adapted.decision_function(small_world.test_seen.X)).all()
