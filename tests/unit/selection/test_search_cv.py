"""``ZeroShotSearchCV``: scikit-learn interface, class folds, and the same selection as the pipeline."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sightunseen import ZeroShotSearchCV
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods import CVC, ESZSL, Foresight
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.left_out import choose_left_out

pytestmark = pytest.mark.slow

GRID = {"feature_penalty": [0.1, 10.0], "semantic_penalty": [0.1, 10.0]}


@pytest.fixture(scope="module")
def fitted(small_world: ZeroShotDataset) -> ZeroShotSearchCV:
    return ZeroShotSearchCV(Foresight()).fit(small_world.train.X, small_world.train.y, small_world.classes)


def test_choice_and_model_match_the_pipeline(fitted: ZeroShotSearchCV, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(TrainingSpecification(method=Foresight), small_world, tmp_path)
    assert fitted.choice_.report == model.record_.selection
    assert fitted.best_estimator_.get_params() == model.get_params()
    assert fitted.best_estimator_.calibration_ == model.calibration_
    assert evaluate(fitted.best_estimator_, small_world).results() == model.record_.results


def test_adapted_model_matches_the_pipeline(fitted: ZeroShotSearchCV, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    adapted = fitted.adapt(small_world.test_unseen.X)
    model = train(TrainingSpecification(method=Foresight), small_world, tmp_path)
    expected = adapt(AdaptationSpecification(), model, small_world, tmp_path)
    assert adapted.seen_penalty == expected.seen_penalty != 0
    assert adapted.calibration_ == expected.calibration_
    assert adapted.calibration_ is not None
    np.testing.assert_array_equal(
        adapted.decision_function(small_world.test_seen.X), expected.decision_function(small_world.test_seen.X)
    )


def test_cv_results_have_the_layout_of_scikit_learn(small_world: ZeroShotDataset) -> None:
    search = ZeroShotSearchCV(ESZSL(), GRID, cv=3).fit(small_world.train.X, small_world.train.y, small_world.classes)
    results = search.cv_results_
    assert len(results["params"]) == 4
    folds = np.array([results[f"split{k}_test_H"] for k in range(3)])
    np.testing.assert_allclose(folds.mean(axis=0), results["mean_test_H"], atol=1e-9)
    np.testing.assert_allclose(folds.std(axis=0), results["std_test_H"])
    assert results["rank_test_H"][search.best_index_] == 1
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.best_score_ == results["mean_test_H"].max()
    assert 0 < search.best_score_ < 1
    assert [params["feature_penalty"] for params in results["params"]] == results["param_feature_penalty"].tolist()


@pytest.mark.parametrize(("cv", "folds"), [(None, 40), (6, 6)])
def test_foresight_is_searched_by_leaving_classes_out(cv: int | None, folds: int, small_world: ZeroShotDataset) -> None:
    grid = {"noise": [0.1, 1.0], "shrinkage": [0.1, 0.6]}
    search = ZeroShotSearchCV(Foresight(), grid, cv=cv, seed=2)
    search.fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert search.choice_ == choose_left_out(Foresight(), small_world, grid, cv, seed=2)
    results = search.cv_results_
    by_fold = np.array([results[f"split{k}_test_H"] for k in range(folds)])
    assert f"split{folds}_test_H" not in results
    np.testing.assert_allclose(by_fold.mean(axis=0), results["mean_test_H"])
    assert search.best_index_ == np.argmax(results["mean_test_T1"] + results["mean_test_H"])
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.best_score_ == results["mean_test_H"][search.best_index_]
    assert search.best_estimator_.seen_penalty == results["seen_penalty"][search.best_index_]


def test_foresight_is_fitted_on_folds_that_are_given(small_world: ZeroShotDataset) -> None:
    seen = small_world.seen
    images = small_world.train.X, small_world.train.y, small_world.classes
    pairs = [(seen[3:], seen[:3]), (seen[:-4], seen[-4:])]
    search = ZeroShotSearchCV(Foresight(), {"noise": [0.1, 1.0]}, cv=pairs).fit(*images)
    assert [fold["validation_classes"] for fold in search.choice_.report["folds"]] == [3, 4]
    assert search.choice_.report["by"] == "H on validation classes"


def test_foresight_in_a_pipeline_is_fitted_on_few_folds(small_world: ZeroShotDataset) -> None:
    images = small_world.train.X, small_world.train.y, small_world.classes
    search = ZeroShotSearchCV(make_pipeline(PCA(8), Foresight()), {"foresight__noise": [0.1, 1.0]}).fit(*images)
    assert len(search.choice_.report["folds"]) == 5


def test_given_folds_match_a_plain_loop(small_world: ZeroShotDataset) -> None:
    seen = small_world.seen
    pairs = [(seen[3:], seen[:3]), (seen[:-3], seen[-3:])]
    train_images = small_world.train.X, small_world.train.y, small_world.classes
    search = ZeroShotSearchCV(ESZSL(), {"feature_penalty": [1.0]}, cv=pairs).fit(*train_images)
    folds = ZeroShotDataset.from_arrays(*train_images, validation=tuple(pairs)).validation_folds(2)
    for k, (fold, (_, held)) in enumerate(zip(folds, pairs, strict=True)):
        np.testing.assert_array_equal(fold.unseen, held)
        model = ESZSL(feature_penalty=1.0).fit(fold.train.X, fold.train.y, fold.classes)
        curve = evaluate(model, fold).curve
        best = max(2 * u * s / (u + s) if u + s else 0.0 for u, s in zip(curve.unseen, curve.seen, strict=True))
        assert search.cv_results_[f"split{k}_test_H"][0] == pytest.approx(best, abs=1e-4)


def test_number_of_folds_may_be_a_numpy_integer(small_world: ZeroShotDataset) -> None:
    images = small_world.train.X, small_world.train.y, small_world.classes
    plain, numpy = (ZeroShotSearchCV(ESZSL(), cv=cv).fit(*images) for cv in (2, np.int64(2)))
    assert (numpy.n_folds_, numpy.best_params_) == (2, plain.best_params_)


def test_invalid_folds_are_refused(small_world: ZeroShotDataset) -> None:
    images, seen = (small_world.train.X, small_world.train.y, small_world.classes), small_world.seen
    invalid: list[tuple[Any, str]] = [
        (0, "cv"),
        (-1, "cv"),
        (True, "cv"),
        (2.5, "pairs of two lists of labels.*; got 2.5"),
        (KFold(3), "pairs of two lists of labels.*; got KFold"),
        ([(seen[:3], seen[3:], seen[:2])], "pairs of two lists of labels"),
        ([("a", "b")], "has labels without a list"),
        ([(seen[:3], seen[3])], "has labels without a list"),
        ([(seen[:3], [])], "3 and 0 labels"),
        ([(seen[3:], seen[:3]), (seen[3:], [9999])], "fold 2 .* 1 of them not in y"),
        ([([9999, 9998], seen[:3])], "2 of them not in y"),
        ([(seen[2:], seen[:4])], "2 in both"),
    ]
    for cv, message in invalid:
        with pytest.raises(SettingsError, match=message):
            ZeroShotSearchCV(ESZSL(), {}, cv=cv).fit(*images)


def test_pipelines_can_be_searched(small_world: ZeroShotDataset) -> None:
    images = small_world.train.X, small_world.train.y, small_world.classes
    pipeline = make_pipeline(StandardScaler(), PCA(8), ESZSL(feature_scaling="none"))
    grid = {"pca__n_components": [2, 8], "eszsl__feature_penalty": [0.1, 10.0]}
    search = ZeroShotSearchCV(pipeline, grid, cv=2).fit(*images)
    assert set(search.best_params_) == set(grid)
    best = search.best_estimator_
    assert (best[1].n_components, best[-1].seen_penalty) == (
        search.best_params_["pca__n_components"],
        search.choice_.seen_penalty,
    )
    assert best[-1].calibration_ == search.choice_.calibration
    # The same step by step: transformers, then the method.
    scaler, pca = StandardScaler().fit(images[0]), PCA(search.best_params_["pca__n_components"])
    reduced = pca.fit_transform(scaler.transform(images[0]))
    alone = ESZSL(feature_scaling="none", feature_penalty=search.best_params_["eszsl__feature_penalty"])
    alone.set_params(seen_penalty=search.choice_.seen_penalty).fit(reduced, *images[1:])
    X = small_world.test_unseen.X
    expected = alone.predict(pca.transform(scaler.transform(X)), small_world.unseen)
    np.testing.assert_array_equal(search.predict(X, candidates=small_world.unseen), expected)
    assert search.score(X, small_world.test_unseen.y, small_world.unseen) > 1.5 / len(small_world.unseen)  # better than chance


def test_default_search_space_of_a_pipeline_is_that_of_its_method(small_world: ZeroShotDataset) -> None:
    search = ZeroShotSearchCV(make_pipeline(StandardScaler(), ESZSL()), cv=1)
    search.fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert set(search.best_params_) == {f"eszsl__{name}" for name in ESZSL.search_space}


def test_classes_may_be_a_mapping(small_world: ZeroShotDataset) -> None:
    table = small_world.classes
    mapping = dict(zip(table.labels.tolist(), table.vectors, strict=True))
    one, other = (
        ZeroShotSearchCV(ESZSL(), {}, cv=2).fit(small_world.train.X, small_world.train.y, classes)
        for classes in (table, mapping)
    )
    assert one.choice_ == other.choice_


def test_stopping_point_of_gradient_training_is_chosen(small_world: ZeroShotDataset) -> None:
    method = CVC(hidden=16, n_steps=300, learning_rate=1e-2, device="cpu")
    search = ZeroShotSearchCV(method, {"initial_scale": [5.0, 20.0]})
    search.fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert search.best_estimator_.n_steps_ == search.choice_.stop_after
    assert search.cv_results_["n_steps"][search.best_index_] == search.choice_.stop_after


def test_clone_and_refit_false(small_world: ZeroShotDataset) -> None:
    search = clone(ZeroShotSearchCV(ESZSL(), GRID, cv=1, refit=False, seed=3))
    assert search.get_params()["estimator__feature_penalty"] == ESZSL().feature_penalty
    with pytest.raises(NotFittedError):
        search.predict(small_world.test_unseen.X)
    search.fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert set(search.best_params_) == set(GRID)
    with pytest.raises(NotFittedError):
        search.predict(small_world.test_unseen.X)


def test_invalid_estimators_and_folds_raise_an_error(small_world: ZeroShotDataset) -> None:
    images = small_world.train.X, small_world.train.y, small_world.classes
    with pytest.raises(SettingsError, match="LogisticRegression"):
        ZeroShotSearchCV(LogisticRegression()).fit(*images)
    with pytest.raises(SettingsError, match="must end in a zero-shot method; it ends in PCA"):
        ZeroShotSearchCV(make_pipeline(StandardScaler(), PCA()), {}).fit(*images)
    with pytest.raises(SettingsError, match=r"pairs of two lists of labels.*it is empty"):
        ZeroShotSearchCV(ESZSL(), cv=[]).fit(*images)
    with pytest.raises(SettingsError, match="no transductive form"):
        ZeroShotSearchCV(ESZSL(), {}, cv=1).fit(*images).adapt(small_world.test_unseen.X)
    with pytest.raises(DataError, match="at least 4 seen classes"):
        ZeroShotSearchCV(ESZSL(), {}).fit(np.eye(6), list("aabbcc"), dict(zip("abc", np.eye(3), strict=True)))
