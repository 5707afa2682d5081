"""Text encoders with vectors of unit length, opened by name."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from sightunseen.core.arrays import Floats
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.plugins import TEXT_ENCODERS, is_path, load_object, plugins
from sightunseen.core.trust import check_recorded_name

MINILM = "all-MiniLM-L6-v2"
SENTENCES = ("st:", "sentence-transformers:")
DUAL = "hf:"
NAMES = (
    f"{MINILM}, st:NAME_OR_FOLDER (sentence-transformers), hf:NAME_OR_FOLDER (CLIP, SigLIP) and plug-ins "
    "(package.module:factory)"
)


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
        ``all-MiniLM-L6-v2``; ``st:FOLDER`` or ``st:REPOSITORY``, a model of sentence-transformers
        (``sentence-transformers:`` is the same); ``hf:FOLDER`` or ``hf:REPOSITORY``, the text side of a dual encoder such as
        CLIP or SigLIP; or a plug-in: the name of an entry point of ``sightunseen.text_encoders``, or
        ``package.module:factory``, where ``factory()`` returns an :class:`Encoder`.

    Returns
    -------
    Encoder
        The encoder.

    Raises
    ------
    SettingsError
        If the name is unknown, or the encoder cannot be opened.
    MissingDependencyError
        If the encoder's package is not installed.
    ModelError
        If the installed weights are not those that this version was tested with.
    """
    if name == MINILM:
        from sightunseen.semantics.minilm import MiniLM

        return MiniLM.installed()
    if name.startswith(SENTENCES) and name not in SENTENCES:
        from sightunseen.semantics.sentence_encoders import SentenceTransformers

        return SentenceTransformers(name)
    if name.startswith(DUAL) and name != DUAL:
        from sightunseen.semantics.dual_encoders import DualTextEncoder

        return DualTextEncoder(name)
    if name in plugins(TEXT_ENCODERS) or is_path(name):
        return _of_plugin(name)
    raise SettingsError(f"there is no encoder '{quoted(name)}'; there are {NAMES}.")


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


def encode_names(encoder: Encoder, names: Sequence[str]) -> Floats:
    """Encode names of classes: within the prompt templates of a dual encoder, as they are by other encoders.

    Parameters
    ----------
    encoder : Encoder
        The encoder. If it has a method ``encode_names``, that is called.
    names : sequence of str
        Readable names of the n classes.

    Returns
    -------
    ndarray of shape (n, size)
        Vectors of unit length.
    """
    prompted = getattr(encoder, "encode_names", encoder)
    vectors: Floats = prompted(names)
    return vectors


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Check that texts are a list of strings.

    Parameters
    ----------
    texts : sequence of str
        The texts.

    Returns
    -------
    list of str
        The same texts.

    Raises
    ------
    DataError
        If they are a single text, or one of them is not a text.
    """
    invalid = [text for text in texts if not isinstance(text, str)]
    if isinstance(texts, str) or invalid:
        raise DataError(f"an encoder needs a list of texts; got {quoted(texts if isinstance(texts, str) else invalid[0])}.")
    return list(texts)


def _of_plugin(name: str) -> Encoder:
    """Call the factory of a plug-in; the name that the user gave is recorded, since it opens the encoder again."""
    made: Encoder = load_object(name, TEXT_ENCODERS)()
    lacking = [one for one in ("name", "fingerprint", "size") if not hasattr(made, one)]
    if lacking or not callable(made):
        raise SettingsError(
            f"'{quoted(name)}' made {quoted(made)}; a factory of text encoders returns a callable with name, fingerprint and "
            "size (sightunseen.semantics.text.Encoder)."
        )
    if made.name != name:
        try:
            made.name = name  # type: ignore[misc]
        except AttributeError as error:
            raise SettingsError(f"the text encoder '{quoted(name)}' calls itself '{quoted(made.name)}'. Rename it.") from error
    return made
