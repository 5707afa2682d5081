"""Reasons: the largest contributions of either sign, which sum to the total with all others; interpretable attributes only."""

import numpy as np
import pytest

from sightunseen.analysis import reasons
from sightunseen.analysis.contributions import contributions
from sightunseen.analysis.reasons import Explainer, speaking_attributes
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ESZSL

NAMES = ["legs", "wings", "fur", "fins", "size"]


def world(use: str = "attributes", names: list[str] | None = NAMES) -> tuple[ESZSL, np.ndarray, np.ndarray]:
    """A model of six seen and two unseen classes, images of all classes, and their labels."""
    rng = np.random.default_rng(0)
    table = ClassTable([f"class {k}" for k in range(8)], {use: rng.random((8, 5))}, None if names is None else {use: names})
    y = np.tile(table.labels, 4)
    X = (table.vectors_of(y) @ rng.normal(size=(5, 9)) + 0.3 * rng.normal(size=(32, 9))).astype(np.float32)
    seen = ~np.isin(y, ["class 6", "class 7"])
    return ESZSL(seen_penalty=3.0).fit(X[seen], y[seen], table), X, y


@pytest.mark.parametrize("top", [1, 2, 9])
def test_reasons_are_the_largest_contributions_and_sum_to_the_total(top: int) -> None:
    model, X, y = world()
    for x, label, found in zip(X, y, Explainer(model, top)(X, y), strict=True):
        parts = contributions(model, x[None], label)
        values = dict(zip(NAMES, parts.values[0], strict=True))
        best = sorted((name for name in NAMES if values[name] > 0), key=lambda name: -values[name])[:top]
        worst = sorted((name for name in NAMES if values[name] < 0), key=lambda name: values[name])[:top]
        assert [one.attribute for one in found.speaks_for] == best
        assert [one.attribute for one in found.speaks_against] == worst
        for one in found.speaks_for + found.speaks_against:
            index = NAMES.index(one.attribute)
            assert one.contribution == pytest.approx(values[one.attribute], abs=1e-6)
            assert (one.value, one.usual) == (parts.own[index], parts.others[index])
        given = sum(one.contribution for one in found.speaks_for + found.speaks_against)
        assert given + found.others == pytest.approx(found.total, abs=1e-9)
        assert found.total == pytest.approx(parts.totals[0], abs=1e-5)


def test_text_dimensions_are_part_of_others() -> None:
    model, X, y = world("both:encoder", ["legs", "wings", "fur", "text 1", "text 2"])
    assert speaking_attributes(model.table_) == 3
    for found in Explainer(model, 9)(X, y):
        named = found.speaks_for + found.speaks_against
        assert {one.attribute for one in named} <= {"legs", "wings", "fur"}
        assert abs(found.others) > 1e-6
        assert sum(one.contribution for one in named) + found.others == pytest.approx(found.total, abs=1e-9)


@pytest.mark.parametrize(
    ("use", "speaks"), [("text:encoder", False), ("names:encoder", False), ("one-hot", False), ("att", True)]
)
def test_only_attributes_give_reasons(use: str, speaks: bool) -> None:
    assert Explainer(world(use, None)[0]).speaks is speaks


def test_unnamed_attributes_are_numbered() -> None:
    model, X, y = world(names=None)
    found = Explainer(model, 5)(X[:1], y[:1])[0]
    assert {one.attribute for one in found.speaks_for + found.speaks_against} == {f"attribute {k}" for k in range(1, 6)}


def test_attributions_are_cached_by_class_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, y = world()
    created = []
    attribution = reasons.PathAttribution
    monkeypatch.setattr(reasons, "PathAttribution", lambda *given: created.append(given[2].tolist()) or attribution(*given))
    explainer = Explainer(model)
    first = explainer(X, y)
    assert len(created) == 8
    tried = model.table_.extended(ClassTable(["tried"], model.table_.vectors_of(["class 7"]) + 0.1))
    assert explainer(X, y, tried) == first
    assert len(created) == 8
    assert explainer(X[:2], ["tried", "tried"], tried)[0].total != pytest.approx(explainer(X[:1], ["class 7"])[0].total)
    assert len(created) == 9
