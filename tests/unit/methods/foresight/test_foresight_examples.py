"""``Foresight.add_examples`` agrees with a regression that is solved again from the images; accumulation, saving, errors."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.analysis.contributions import contributions
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.model_files import ModelFiles
from sightunseen.export.onnx_files import export_onnx
from sightunseen.methods import ESZSL, Foresight, load_model
from sightunseen.methods.base.serialisation import as_files

from .textbook_foresight import Array, Textbook, directions, kernel


@pytest.fixture(scope="module")
def fitted(small_world: ZeroShotDataset) -> Foresight:
    return Foresight(0.3, 0.2).fit(small_world.train.X, small_world.train.y, small_world.classes)


@pytest.fixture
def model(fitted: Foresight) -> Foresight:
    return copy.deepcopy(fitted)


def shots(data: ZeroShotDataset, n: int, labels: Any = None) -> tuple[Array, Array]:
    """The first n test images of unseen classes."""
    y = data.test_unseen.y
    rows = np.concatenate([np.flatnonzero(y == label)[:n] for label in (data.unseen if labels is None else labels)])
    return data.test_unseen.X[rows], y[rows]


def centred(scores: Array) -> Array:
    return np.asarray(scores.astype(float) - scores.astype(float).mean(axis=1, keepdims=True))


def assert_close(found: Array, expected: Array, part: float = 1e-4) -> None:
    """Compare scores (n, c) up to a constant per image."""
    np.testing.assert_allclose(centred(found), centred(expected), rtol=0, atol=part * np.ptp(centred(expected)))


# -- comparison with a reference ---------------------------------------------------------------------------------------


class TextbookWithExamples(Textbook):
    """Reference: the regression solved again with one more row per class, the scale by leaving classes out one by one."""

    def scale(self) -> float:
        """Variance of the regression: mean of squared whitened residuals over their variance in units of the scale."""
        inverse_root = np.linalg.inv(np.linalg.cholesky(2 * self.covariance))
        means = np.array(self.means) @ inverse_root.T
        ridge = np.array([[kernel(u, v) for v in self.anchors] for u in self.anchors])
        noise = self.noise * np.mean(self.counts) / np.array(self.counts)
        ratios = []
        for c in range(len(means)):
            others = [row for row in range(len(means)) if row != c]
            solved = np.linalg.inv(ridge[np.ix_(others, others)] + np.diag(noise[others]))
            residual = means[c] - ridge[c, others] @ solved @ means[others]
            variance = ridge[c, c] + noise[c] - ridge[c, others] @ solved @ ridge[others, c]
            ratios.append(np.mean(residual**2) / variance)
        return float(np.mean(ratios))

    def add(self, X: Array, y: Array, vectors: dict[Any, Array], seen: list[Any]) -> None:
        """Add examples; an example of a seen class is pooled with its training images by inverse penalties."""
        penalty = self.noise * np.mean(self.counts)
        worth = 2 * self.scale() * penalty  # images with the penalty of seen classes that one example is worth
        images = directions(X, self.root) - self.origin
        rows, means, counts = list(self.seen), list(self.means), [float(count) for count in self.counts]
        for label in dict.fromkeys(y.tolist()):
            own = images[y == label]
            if label in seen:
                c = seen.index(label)
                total = counts[c] + worth * len(own)
                means[c] = (counts[c] * means[c] + worth * own.sum(axis=0)) / total
                counts[c] = total
            else:
                vector = vectors[label].astype(float)
                rows.append(vector / np.sqrt(vector @ vector))
                means.append(own.mean(axis=0))
                counts.append(worth * len(own))
        self.solve(np.array(rows), means, counts)


@pytest.mark.parametrize("kind", ["root", "centred"])
def test_scores_agree_with_a_regression_solved_again(kind: str, small_world: ZeroShotDataset) -> None:
    data = small_world
    model = Foresight(0.3, 0.2, kind).fit(data.train.X, data.train.y, data.classes)
    targets = np.searchsorted(data.seen, data.train.y)
    textbook = TextbookWithExamples(
        data.train.X, targets, data.classes.vectors_of(data.seen), shrinkage=0.3, noise=0.2, root=kind == "root"
    )
    before = model.decision_function(data.test_unseen.X)
    X, y = shots(data, 2, data.unseen[:2])
    X, y = np.concatenate([X[:-1], data.test_seen.X[:3]]), np.concatenate([y[:-1], data.test_seen.y[:3]])  # 2, 1 and 3 images
    textbook.add(X, y, {label: data.classes.vectors_of([label])[0] for label in data.unseen}, data.seen.tolist())
    model.add_examples(X, y)
    images = np.concatenate([data.test_unseen.X, data.test_seen.X[::2]])
    assert_close(model.decision_function(images), textbook.log_densities(images, data.classes.vectors_of(model.classes_)), 1e-3)
    assert np.abs(centred(model.decision_function(data.test_unseen.X)) - centred(before)).max() > 0.1 * np.ptp(centred(before))


def test_many_examples_determine_the_class_mean(model: Foresight, small_world: ZeroShotDataset) -> None:
    label = small_world.unseen[0]
    X, y = shots(small_world, 10_000, [label])
    mean = model.compared(X, [label])[0].mean(axis=0)
    before = np.linalg.norm(model.compared(X, [label])[1][0] - mean)
    model.add_examples(np.repeat(X, 2000, axis=0), np.repeat(y, 2000))
    images, classes = model.compared(X, [label])
    assert np.linalg.norm(classes[0] - images.mean(axis=0)) < 0.01 * before


@pytest.mark.parametrize("n", [1, 3])
def test_examples_improve_their_classes(n: int, fitted: Foresight, small_world: ZeroShotDataset) -> None:
    """On average over draws: a single image may be far from the mean of its class."""
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    before, after = [], []
    for seed in range(20):
        mixed = np.random.default_rng(seed).permutation(len(y))
        chosen = np.concatenate([mixed[y[mixed] == label][:n] for label in small_world.unseen])
        rest = np.setdiff1d(mixed, chosen)
        model = copy.deepcopy(fitted)
        before.append(model.score(X[rest], y[rest], "unseen"))
        after.append(model.add_examples(X[chosen], y[chosen]).score(X[rest], y[rest], "unseen"))
    assert np.mean(after) > np.mean(before) + 0.01


def test_class_with_examples_stays_unseen(fitted: Foresight, model: Foresight, small_world: ZeroShotDataset) -> None:
    model.add_examples(*shots(small_world, 1))
    assert model.unseen_classes_.tolist() == small_world.unseen.tolist()
    plain = model.decision_function(small_world.test_unseen.X)
    model.seen_penalty = 3.0
    difference = plain - model.decision_function(small_world.test_unseen.X)
    np.testing.assert_allclose(
        difference, np.broadcast_to(3.0 * np.isin(model.classes_, model.seen_classes_), plain.shape), atol=1e-4
    )
    assert fitted.example_counts == {}  # the original of the copy is unchanged


def test_class_that_was_added_takes_examples(model: Foresight, small_world: ZeroShotDataset) -> None:
    """A new class without a distinctive vector is recognised by its examples."""
    label = small_world.unseen[0]
    model.remove_classes(label)
    model.add_classes({"a much longer name": small_world.classes.vectors_of(small_world.seen).mean(axis=0)})
    X, _ = shots(small_world, 10_000, [label])
    before = (model.predict(X[5:], "unseen") == "a much longer name").mean()
    model.add_examples(X[:5], ["a much longer name"] * 5)
    assert (model.predict(X[5:], "unseen") == "a much longer name").mean() > max(before, 0.5)
    assert model.example_counts == {"a much longer name": 5}


# -- accumulation and saving -------------------------------------------------------------------------------------------


def test_repeated_calls_equal_one_call_in_any_order(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X, y = shots(small_world, 3)
    X, y = np.concatenate([X, small_world.test_seen.X[:4]]), np.concatenate([y, small_world.test_seen.y[:4]])
    together, apart = (copy.deepcopy(fitted) for _ in range(2))
    together.add_examples(X, y)
    for row in np.random.default_rng(0).permutation(len(X)):
        apart.add_examples(X[[row]], y[[row]])
    images = small_world.test_unseen.X
    assert_close(apart.decision_function(images), together.decision_function(images), 1e-5)
    assert apart.example_counts == together.example_counts
    assert sum(apart.example_counts.values()) == len(X)


def test_loaded_model_takes_examples_like_the_original(model: Foresight, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    (X, y), images = shots(small_world, 3), small_world.test_unseen.X
    model.add_examples(X[::2], y[::2])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(images), model.decision_function(images))
    assert loaded.takes_examples
    assert loaded.example_counts == model.example_counts
    loaded.add_examples(X[1::2], y[1::2])
    model.add_examples(X[1::2], y[1::2])
    assert_close(loaded.decision_function(images), model.decision_function(images), 1e-5)
    assert loaded.example_counts == dict.fromkeys(small_world.unseen.tolist(), 3)


def test_numeric_labels(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    table = dict(enumerate(small_world.classes.vectors))
    rows = {label: k for k, label in enumerate(small_world.classes.labels.tolist())}
    model = Foresight().fit(small_world.train.X, [rows[label] for label in small_world.train.y], table)
    X, y = shots(small_world, 2)
    numbers = [rows[label] for label in y.tolist()]
    model.add_examples(X, numbers).save(tmp_path / "model")
    assert load_model(tmp_path / "model").example_counts == dict.fromkeys(sorted(set(numbers)), 2)


def test_adapted_model_takes_examples(fitted: Foresight, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    unseen, others = small_world.unseen[:3], small_world.unseen[3:]
    adapted = fitted.adapt(X[np.isin(y, unseen)], unseen)
    adapted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for label in (unseen[0], others[0]):  # with and without a mean of unlabelled images
        chosen = shots(small_world, 3, [label])
        before = adapted.decision_function(chosen[0])
        adapted.add_examples(*chosen)
        loaded.add_examples(*chosen)
        assert_close(loaded.decision_function(X), adapted.decision_function(X), 1e-5)
        rise = (centred(adapted.decision_function(chosen[0])) - centred(before))[:, adapted.classes_.tolist().index(label)]
        assert (rise > 0).all()


def test_adapt_keeps_examples(fitted: Foresight, model: Foresight, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    model.add_examples(*shots(small_world, 5))
    adapted = model.adapt(X, X_seen=small_world.train.X, y_seen=small_world.train.y)
    assert adapted.example_counts == model.example_counts
    assert not np.allclose(adapted.decision_function(X), fitted.adapt(X).decision_function(X), atol=0.1)


def test_fit_drops_examples(model: Foresight, fitted: Foresight, small_world: ZeroShotDataset) -> None:
    model.add_examples(*shots(small_world, 5)).fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert model.example_counts == {}
    X = small_world.test_unseen.X
    np.testing.assert_array_equal(model.decision_function(X), fitted.decision_function(X))


@pytest.mark.parametrize("adapted", [False, True])
def test_images_of_a_removed_class_are_removed(
    adapted: bool, fitted: Foresight, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    label, X = small_world.unseen[0], small_world.test_unseen.X
    model = fitted.adapt(X) if adapted else copy.deepcopy(fitted)
    clean = copy.deepcopy(model).remove_classes(label)
    model.add_examples(*shots(small_world, 4, [label])).remove_classes(label)
    assert model.example_counts == {}
    model.save(tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        assert_close(one.decision_function(X), clean.decision_function(X), 1e-6)
        one.add_classes({label: small_world.classes.vectors_of([label])[0]})
    if not adapted:
        assert_close(one.decision_function(X), fitted.decision_function(X), 1e-5)


# -- what else a model does --------------------------------------------------------------------------------------------


def test_to_linear_and_embedding_agree_with_the_scores(model: Foresight, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    model.set_params(seen_penalty=2.0).add_examples(*shots(small_world, 2))
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.to_linear().scores(X), scores, atol=1e-4 * np.ptp(scores))
    images, classes = model.compared(X, "unseen")
    distances = -np.square(images[:, None] - classes[None]).sum(axis=2)
    assert_close(distances, model.decision_function(X, "unseen"))


def test_export_agrees_with_the_scores(model: Foresight, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, labels = small_world.test_unseen.X, model.classes_
    model.add_examples(*shots(small_world, 2))
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    vectors = small_world.classes.vectors_of(labels).astype(np.float32)
    found = session.run(["scores"], {"features": X, "class_vectors": vectors})[0]
    scores = model.decision_function(X, labels)
    np.testing.assert_allclose(found, scores, atol=1e-5 * np.abs(scores).max())


def test_contributions_sum_to_the_score_difference(model: Foresight, small_world: ZeroShotDataset) -> None:
    X, (one, other) = small_world.test_unseen.X[:20], small_world.unseen[:2]
    model.add_examples(*shots(small_world, 2))
    scores = model.decision_function(X, [one, other]).astype(float)
    found = contributions(model, X, one, other).values.sum(axis=1)
    np.testing.assert_allclose(found, scores[:, 0] - scores[:, 1], atol=1e-3 * np.ptp(scores))


# -- errors ------------------------------------------------------------------------------------------------------------


def test_folder_of_an_earlier_version_loads_and_refuses_examples(model: Foresight, small_world: ZeroShotDataset) -> None:
    files = as_files(model, None)
    new = ("whitening", "class_means", "examples", "n_images")
    arrays = {name: array for name, array in files.arrays.items() if not name.startswith(new)}
    old = Foresight.from_files(ModelFiles(files.method, files.content, arrays))
    X = small_world.test_unseen.X
    np.testing.assert_array_equal(old.decision_function(X), model.decision_function(X))
    assert not old.takes_examples
    assert old.example_counts == {}
    with pytest.raises(ModelError, match=r"earlier version.*Train it again"):
        old.add_examples(*shots(small_world, 1))
    assert as_files(old.remove_classes(small_world.unseen[0]), None).arrays.keys() == arrays.keys()


def test_invalid_examples_are_an_error_and_change_nothing(model: Foresight, small_world: ZeroShotDataset) -> None:
    X, y = shots(small_world, 1)
    before = model.decision_function(X)
    for features, labels, message in (
        (X, ["dodo"] * len(X), "dodo"),
        (X[:, 1:], y, "features"),
        (X[:-1], y, "inconsistent numbers of samples"),
        (X[:0], y[:0], "0 sample"),
        (np.where(np.arange(X.size).reshape(X.shape) == 3, np.nan, X), y, "NaN"),
    ):
        with pytest.raises(DataError, match=message):
            model.add_examples(features, labels)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.example_counts == {}


def test_other_methods_say_which_method_can(small_world: ZeroShotDataset) -> None:
    model = ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert not model.takes_examples
    with pytest.raises(SettingsError, match=r"ESZSL cannot use examples.*Foresight can"):
        model.add_examples(*shots(small_world, 1))


def test_one_seen_class() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((6, 4)).astype(np.float32)
    model = Foresight().fit(X, ["a"] * 6, {"a": [1.0, 0.0], "b": [0.0, 1.0]})
    assert np.isfinite(model.add_examples(X[:1] + 1, ["b"]).decision_function(X, "all")).all()
