"""Text side of dual encoders, and sentence-transformers, compared with the real classes."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.semantics.additions import describe_like
from sightunseen.semantics.describe import ClassDescriptions, describe_classes
from sightunseen.semantics.dual_encoders import TEMPLATES, DualTextEncoder
from sightunseen.semantics.text import encode_names, open_encoder, open_recorded_encoder

Make = Callable[[str], Path]
TEXTS = ["a red ball", "a large blue square , striped", "ball"]


def of_the_real_class(kind: str, folder: Path, text: str) -> np.ndarray:
    from transformers import AutoTokenizer, CLIPModel, SiglipModel

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        if kind == "clip":
            found = CLIPModel.from_pretrained(folder).get_text_features(**tokenizer([text], return_tensors="pt"))
        else:
            ids = tokenizer([text], padding="max_length", max_length=16, return_tensors="pt")["input_ids"]
            found = SiglipModel.from_pretrained(folder).get_text_features(ids)
    return (found.pooler_output / found.pooler_output.norm()).numpy()[0]


@pytest.mark.parametrize(("kind", "size"), [("clip", 12), ("siglip", 16)])
def test_vectors_are_those_of_the_real_class(checkpoint: Make, kind: str, size: int) -> None:
    encoder = open_encoder(f"hf:{checkpoint(kind)}")
    vectors = encoder(TEXTS)
    assert (vectors.dtype, vectors.shape, encoder.size) == (np.float32, (3, size), size)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, of_the_real_class(kind, checkpoint(kind), text), atol=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.01


@pytest.mark.parametrize("kind", ["clip", "siglip", "sentences"])
def test_vectors_do_not_depend_on_the_batch(checkpoint: Make, kind: str) -> None:
    encoder = open_encoder(f"{'st' if kind == 'sentences' else 'hf'}:{checkpoint(kind)}")
    many = [f"a w{k % 90} " + "striped " * (k % 7) + "ball" for k in range(70)]
    alone = np.concatenate([encoder([text]) for text in many[:40]])
    np.testing.assert_allclose(encoder(many)[:40], alone, atol=1e-5)
    assert encoder([]).shape == (0, encoder.size)
    with pytest.raises(DataError, match="needs a list of texts"):
        encoder("one text")


def test_sentence_transformers_equal_the_package(checkpoint: Make) -> None:
    package = pytest.importorskip("sentence_transformers")
    theirs = package.SentenceTransformer(str(checkpoint("sentences")), device="cpu").encode(TEXTS, normalize_embeddings=True)
    for prefix in ("st", "sentence-transformers"):
        encoder = open_encoder(f"{prefix}:{checkpoint('sentences')}")
        np.testing.assert_allclose(encoder(TEXTS), theirs, atol=1e-6)
        assert encoder.name == f"{prefix}:{checkpoint('sentences')}"


def test_long_texts_are_truncated_with_a_warning(checkpoint: Make) -> None:
    encoder = open_encoder(f"hf:{checkpoint('clip')}")
    with pytest.warns(UserWarning, match="longer than the limit of 20 tokens .*: 1 of 2; they are truncated"):
        assert np.isfinite(encoder(["ball " * 50, "ball"])).all()


def test_names_are_averaged_over_prompt_templates(checkpoint: Make) -> None:
    encoder = open_encoder(f"hf:{checkpoint('clip')}")
    assert isinstance(encoder, DualTextEncoder)
    mean = encoder([template.format("red ball") for template in TEMPLATES]).mean(axis=0)
    found = encode_names(encoder, ["red ball", "cyan"])
    np.testing.assert_allclose(found[0], mean / np.linalg.norm(mean), atol=1e-6)
    one = encoder.encode_names(["red ball"], ["a photo of the {}."])
    np.testing.assert_allclose(one, encoder(["a photo of the red ball."]), atol=1e-6)
    plain = open_encoder(f"st:{checkpoint('sentences')}")
    np.testing.assert_array_equal(encode_names(plain, ["cyan"]), plain(["cyan"]))


def test_class_table_has_prompted_names_and_plain_descriptions(checkpoint: Make) -> None:
    name = f"hf:{checkpoint('clip')}"
    encoder = open_encoder(name)
    raw = ClassDescriptions(("red_ball", "cyan"), descriptions=("a red ball", "a cyan square"))
    table = describe_classes(raw, f"names:{name}")
    np.testing.assert_allclose(table.vectors, encode_names(encoder, ["red ball", "cyan"]), atol=1e-6)
    np.testing.assert_allclose(table.using(f"text:{name}").vectors, encoder(["a red ball", "a cyan square"]), atol=1e-6)
    added = describe_like(table, ClassDescriptions(("blue_ball",)))
    np.testing.assert_allclose(added.vectors, encode_names(encoder, ["blue ball"]), atol=1e-6)


@pytest.mark.parametrize("kind", ["text", "both"])
def test_an_encoder_with_other_weights_is_refused_for_new_classes(checkpoint: Make, kind: str) -> None:
    encoder, other = open_encoder(f"st:{checkpoint('sentences')}"), open_encoder(f"hf:{checkpoint('siglip')}")
    assert encoder.size == other.size
    raw = ClassDescriptions(("red", "cyan"), ("round",), np.array([[1.0], [0.0]]), ("a red ball", "a cyan square"))
    new = ClassDescriptions(("blue",), ("round",), np.array([[1.0]]), ("a blue ball",))
    if kind == "text":
        raw, new = (replace(one, values=None, attribute_names=None) for one in (raw, new))
    table = describe_classes(raw, kind, encoder)
    assert describe_like(table, new, encoder).labels.tolist() == ["blue"]
    with pytest.raises(DataError, match="gives another vector for the class 'red'"):
        describe_like(table, new, other)


def test_a_given_encoder_adds_names_to_attributes(checkpoint: Make) -> None:
    raw = ClassDescriptions(("red ball", "cyan"), ("round",), np.array([[1.0], [0.0]]))
    assert list(describe_classes(raw).semantics) == ["attributes"]
    table = describe_classes(raw, encoder=f"hf:{checkpoint('clip')}")
    assert table.use == "attributes"
    assert list(table.semantics) == ["attributes", f"names:hf:{checkpoint('clip')}"]


@pytest.mark.parametrize("kind", ["vit", "bert"])
def test_other_networks_are_not_text_encoders(checkpoint: Make, kind: str) -> None:
    with pytest.raises(SettingsError, match="is not a dual encoder"):
        open_encoder(f"hf:{checkpoint(kind)}")


def test_fingerprint_is_that_of_the_weights(checkpoint: Make) -> None:
    first = open_encoder(f"hf:{checkpoint('clip')}").fingerprint
    assert len({first, open_encoder(f"hf:{checkpoint('siglip')}").fingerprint}) == 2
    open_encoder.cache_clear()
    assert open_encoder(f"hf:{checkpoint('clip')}").fingerprint == first
    assert len(open_encoder(f"st:{checkpoint('sentences')}").fingerprint) == 64


def test_a_recorded_folder_is_opened_and_a_recorded_repository_is_not(checkpoint: Make) -> None:
    assert open_recorded_encoder(f"hf:{checkpoint('clip')}").size == 12
    for name in ("hf:nobody/nothing", f"st:{checkpoint('sentences')}"):
        with pytest.raises(SettingsError, match="--allow-downloads"):
            open_recorded_encoder(name)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, package, extra in (
        ("hf:some/model", "transformers", "transformers"),
        ("st:some/model", "sentence_transformers", "sentence-transformers"),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingDependencyError, match=rf"pip install 'sightunseen\[{extra}\]'"):
            open_encoder(name)


def test_an_unreachable_model_is_named() -> None:
    with pytest.raises(SettingsError, match="'st:nobody/nothing' cannot be opened"):
        open_encoder("st:nobody/nothing")
