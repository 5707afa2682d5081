"""Reasons: why the best class is ahead of the second-best one. Contributions, the rest and the bias sum to the lead."""

import numpy as np
import pytest

from sightunseen.analysis import pairs
from sightunseen.analysis.contributions import contributions
from sightunseen.analysis.pairs import Part, speaking_attributes
from sightunseen.analysis.reasons import Explainer
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ESZSL, Foresight

NAMES = ["legs", "wings", "fur", "fins", "size"]


def world(use: str = "attributes", names: list[str] | None = NAMES, method: type = ESZSL) -> tuple:
    """A model of six seen and two unseen classes, images of all classes, their two best classes and the leads."""
    rng = np.random.default_rng(0)
    table = ClassTable([f"class {k}" for k in range(8)], {use: rng.random((8, 5))}, None if names is None else {use: names})
    y = np.tile(table.labels, 4)
    X = (table.vectors_of(y) @ rng.normal(size=(5, 9)) + 0.3 * rng.normal(size=(32, 9))).astype(np.float32)
    seen = ~np.isin(y, ["class 6", "class 7"])
    model = method(seen_penalty=0.3).fit(X[seen], y[seen], table)
    labels, scores = model.top_classes(X, k=2)
    return model, X, labels, scores[:, 0] - scores[:, 1]


@pytest.mark.parametrize("top", [1, 2, 9])
@pytest.mark.parametrize("method", [ESZSL, Foresight])
def test_reasons_are_the_largest_contributions_and_sum_to_the_lead_over_the_second_best_class(top: int, method: type) -> None:
    model, X, labels, leads = world(method=method)
    beyond = []
    for x, (best, second), lead, found in zip(X, labels, leads, Explainer(model, top)(X, labels, leads), strict=True):
        parts = contributions(model, x[None], best, second)
        values = dict(zip(NAMES, parts.values[0], strict=True))
        assert [one.name for one in found.speaks_for] == sorted(
            (name for name in NAMES if values[name] > 0), key=lambda name: -values[name]
        )[:top]
        assert [one.name for one in found.speaks_against] == sorted(
            (name for name in NAMES if values[name] < 0), key=lambda name: values[name]
        )[:top]
        for one in found.speaks_for + found.speaks_against:
            index = NAMES.index(one.name)
            assert one.contribution == pytest.approx(values[one.name], abs=1e-4)
            assert (one.value, one.other) == (parts.own[index], parts.others[index])
        given = sum(one.contribution for one in found.speaks_for + found.speaks_against)
        assert given + found.others + found.beyond == pytest.approx(found.total, abs=1e-9)
        assert found.total == lead >= 0
        assert found.beyond == pytest.approx(lead - parts.totals[0], abs=1e-4)
        beyond.append(found.beyond)
    bias = [0.3 * (np.isin(second, model.seen_classes_) - 1.0 * np.isin(best, model.seen_classes_)) for best, second in labels]
    np.testing.assert_allclose(beyond, bias, atol=1e-3)  # these methods know nothing else of a class but its vector


@pytest.mark.parametrize(
    ("value", "other", "usual", "phrase"),
    [
        (0.1, 0.9, 0.3, "not jungle"),
        (0.5, 0.9, 0.3, "less jungle"),
        (0.9, 0.1, 0.3, "jungle"),
        (0.2, 0.1, 0.3, "more jungle"),
        (0.0, 1.0, None, "not “jungle”"),
        (1.0, 0.0, None, "“jungle”"),
        (1.0, 1.0, None, "“jungle”"),
    ],
)
def test_phrases_say_what_a_class_has_or_lacks(value: float, other: float, usual: float | None, phrase: str) -> None:
    assert Part("jungle", value, other, usual).phrase == phrase


def test_absence_of_an_attribute_speaks_for_the_class_that_lacks_it() -> None:
    """Images of horses lie apart from images of jungle animals; nothing about horses is positive."""
    rng = np.random.default_rng(0)
    table = ClassTable(
        ["tiger", "monkey", "parrot", "horse", "zebra"],
        [[1.0, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 0.1], [0, 1, 0.1]],
        ["jungle", "stripes", "wings"],
    )
    y = np.repeat(["tiger", "monkey", "parrot", "zebra"], 20)
    X = table.vectors_of(y) @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(80, 12))
    model = ESZSL(semantic_norm=None).fit(X, y, table)
    (found,) = Explainer(model)(X[-1:], [["zebra", "tiger"]], [1.0])
    phrases = {one.phrase: one.contribution for one in found.speaks_for}
    assert phrases["not jungle"] > 0
    assert "jungle" not in phrases


def test_text_dimensions_are_part_of_others() -> None:
    model, X, labels, leads = world("both:encoder", ["legs", "wings", "fur", "text 1", "text 2"])
    assert speaking_attributes(model.table_) == 3
    for found in Explainer(model, 9)(X, labels, leads):
        named = found.speaks_for + found.speaks_against
        assert {one.name for one in named} <= {"legs", "wings", "fur"}
        assert abs(found.others) > 1e-6
        assert sum(one.contribution for one in named) + found.others + found.beyond == pytest.approx(found.total, abs=1e-9)


@pytest.mark.parametrize(
    ("use", "silence"),
    [("text:encoder", "not stored"), ("names:encoder", "encoder"), ("one-hot", "neither"), ("att", None)],
)
def test_a_model_without_attributes_and_descriptions_says_why_it_has_no_reasons(use: str, silence: str | None) -> None:
    explainer = Explainer(world(use, None)[0])
    assert explainer.speaks is (silence is None)
    assert explainer.silence is None if silence is None else silence in explainer.silence


def test_unnamed_attributes_are_numbered() -> None:
    model, X, labels, leads = world(names=None)
    found = Explainer(model, 5)(X[:1], labels[:1], leads[:1])[0]
    assert {one.name for one in found.speaks_for + found.speaks_against} == {f"attribute {k}" for k in range(1, 6)}


def test_attributions_are_cached_by_the_vectors_of_both_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, labels, leads = world()
    created = []
    attribution = pairs.PathAttribution
    monkeypatch.setattr(pairs, "PathAttribution", lambda *given: created.append(given[1:]) or attribution(*given))
    explainer = Explainer(model)
    first = explainer(X, labels, leads)
    asked = len(np.unique(labels, axis=0))
    assert len(created) == asked
    tried = model.table_.extended(ClassTable(["tried"], model.table_.vectors_of(["class 7"]) + 0.1))
    assert explainer(X, labels, leads, tried) == first
    assert len(created) == asked
    (found,) = explainer(X[:1], [["tried", "class 7"]], [0.5], tried)
    assert (found.total, len(created)) == (0.5, asked + 1)
