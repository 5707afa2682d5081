"""``remove_classes`` removes unseen classes and leaves the scores of all other classes unchanged."""

from pathlib import Path

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.methods import CVC, ESZSL, GFZSL, SSE, ZeroShotClassifier, load_model

METHODS = {
    "CVC": CVC(hidden=16, n_steps=20, device="cpu"),
    "ESZSL": ESZSL(),
    "GFZSL": GFZSL(),
    "SSE": SSE(n_steps=20, device="cpu"),
}


@pytest.fixture(params=sorted(METHODS))
def model(request: pytest.FixtureRequest, small_world: ZeroShotDataset) -> ZeroShotClassifier:
    fitted: ZeroShotClassifier = METHODS[request.param].fit(small_world.train.X, small_world.train.y, small_world.classes)
    return fitted


def test_scores_of_remaining_classes_are_unchanged(
    model: ZeroShotClassifier, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    gone, *kept = small_world.unseen.tolist()
    others = [*small_world.seen.tolist(), *kept]
    before = model.decision_function(small_world.test_unseen.X, others)
    assert model.remove_classes(gone) is model
    assert gone not in model.classes_
    assert model.unseen_classes_.tolist() == kept
    np.testing.assert_allclose(model.decision_function(small_world.test_unseen.X, others), before, rtol=1e-6, atol=1e-6)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").classes_.tolist() == sorted(others)


def test_all_unseen_classes_can_be_removed_and_one_added_back(model: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    label = small_world.unseen[1]
    before = model.decision_function(small_world.test_unseen.X, [label])
    model.remove_classes(small_world.unseen)
    assert model.classes_.tolist() == small_world.seen.tolist()
    assert set(model.predict(small_world.test_unseen.X)) <= set(small_world.seen.tolist())
    model.add_classes(ClassTable([label], small_world.classes.vectors_of([label])))
    np.testing.assert_allclose(model.decision_function(small_world.test_unseen.X, [label]), before, rtol=1e-5, atol=1e-6)


def test_seen_and_unknown_classes_cannot_be_removed(model: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    known = model.classes_.tolist()
    seen, unseen = str(small_world.seen[0]), str(small_world.unseen[0])
    with pytest.raises(DataError, match=f"'{seen}' was trained on"):
        model.remove_classes([unseen, seen])
    with pytest.raises(DataError, match="'dodo' is not a class of the model"):
        model.remove_classes([unseen, "dodo"])
    assert model.classes_.tolist() == known


def test_parameters_learned_for_a_removed_class_are_dropped(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    """An adapted GFZSL stores parameters of unseen classes; a new class with the same label must not get them."""
    model = GFZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    label = small_world.unseen[0]
    adapted = model.adapt(small_world.test_unseen.X)
    adapted.remove_classes(label).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    loaded.add_classes(ClassTable([label], small_world.classes.vectors_of([label])))
    assert isinstance(loaded, GFZSL)
    np.testing.assert_array_equal(loaded.parameters_of([label])[0], model.parameters_of([label])[0])
    other = small_world.unseen[1]
    np.testing.assert_array_equal(loaded.parameters_of([other])[0], adapted.parameters_of([other])[0])
    assert not np.array_equal(loaded.parameters_of([other])[0], model.parameters_of([other])[0])


def test_class_table_without_labels() -> None:
    table = ClassTable(["a", "b", "c"], {"one": [[1.0], [2.0], [3.0]], "two": [[4.0], [5.0], [6.0]]}, use="two")
    rest = table.without(["b"])
    assert (rest.labels.tolist(), rest.vectors.tolist(), rest.use) == (["a", "c"], [[4.0], [6.0]], "two")
    with pytest.raises(DataError):
        table.without(["d"])
    with pytest.raises(DataError):
        table.without(["a", "b", "c"])
