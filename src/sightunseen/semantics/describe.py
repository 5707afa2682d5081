"""Class tables from the names, attributes and descriptions of classes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.core.names import readable
from sightunseen.semantics.class_vectors import AttributeScaling, missing_values
from sightunseen.semantics.text import MINILM, Encoder, encode_names, open_encoder

ENCODED = ("text", "names", "both")  # kinds of vectors that use a text encoder, called KIND:ENCODER in a table
KINDS = ("attributes", *ENCODED)


@dataclass(frozen=True)
class ClassDescriptions:
    """Names, attributes and descriptions of c classes.

    Parameters
    ----------
    labels : tuple of str
        The c classes.
    attribute_names : tuple of str, optional
        Names of the a attributes.
    values : ndarray of shape (c, a), optional
        Attributes, with NaN for missing values.
    descriptions : tuple of str or None, optional
        Descriptions, with None for a class without one.
    """

    labels: tuple[str, ...]
    attribute_names: tuple[str, ...] | None = None
    values: Vectors | None = field(default=None, repr=False)
    descriptions: tuple[str | None, ...] | None = field(default=None, repr=False)

    def only(self, labels: Sequence[str]) -> "ClassDescriptions":
        """Select classes.

        Parameters
        ----------
        labels : sequence of str
            Classes to keep, in this order.

        Returns
        -------
        ClassDescriptions
            The selected classes.

        Raises
        ------
        DataError
            If a class is unknown.
        """
        row = {label: k for k, label in reversed(list(enumerate(self.labels)))}  # the first of equal labels
        missing = [label for label in labels if label not in row]
        if missing:
            raise DataError(f"nothing is said of '{missing[0]}', only of {', '.join(self.labels[:8])}.")
        rows = [row[label] for label in labels]
        return ClassDescriptions(
            tuple(labels),
            self.attribute_names,
            None if self.values is None else self.values[rows],
            None if self.descriptions is None else tuple(self.descriptions[row] for row in rows),
        )


def describe_classes(raw: ClassDescriptions, semantics: str = "auto", encoder: Encoder | str | None = None) -> ClassTable:
    """Build a class table from names, attributes and descriptions.

    The table holds every kind of vectors that can be made. Those of a text encoder are named after it, as in
    ``text:all-MiniLM-L6-v2``. Without a given encoder, none is opened for ``attributes``, nor for ``auto`` if there are
    attributes and no descriptions. A dual encoder such as CLIP encodes names within prompt templates.

    Parameters
    ----------
    raw : ClassDescriptions
        Names of the classes, with attributes or descriptions if there are any.
    semantics : str, default="auto"
        Class vectors to use:

        - ``attributes``: the attributes; a missing value is replaced by the mean of the classes that have it;
        - ``text``: the encoded descriptions;
        - ``names``: the encoded names;
        - ``both``: attributes and encoded descriptions, concatenated;
        - ``auto``: attributes if there are any, else descriptions, else names.

        An encoder may be appended, as in ``text:NAME``.
    encoder : Encoder or str, optional
        Text encoder or its name. The default is the one in ``semantics``, else all-MiniLM-L6-v2.

    Returns
    -------
    ClassTable
        The class table.

    Raises
    ------
    DataError
        If ``semantics`` needs attributes or descriptions that are missing, or an attribute has no value at all.
    SettingsError
        If ``semantics`` or the encoder is unknown.
    MissingDependencyError
        If the encoder's package is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> raw = ClassDescriptions(("owl", "horse"), ("legs", "wings"), np.array([[2.0, 2.0], [4.0, 0.0]]))
    >>> describe_classes(raw).vectors_of(["horse"])
    array([[4., 0.]])
    """
    wanted, _, named = semantics.partition(":")
    if wanted not in ("auto", *KINDS):
        raise SettingsError(
            f"semantics must be auto, {', '.join(KINDS)} or KIND:ENCODER, such as text:{MINILM}; got '{semantics}'."
        )
    automatic = "attributes" if raw.values is not None else "text" if raw.descriptions is not None else "names"
    kind = automatic if wanted == "auto" else wanted
    _check_possible(raw, kind)
    vectors = {} if raw.values is None else {"attributes": _attributes_of(raw)}
    names = {} if raw.attribute_names is None else {"attributes": list(raw.attribute_names)}
    if kind == "attributes" and not (encoder or named) and (wanted != "auto" or raw.descriptions is None):
        return ClassTable(raw.labels, vectors, names)
    try:
        encode = open_encoder(encoder or named or MINILM) if isinstance(encoder, str | None) else encoder
    except MissingDependencyError as error:
        if kind != "attributes":
            raise
        warnings.warn(f"the descriptions are left out: {error}", stacklevel=2)
        return ClassTable(raw.labels, vectors, names)
    for made, array in _encoded(raw, vectors.get("attributes"), encode).items():
        vectors[f"{made}:{encode.name}"] = array
        if made == "both" and raw.attribute_names is not None:
            texts = [f"text {k}" for k in range(1, encode.size + 1)]
            names[f"{made}:{encode.name}"] = [*raw.attribute_names, *texts]
    use = kind if kind == "attributes" else f"{kind}:{encode.name}"
    return ClassTable(raw.labels, vectors, names, use, texts=stored_texts(raw))


def texts_of(raw: ClassDescriptions) -> list[str]:
    """Return the descriptions; warns about classes without one, which are described by their names.

    Parameters
    ----------
    raw : ClassDescriptions
        The c classes.

    Returns
    -------
    list of str
        One text per class.
    """
    given = raw.descriptions or (None,) * len(raw.labels)
    without = [label for label, text in zip(raw.labels, given, strict=True) if text is None]
    if without:
        warnings.warn(
            f"classes without a description, described by their names: {len(without)} (first: '{without[0]}').", stacklevel=3
        )
    return [readable(label) if text is None else text for label, text in zip(raw.labels, given, strict=True)]


def stored_texts(raw: ClassDescriptions) -> dict[str, str]:
    """Return the descriptions by label, without classes that have none.

    Parameters
    ----------
    raw : ClassDescriptions
        The classes.

    Returns
    -------
    dict of str to str
        The descriptions.
    """
    return {label: text for label, text in zip(raw.labels, raw.descriptions or (), strict=False) if text is not None}


def filled(values: Vectors, means: Vectors, what: str, where: str) -> Vectors:
    """Replace missing values by means, with a warning; a class without any value keeps its NaN.

    Parameters
    ----------
    values : ndarray of shape (c, a)
        Attributes, with NaN for missing values.
    means : ndarray of shape (a,)
        Replacement for each attribute.
    what, where : str
        Words of the warning: what is missing, and which classes the means are taken over.

    Returns
    -------
    ndarray of shape (c, a)
        The attributes.
    """
    missing = np.isnan(values)
    missing &= ~missing.all(axis=1, keepdims=True)
    if missing.any():
        warnings.warn(f"{what}: {missing.sum()} of {missing.size}; each is filled with the mean {where}.", stacklevel=4)
    return np.where(missing, means, values)


def _check_possible(raw: ClassDescriptions, kind: str) -> None:
    if kind in ("attributes", "both") and raw.values is None:
        raise DataError(
            f"semantics '{kind}' need attributes, but the table of classes has no numeric column. Add one per attribute."
        )
    if kind in ("text", "both") and raw.descriptions is None:
        raise DataError(
            f"semantics '{kind}' need descriptions, but the table of classes has none. Add a column 'description', or "
            "use 'names'."
        )


def _encoded(raw: ClassDescriptions, attributes: Vectors | None, encode: Encoder) -> dict[str, Vectors]:
    """Vectors of every kind that uses the encoder."""
    kinds: dict[str, Vectors] = {}
    if raw.descriptions is not None:
        kinds["text"] = np.asarray(encode(texts_of(raw)), dtype=np.float64)
        if attributes is not None:
            # Text is scaled to the root mean square length of the attributes. Attributes stay unchanged, and the scale can
            # be recovered from the table as the length of any text vector. Attributes in different units are measured
            # after the scaling that methods apply to them.
            scaling = AttributeScaling() if raw.attribute_names is None else AttributeScaling.of_attributes(attributes)
            scale = float(np.sqrt(np.nanmean(np.square(scaling(scaling.imputed(attributes))).sum(axis=1)))) or 1.0
            kinds["both"] = np.hstack([attributes, kinds["text"] * scale])
    kinds["names"] = np.asarray(encode_names(encode, [readable(label) for label in raw.labels]), dtype=np.float64)
    return kinds


def _attributes_of(raw: ClassDescriptions) -> Vectors:
    """The attributes (c, a), with missing values replaced by the mean of the classes that have them."""
    assert raw.values is not None
    missing = np.isnan(raw.values)
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        name = raw.attribute_names[empty[0]] if raw.attribute_names else f"number {empty[0] + 1}"
        raise DataError(f"no class has a value for the attribute '{name}'. Fill it in or remove its column.")
    known = np.where(missing_values(raw.values), np.nan, raw.values)
    known[:, np.isnan(known).all(axis=0)] = 0
    return filled(raw.values, np.nanmean(known, axis=0), "missing attribute values", "over the classes that have it")
