"""From what is said of classes (names, attributes, descriptions) to the vectors of a class table."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.core.names import readable
from sightunseen.semantics.class_vectors import AttributeScaling
from sightunseen.semantics.text import MINILM, Encoder, open_encoder

ENCODED = ("text", "names", "both")  # kinds of vectors that an encoder takes part in; its name stands after the kind's
KINDS = ("attributes", *ENCODED)


@dataclass(frozen=True)
class ClassDescriptions:
    """What is said of c classes: (c, a) attributes with NaN for a missing one, descriptions with None for a missing one."""

    labels: tuple[str, ...]
    attribute_names: tuple[str, ...] | None = None
    values: Vectors | None = field(default=None, repr=False)
    descriptions: tuple[str | None, ...] | None = field(default=None, repr=False)

    def only(self, labels: Sequence[str]) -> "ClassDescriptions":
        """What is said of these classes alone; an unknown one is an error."""
        missing = [label for label in labels if label not in self.labels]
        if missing:
            raise DataError(f"nothing is said of '{missing[0]}', only of {', '.join(self.labels[:8])}.")
        rows = [self.labels.index(label) for label in labels]
        return ClassDescriptions(
            tuple(labels),
            self.attribute_names,
            None if self.values is None else self.values[rows],
            None if self.descriptions is None else tuple(self.descriptions[row] for row in rows),
        )


def describe_classes(raw: ClassDescriptions, semantics: str = "auto", encoder: Encoder | str | None = None) -> ClassTable:
    """The class table of what is said of classes.

    Parameters
    ----------
    raw : names, and attributes or descriptions where there are any.
    semantics : the vectors in use. ``attributes``: the numbers, a missing one filled with the mean over the classes that
        have it. ``text``: the descriptions, encoded. ``names``: the names, encoded. ``both``: attributes and encoded
        descriptions side by side. ``auto``: attributes if there are any, else descriptions, else names.
    encoder : an encoder or its name; all-MiniLM-L6-v2 unless told otherwise, here or as in ``text:NAME``.

    The table holds all kinds that can be made; those of an encoder are called after it, as in ``text:all-MiniLM-L6-v2``.
    With ``attributes``, and where nothing is described, no encoder is needed.
    """
    wanted, _, named = semantics.partition(":")
    if wanted not in ("auto", *KINDS):
        raise SettingsError(f"semantics must be auto, {', '.join(KINDS)} or such as text:{MINILM}; got '{semantics}'.")
    kind = _automatic(raw) if wanted == "auto" else wanted
    _check_possible(raw, kind)
    vectors = {} if raw.values is None else {"attributes": _attributes_of(raw)}
    names = {} if raw.attribute_names is None else {"attributes": list(raw.attribute_names)}
    if kind == "attributes" and (wanted != "auto" or raw.descriptions is None):
        return ClassTable(raw.labels, vectors, names)
    try:
        encode = _opened(encoder or named or MINILM)
    except MissingDependencyError as error:
        if kind != "attributes":
            raise
        warnings.warn(f"the classes' descriptions are left out: {error}", stacklevel=2)
        return ClassTable(raw.labels, vectors, names)
    for made, array in _encoded(raw, vectors.get("attributes"), encode).items():
        vectors[f"{made}:{encode.name}"] = array
        if made == "both" and raw.attribute_names is not None:
            texts = [f"text {k}" for k in range(1, encode.size + 1)]
            names[f"{made}:{encode.name}"] = [*raw.attribute_names, *texts]
    return ClassTable(raw.labels, vectors, names, use=kind if kind == "attributes" else f"{kind}:{encode.name}")


def texts_of(raw: ClassDescriptions) -> list[str]:
    """The descriptions; a class without one is described by its name, and that is said."""
    given = raw.descriptions or (None,) * len(raw.labels)
    without = [label for label, text in zip(raw.labels, given, strict=True) if text is None]
    if without:
        warnings.warn(
            f"classes without a description, described by their names: {len(without)} (first: '{without[0]}').", stacklevel=3
        )
    return [readable(label) if text is None else text for label, text in zip(raw.labels, given, strict=True)]


def filled(values: Vectors, means: Vectors, what: str, where: str) -> Vectors:
    """The values (c, a), a missing one filled with its attribute's mean (a,), and that is said.

    A class of which no attribute is known stays without: means would make it look like a class that is known.
    """
    missing = np.isnan(values)
    missing &= ~missing.all(axis=1, keepdims=True)
    if missing.any():
        warnings.warn(f"{what}: {missing.sum()} of {missing.size}; each is filled with the mean {where}.", stacklevel=4)
    return np.where(missing, means, values)


def _automatic(raw: ClassDescriptions) -> str:
    return "attributes" if raw.values is not None else "text" if raw.descriptions is not None else "names"


def _check_possible(raw: ClassDescriptions, kind: str) -> None:
    if kind in ("attributes", "both") and raw.values is None:
        raise DataError(f"semantics '{kind}' need attributes, and the table of classes has no column of numbers.")
    if kind in ("text", "both") and raw.descriptions is None:
        raise DataError(
            f"semantics '{kind}' need descriptions, and the table of classes has none. Add a column 'description', or "
            "use 'names'."
        )


def _encoded(raw: ClassDescriptions, attributes: Vectors | None, encode: Encoder) -> dict[str, Vectors]:
    """The vectors of every kind that the encoder takes part in."""
    kinds: dict[str, Vectors] = {}
    if raw.descriptions is not None:
        kinds["text"] = np.asarray(encode(texts_of(raw)), dtype=np.float64)
        if attributes is not None:
            # Text is scaled to the attributes, not they to it: so they stay as they are, and the scale can be read off the
            # table, whose texts all have this length. In different units they count as the methods will meet them.
            scaling = AttributeScaling() if raw.attribute_names is None else AttributeScaling.of_attributes(attributes)
            scale = float(np.sqrt(np.nanmean(np.square(scaling(attributes)).sum(axis=1)))) or 1.0
            kinds["both"] = np.hstack([attributes, kinds["text"] * scale])
    kinds["names"] = np.asarray(encode([readable(label) for label in raw.labels]), dtype=np.float64)
    return kinds


def _attributes_of(raw: ClassDescriptions) -> Vectors:
    """The attributes (c, a), a missing one filled with the mean over the classes that have it."""
    assert raw.values is not None
    missing = np.isnan(raw.values)
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        name = raw.attribute_names[empty[0]] if raw.attribute_names else f"number {empty[0] + 1}"
        raise DataError(f"no class has a value for the attribute '{name}'. Fill it in or remove its column.")
    return filled(raw.values, np.nanmean(raw.values, axis=0), "missing attribute values", "over the classes that have it")


def _opened(encoder: Encoder | str) -> Encoder:
    return open_encoder(encoder) if isinstance(encoder, str) else encoder
