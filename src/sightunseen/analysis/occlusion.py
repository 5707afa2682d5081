"""Occlusion of descriptions: class vectors of a text with one of its words or sentences left out."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import MissingDependencyError, SettingsError
from sightunseen.core.names import readable
from sightunseen.semantics.describe import ENCODED
from sightunseen.semantics.text import Encoder, open_recorded_encoder

MOST_UNITS = 24  # units of a description; one text is encoded for each
LONGEST = 4_000  # characters of a description that are read; text encoders read fewer
CACHED_TEXTS = 512  # descriptions whose variants are kept
SAME = 0.999  # smallest cosine of a class vector and its encoded description
SPLITS = (r"\s+", r"(?<=[,;:.!?])\s+|\n+", r"(?<=[.!?])\s+|\n+")  # between words, clauses, sentences
EDGES = " \t\r\n.,;:!?\"'()[]{}<>“”«»-\u2018\u2019"
# Words that name nothing a photo can show. They are never left out on their own.
FUNCTION_WORDS = frozenset(
    """a an the and or but nor of in on at to into with without by for from as than that this these those it its it's is are was
    were be been being has have had having do does did can could may might will would shall should there their they them he she
    his her him who which whose what when where while also very more most less such so if not no like about between over under
    up down out often usually typically mostly one some any all both each other another you your we our i""".split()  # noqa: SIM905
)


@dataclass(frozen=True, eq=False)
class Occluded:
    """Class vectors of a description with one unit left out at a time.

    Parameters
    ----------
    units : tuple of str
        The u words, clauses or sentences.
    vectors : ndarray of shape (u, a)
        The class vector without each of them.
    """

    units: tuple[str, ...] = ()
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0)), repr=False)


NOTHING = Occluded()


class DescriptionOcclusion:
    """Occlusion of the descriptions of a model's classes; the results are cached.

    A description is cut into words, or into clauses or sentences if it has more than ``MOST_UNITS`` words. Each unit is left
    out in turn, everywhere in the text, and the rest is encoded again by the text encoder of the model. Function words are
    never left out on their own.

    Parameters
    ----------
    table : ClassTable
        Class table of the model; its descriptions are in ``table.texts``.

    Examples
    --------
    >>> DescriptionOcclusion(ClassTable(["owl", "emu"], [[1.0, 0.2], [0.0, 0.4]])).silence
    'the class vectors are not made of text'
    """

    def __init__(self, table: ClassTable) -> None:
        self._kind, _, self._name = table.use.partition(":")
        self._size = table.vectors.shape[1]
        self._known = bool(table.texts) or self._kind == "names"
        self._opened: Encoder | None = None
        self._failure: str | None = None
        self.encoded = 0
        self._occluded = lru_cache(CACHED_TEXTS)(self._encode)

    @property
    def silence(self) -> str | None:
        """Why no description can be occluded; None if descriptions can. Opens the text encoder."""
        if self._kind not in ENCODED:
            return "the class vectors are not made of text"
        if not self._known:
            return "the descriptions are not stored with this model. Train it again to store them"
        if self._opened is None and self._failure is None:
            try:
                self._opened = open_recorded_encoder(self._name)
            except (SettingsError, MissingDependencyError) as error:
                self._failure = str(error).rstrip(".")
            else:
                if self._opened.size > self._size:
                    self._failure = f"the text encoder makes {self._opened.size} numbers per class; the model has {self._size}"
        return self._failure

    def __call__(self, table: ClassTable, label: Any) -> Occluded:
        """Occlude the description of a class.

        Parameters
        ----------
        table : ClassTable
            Table with the class: that of the model, or the same with further classes.
        label : label
            The class.

        Returns
        -------
        Occluded
            Units and class vectors; none if the class vector is not the encoding of a known text.
        """
        if self.silence is not None:
            return NOTHING
        return self._occluded(table.vectors_of([label])[0].tobytes(), table.texts.get(label, ""), readable(label))

    def _encode(self, vector: bytes, *texts: str) -> Occluded:
        """Occlude the first of the texts whose encoding is the class vector."""
        assert self._opened is not None
        whole = np.frombuffer(vector)
        split = self._size - self._opened.size  # index of the first text dimension
        own = whole[split:]
        length = float(np.linalg.norm(own)) or 1.0
        for text in dict.fromkeys(map(_beginning, texts)):
            units, rests = occlusions(text)
            if not units:
                continue
            self.encoded += 1 + len(rests)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a long text is truncated, which training has said
                encoded = np.asarray(self._opened([text, *rests]), dtype=np.float64)
            if encoded[0] @ own / length > SAME:
                return Occluded(units, np.hstack([np.tile(whole[:split], (len(units), 1)), length * encoded[1:]]))
        return NOTHING


def occlusions(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Cut a text into units and leave each of them out.

    Parameters
    ----------
    text : str
        A description.

    Returns
    -------
    units : tuple of str
        Words; clauses, if there are more than ``MOST_UNITS`` words; sentences, if there are more clauses than that.
    rests : tuple of str
        The text without each unit. Both are empty if the text has fewer than two units.

    Examples
    --------
    >>> occlusions("An animal with striped legs, like a zebra.")
    (('animal', 'striped', 'legs', 'zebra'), ('An with striped legs, like a zebra.', 'An animal with legs, like a zebra.', \
'An animal with striped like a zebra.', 'An animal with striped legs, like a'))
    """
    for pattern in SPLITS:
        pieces = [piece for piece in re.split(pattern, text.strip()) if piece]
        keys = [piece.strip(EDGES).casefold() for piece in pieces]
        wanted = [key for key in dict.fromkeys(keys) if key and key not in FUNCTION_WORDS]
        if len(wanted) <= MOST_UNITS:
            break
    wanted = wanted[:MOST_UNITS]
    rests = tuple(" ".join(_without(pieces, keys, key)) for key in wanted)
    if len(wanted) < 2 or not all(rests):
        return (), ()
    shown = {key: piece.strip(EDGES) for key, piece in reversed(list(zip(keys, pieces, strict=True)))}
    return tuple(shown[key] for key in wanted), rests


def _without(pieces: Sequence[str], keys: Sequence[str], left_out: str) -> list[str]:
    return [piece for piece, key in zip(pieces, keys, strict=True) if key != left_out]


def _beginning(text: str) -> str:
    """The first words of a text, at most ``LONGEST`` characters."""
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0]
