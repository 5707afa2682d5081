"""Checks of class vectors: planted faults are found and named, ordinary class vectors pass."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.data.doctor import PASS, WARN, Finding, description_checks
from sightunseen.data.doctor.description_checks import check_descriptions
from sightunseen.data.synthetic_features import World, make_world

NAMES = ("similar-classes", "uninformative-attributes", "hub-classes")


def labels_of(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def data_of(vectors: Any, n_unseen: int = 3, names: Any = None, use: str = "attributes") -> ZeroShotDataset:
    """Data set with two images per class; the last classes are unseen."""
    labels = np.array(labels_of(len(vectors)))
    y = np.repeat(labels, 2)
    split = np.where(np.isin(y, labels[len(labels) - n_unseen :]), "test_unseen", "train")
    features = np.arange(2.0 * len(y)).reshape(len(y), 2)
    return ZeroShotDataset.from_arrays(features, y, ClassTable(labels, {use: vectors}, names), split)


def found(data: ZeroShotDataset) -> dict[str, Finding]:
    findings = check_descriptions(data)
    assert [finding.check for finding in findings] == list(NAMES)
    return {finding.check: finding for finding in findings}


def finding(check: str, *args: Any, **options: Any) -> Finding:
    return found(data_of(*args, **options))[check]


def random_vectors(seed: int, n_classes: int = 40, size: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).random((n_classes, size))


def pairs_of(one: Finding) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in re.findall(r"(c\d+)(?: \(unseen\))? / (c\d+)", one.what)}


def warnings_of(data: ZeroShotDataset) -> list[str]:
    return [name for name, one in found(data).items() if one.level != PASS]


# -- ordinary class vectors ----------------------------------------------------------------------------------------------

WORLDS = [(80, 20, 30), (80, 20, 100), (80, 20, 300), (40, 10, 12), (20, 10, 40), (400, 100, 20), (200, 50, 200)]


@pytest.mark.parametrize(("n_seen", "n_unseen", "n_attributes"), WORLDS)
def test_ordinary_class_vectors_pass(n_seen: int, n_unseen: int, n_attributes: int) -> None:
    for seed in range(3):
        world = World(n_seen, n_unseen, n_attributes, n_features=2, images_per_class=5, seed=seed)
        assert warnings_of(make_world(world)) == []


@pytest.mark.parametrize("size", [20, 100, 1000])
def test_random_directions_pass(size: int) -> None:
    assert warnings_of(data_of(np.random.default_rng(size).normal(size=(200, size)))) == []


def test_one_hot_vectors_of_seen_classes_pass() -> None:
    """All classes are equidistant."""
    assert warnings_of(data_of(np.eye(30), n_unseen=0)) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_classes_pass(count: int) -> None:
    assert warnings_of(data_of(random_vectors(0, count), n_unseen=0)) == []


def test_invalid_vectors_are_left_to_other_checks() -> None:
    vectors = random_vectors(1)
    vectors[3, 2], vectors[4], vectors[5, 0], vectors[7] = np.nan, 0, np.inf, vectors[8]
    assert warnings_of(data_of(vectors)) == []
    assert warnings_of(data_of(np.full((5, 3), np.nan))) == []


# -- similar classes -----------------------------------------------------------------------------------------------------


def with_twins(vectors: np.ndarray, *pairs: tuple[int, int], size: float = 0.01) -> np.ndarray:
    changed = vectors.copy()
    for one, other in pairs:
        changed[other] = changed[one] + size * np.random.default_rng(other).random(vectors.shape[1])
    return changed


@pytest.mark.parametrize("seed", range(5))
def test_planted_pairs_are_found_and_nothing_else(seed: int) -> None:
    one, other, third, fourth = np.random.default_rng(seed).permutation(40)[:4].tolist()
    found = finding("similar-classes", with_twins(random_vectors(seed), (one, other), (third, fourth)))
    assert found.level == WARN
    assert pairs_of(found) == {frozenset({f"c{one}", f"c{other}"}), frozenset({f"c{third}", f"c{fourth}"})}


def test_pairs_do_not_depend_on_scale_or_units() -> None:
    vectors = with_twins(random_vectors(2), (3, 38))
    expected = {frozenset({"c3", "c38"})}
    for factor in (1e-4, 1.0, 1e4, np.where(np.arange(12) < 6, 1e5, 1.0)):
        assert pairs_of(finding("similar-classes", vectors * factor)) == expected


def test_proportional_vectors_are_similar_and_equal_ones_are_not_reported_twice() -> None:
    vectors = random_vectors(3)
    vectors[5] = 4 * vectors[6]
    assert pairs_of(finding("similar-classes", vectors)) == {frozenset({"c5", "c6"})}
    vectors[5] = vectors[6]  # reported by distinct-vectors
    assert finding("similar-classes", vectors).level == PASS


def test_pairs_with_unseen_classes_come_first_and_are_marked() -> None:
    vectors = with_twins(random_vectors(4), (0, 1), (2, 3), (4, 5), size=0.001)
    vectors = with_twins(vectors, (6, 39), size=0.05)
    found = finding("similar-classes", vectors)
    assert "vector: 4, 1 of them with an unseen class (c6 / c39 (unseen), " in found.what
    assert found.what.endswith(" and 1 more).")
    assert "c6 and c39 differ most" in found.remedy
    assert "pairs of seen classes" in finding("similar-classes", vectors, n_unseen=0).what


def test_a_table_of_twins_is_found_although_the_typical_nearest_distance_is_small() -> None:
    vectors = np.repeat(random_vectors(5), 2, axis=0)
    vectors[1::2] += 0.001 * random_vectors(6)
    assert "vector: 40, " in finding("similar-classes", vectors).what
    assert finding("similar-classes", np.outer(np.arange(1, 9), np.ones(4))).level == WARN  # all in one direction


def test_the_attributes_that_differ_most_are_named() -> None:
    vectors = random_vectors(7)
    vectors[9] = vectors[8]
    vectors[9, 4] += 0.05
    vectors[9, 2] += 0.02
    names = [f"a{number}" for number in range(12)]
    remedy = finding("similar-classes", vectors, names=names).remedy
    assert re.findall(r"'(a\d+)'", remedy) == ["a4", "a2"]
    assert f"'a4' ({vectors[8, 4]:.3g}, {vectors[9, 4]:.3g})" in remedy


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        ("text:encoder", "Describe what distinguishes c1 from c2, e.g. colour, shape or size."),
        ("names:encoder", "Add descriptions that say what distinguishes c1 from c2."),
        ("both:encoder", "or describe the difference; c1 and c2 differ in no attribute"),
    ],
)
def test_the_remedy_fits_the_kind_of_vectors(use: str, advice: str) -> None:
    vectors = with_twins(random_vectors(8), (1, 2))
    if use == "both:encoder":
        vectors[:, :6] = 0  # six attributes, in which no classes differ
    names = [*labels_of(6), *(f"text {k}" for k in range(1, 7))] if use == "both:encoder" else None
    assert advice in finding("similar-classes", vectors, names=names, use=use).remedy


def test_nearest_classes_equal_those_of_all_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = random_vectors(9, 60, 5)
    distances = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    np.fill_diagonal(distances, np.inf)
    for rows in (7, 59, 1024):
        monkeypatch.setattr(description_checks, "ROWS", rows)
        nearest = description_checks._Nearest.of(vectors)
        np.testing.assert_array_equal(nearest.indices, np.argsort(distances, axis=1)[:, :6])
        np.testing.assert_allclose(nearest.distances, np.sort(distances, axis=1)[:, :6], rtol=1e-12)


# -- uninformative attributes --------------------------------------------------------------------------------------------

ATTRIBUTES = [f"a{number}" for number in range(12)]


def uninformative(vectors: np.ndarray, **options: Any) -> Finding:
    return finding("uninformative-attributes", vectors, **{"names": ATTRIBUTES, **options})


def test_constant_attributes_are_named() -> None:
    vectors = random_vectors(0)
    vectors[:, [1, 4]] = 0, 0.3
    assert "all classes: 2 (a1, a4)" in uninformative(vectors).what
    assert uninformative(vectors, names=None).level == PASS  # perhaps dimensions that an encoder does not use


def test_attributes_that_vary_only_between_unseen_classes_are_named() -> None:
    vectors = random_vectors(0)
    vectors[:37, 5] = 0.25
    what = uninformative(vectors).what
    assert "the same for all seen classes but not for unseen ones: 1 (a5)" in what
    assert "all classes" not in what
    assert uninformative(vectors, n_unseen=4).level == WARN
    assert uninformative(vectors, n_unseen=2).level == PASS  # now a seen class differs


def test_a_rare_attribute_of_seen_classes_passes() -> None:
    vectors = random_vectors(0)
    vectors[:, [3, 7]] = 0
    vectors[2, 3] = vectors[5, 7] = 1
    assert uninformative(vectors).level == PASS
    vectors[:, 7] = vectors[:, 3]  # one class of 40: equal by chance
    assert uninformative(vectors).level == PASS


@pytest.mark.parametrize("copy", [lambda a: a, lambda a: 1 - a, lambda a: 3 - 1000 * a, lambda a: 0.1 * a])
@pytest.mark.parametrize("binary", [False, True])
def test_copies_and_complements_are_named(copy: Any, binary: bool) -> None:
    vectors = random_vectors(0)
    vectors = (vectors > 0.5).astype(float) if binary else vectors
    vectors[:, 8] = copy(vectors[:, 2])
    found = uninformative(vectors)
    assert "another: 1 (a8 = a2)" in found.what


def test_nearly_equal_attributes_pass() -> None:
    vectors = (random_vectors(0) > 0.5).astype(float)
    vectors[:, 8] = vectors[:, 2]
    vectors[0, 8] = 1 - vectors[0, 8]
    assert uninformative(vectors).level == PASS


def test_long_lists_of_attributes_are_abbreviated() -> None:
    vectors = random_vectors(0)
    vectors[:, :7] = 1
    assert "7 (a0, a1, a2 and 4 more)" in uninformative(vectors).what


def test_text_dimensions_are_no_attributes() -> None:
    vectors = random_vectors(0)
    vectors[:, 9:] = 1
    assert uninformative(vectors, names=None, use="text:encoder").level == PASS
    names = [*ATTRIBUTES[:9], "text 1", "text 2", "text 3"]
    assert uninformative(vectors, names=names, use="both:encoder").level == PASS
    vectors[:, 3] = 1
    assert "of 9: the same for all classes: 1 (a3)" in uninformative(vectors, names=names, use="both:encoder").what


def test_missing_values_do_not_make_an_attribute_vary() -> None:
    vectors = random_vectors(0)
    vectors[:, 3] = 0.5
    vectors[6, 3] = -1
    assert "all classes: 1 (a3)" in uninformative(vectors).what


# -- hubs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_seen", "n_unseen", "n_attributes"), [(80, 20, 30), (80, 20, 300), (20, 10, 40)])
def test_a_class_with_the_mean_vector_is_a_hub(n_seen: int, n_unseen: int, n_attributes: int) -> None:
    data = make_world(World(n_seen, n_unseen, n_attributes, n_features=2, images_per_class=5))
    vectors = data.classes.vectors.copy()
    vectors[4] = vectors.mean(axis=0)
    one = found(replace(data, classes=ClassTable(data.classes.labels, vectors)))["hub-classes"]
    assert one.level == WARN
    assert re.search(r"others: 1 \(thing 004: (\d+) of ", one.what)
    assert one.remedy == "Describe what is specific to thing 004."


def test_a_hub_within_a_group_of_classes_is_found() -> None:
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=(5, 100)), 40, axis=0)
    vectors = centres + 0.6 * rng.normal(size=centres.shape)
    assert finding("hub-classes", vectors).level == PASS
    vectors[47] = centres[47]
    assert "c47: 39 of 199" in finding("hub-classes", vectors).what


def test_nearly_equidistant_classes_have_no_hub_but_a_class_in_their_middle_is_one() -> None:
    vectors = np.eye(30)
    assert finding("hub-classes", vectors).level == PASS
    assert "c30: 30 of 30" in finding("hub-classes", np.vstack([vectors, np.full(30, 1 / 30)])).what
