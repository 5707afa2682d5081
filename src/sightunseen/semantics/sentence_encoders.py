"""Text encoders of the package sentence-transformers."""

from collections.abc import Sequence

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.checkpoints import Origin, loaded, parameter_digest
from sightunseen.core.documents import quoted
from sightunseen.core.extras import needed
from sightunseen.semantics.text import checked_texts


class SentenceTransformers:
    """Encoder of the package sentence-transformers.

    Parameters
    ----------
    name : str
        ``st:FOLDER``, ``st:REPOSITORY`` or ``st:REPOSITORY@REVISION``; ``sentence-transformers:`` is the same.

    Attributes
    ----------
    fingerprint : str
        SHA-256 of the parameters.
    size : int
        Number of dimensions of a vector.

    Raises
    ------
    MissingDependencyError
        If the package is not installed.
    SettingsError
        If the model cannot be opened.
    """

    def __init__(self, name: str) -> None:
        package = needed("sentence_transformers", "'sightunseen[sentence-transformers]'", f"the text encoder '{quoted(name)}'")
        origin = Origin.of(name).reached()
        safe = {"use_safetensors": True}
        self.name = name
        self._model = loaded(name, lambda: package.SentenceTransformer(origin.place, model_kwargs=safe, **origin.options))
        self._model.eval()
        self.fingerprint = parameter_digest(self._model)
        self.size = int(self._encoded(["a text"]).shape[1])

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Encode n texts as vectors of unit length, an array of shape (n, size)."""
        given = checked_texts(texts)
        return self._encoded(given) if given else np.empty((0, self.size), dtype=np.float32)

    def _encoded(self, texts: list[str]) -> Floats:
        return np.asarray(self._model.encode(texts, normalize_embeddings=True, show_progress_bar=False), dtype=np.float32)
