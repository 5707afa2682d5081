"""Text side of dual encoders, such as CLIP and SigLIP: its vectors are in the space of the photos' features."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.checkpoints import INSTALL, Checkpoint, loaded, open_checkpoint
from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.extras import needed
from sightunseen.semantics.text import checked_texts

BATCH = 32  # texts per forward pass
# Generic descriptions of photos. The vectors of a name in all of them are averaged (Radford et al., 2021, Section 3.1.4).
TEMPLATES = (
    "a photo of a {}.",
    "a photo of the {}.",
    "a good photo of a {}.",
    "a close-up photo of a {}.",
    "a cropped photo of a {}.",
    "a bright photo of a {}.",
    "a dark photo of a {}.",
    "a photo of a small {}.",
    "a photo of a large {}.",
    "a photo of some {}.",
)


class DualTextEncoder:
    """Text side of a dual encoder of transformers.

    Parameters
    ----------
    name : str
        ``hf:FOLDER``, ``hf:REPOSITORY`` or ``hf:REPOSITORY@REVISION``.

    Attributes
    ----------
    fingerprint : str
        SHA-256 of the parameters of both sides.
    size : int
        Number of dimensions of a vector, which is the number of features of a photo.
    longest : int
        Number of tokens at which texts are truncated.

    Raises
    ------
    SettingsError
        If the checkpoint cannot be loaded or is not a dual encoder.
    MissingDependencyError
        If transformers or torch is not installed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.checkpoint: Checkpoint = open_checkpoint(name)
        network, origin = self.checkpoint.network, self.checkpoint.origin
        if not self.checkpoint.is_dual:
            raise SettingsError(
                f"'{quoted(name)}' ({type(network).__name__}) is not a dual encoder of images and texts, such as CLIP. Choose "
                "st:NAME_OR_FOLDER for a model of sentences."
            )
        load = needed("transformers", INSTALL).AutoTokenizer.from_pretrained
        self._tokenizer: Any = loaded(name, lambda: load(origin.place, **origin.options))
        text = getattr(network.config, "text_config", network.config)
        self.longest = min(int(getattr(text, "max_position_embeddings", 512)), int(self._tokenizer.model_max_length))
        # SigLIP was trained on texts padded to full length, without a mask, and pools the last position.
        full = "siglip" in network.config.model_type
        self._padding, self._inputs = ("max_length", ["input_ids"]) if full else ("longest", ["input_ids", "attention_mask"])
        self.fingerprint = self.checkpoint.digest
        self.size = int(self._encoded(["a text"]).shape[1])

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Encode texts as they are; those with too many tokens are truncated, with a warning.

        Parameters
        ----------
        texts : sequence of str
            The n texts.

        Returns
        -------
        ndarray of shape (n, size)
            Vectors of unit length.

        Raises
        ------
        DataError
            If ``texts`` is not a list of strings.
        """
        given = checked_texts(texts)
        if not given:
            return np.empty((0, self.size), dtype=np.float32)
        lengths = [len(ids) for ids in self._tokenizer(given)["input_ids"]]
        cut = sum(length > self.longest for length in lengths)
        if cut:
            warnings.warn(
                f"texts longer than the limit of {self.longest} tokens of {self.name}: {cut} of {len(given)}; "
                "they are truncated.",
                stacklevel=2,
            )
        order = np.argsort(lengths, kind="stable")  # texts of similar length share a batch, which is padded to the longest
        vectors = np.empty((len(given), self.size), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            vectors[rows] = self._encoded([given[row] for row in rows])
        return vectors

    def encode_names(self, names: Sequence[str], templates: Sequence[str] = TEMPLATES) -> Floats:
        """Encode names of classes by prompt ensembling: the mean of the vectors of each name in all templates.

        Parameters
        ----------
        names : sequence of str
            Names of the n classes.
        templates : sequence of str, default=TEMPLATES
            Sentences with ``{}`` in place of the name.

        Returns
        -------
        ndarray of shape (n, size)
            Vectors of unit length.
        """
        names = checked_texts(names)
        prompts = [template.replace("{}", name) for name in names for template in templates]
        means = self(prompts).reshape(len(names), -1, self.size).mean(axis=1)
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), dtype=np.float32)

    def _encoded(self, texts: list[str]) -> Floats:
        network = self.checkpoint.network
        how = {"padding": self._padding, "truncation": True, "max_length": self.longest}
        inputs = self._tokenizer(texts, return_tensors="pt", **how).to(network.device)
        found = network.get_text_features(**{key: inputs[key] for key in self._inputs if key in inputs})
        vectors = getattr(found, "pooler_output", found).float().cpu().numpy()  # a tensor in earlier versions
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
