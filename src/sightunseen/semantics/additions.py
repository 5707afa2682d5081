"""Vectors of new classes, from a description or attribute values, in the space of an existing class table."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from sightunseen.core.class_table import ClassTable, Vectors
from sightunseen.core.conversion import as_matrix
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.names import readable
from sightunseen.semantics.describe import ENCODED, ClassDescriptions, filled, stored_texts, texts_of
from sightunseen.semantics.text import MINILM, Encoder, encode_names, open_recorded_encoder

SAME = 0.999  # least cosine of two vectors of one text by the same weights, on different machines


def describe_like(table: ClassTable, new: ClassDescriptions, encoder: Encoder | None = None) -> ClassTable:
    """Build a class table of new classes with the kind of vectors that an existing table uses.

    Missing attributes are replaced by the means of the existing table, with a warning.

    Parameters
    ----------
    table : ClassTable
        The existing table.
    new : ClassDescriptions
        Names of the new classes with attributes or descriptions, whichever the table uses.
    encoder : Encoder, optional
        Text encoder of the table. The default is to open it by name.

    Returns
    -------
    ClassTable
        The new classes.

    Raises
    ------
    DataError
        If attributes or descriptions are missing, unknown or of another number.

    Examples
    --------
    >>> import numpy as np
    >>> from sightunseen import ClassTable
    >>> table = ClassTable(["owl", "horse"], [[2, 2], [4, 0]], attribute_names=["legs", "wings"])
    >>> new = ClassDescriptions(("bee",), ("wings", "legs"), np.array([[4.0, 6.0]]))
    >>> describe_like(table, new).vectors
    array([[6., 4.]])
    """
    kind, _, named = table.use.partition(":")
    if kind == "one-hot":
        raise DataError(
            "class vectors are one-hot (no class table was given), so new classes cannot be described. Train with a table."
        )
    if kind not in ENCODED:
        if new.descriptions is not None and new.values is not None:
            warnings.warn(f"descriptions are not used: the classes are known by '{table.use}'.", stacklevel=2)
        return ClassTable(new.labels, {table.use: _completed(table, new, table.vectors.shape[1])}, table.attribute_names)
    if kind != "both" and new.values is not None:
        if new.descriptions is None:
            raise DataError(f"the classes are known by '{table.use}': give a description, not attributes.")
        warnings.warn(f"attributes are not used: the classes are known by '{table.use}'.", stacklevel=2)
    encode = encoder or open_recorded_encoder(named)
    split = table.vectors.shape[1] - encode.size  # index of the first text dimension
    by_name = kind == "names" and new.descriptions is None
    found = encode_names(encode, [readable(label) for label in new.labels]) if by_name else encode(texts_of(new))
    texts = np.asarray(found, dtype=np.float64)
    if split < 0 or (kind != "both" and split > 0):
        raise DataError(f"'{table.use}' has {table.vectors.shape[1]} numbers per class, {encode.name} makes {encode.size}.")
    _check_encoder(table, encode, split)
    if kind == "both":
        texts = np.hstack([_completed(table, new, split), texts * np.linalg.norm(table.vectors[0, split:])])
    return ClassTable(new.labels, {table.use: texts}, table.attribute_names, texts=stored_texts(new))


def vector_for(model_or_table: Any, description: str | None = None, attributes: Mapping[str, float] | None = None) -> Vectors:
    """Compute the vector of one new class.

    Parameters
    ----------
    model_or_table : fitted method or ClassTable
        Defines the kind of vectors.
    description : str, optional
        Description of the class.
    attributes : dict of str to float, optional
        Attribute values by name.

    Returns
    -------
    ndarray of shape (a,)
        The class vector.

    Raises
    ------
    DataError
        If the description or the attributes that the table uses are missing or unknown.
    """
    table: ClassTable = getattr(model_or_table, "table_", model_or_table)
    if not (description or "").strip() and table.use.partition(":")[0] in ENCODED:
        raise DataError(f"the classes are known by '{table.use}': give a description.")
    new = ClassDescriptions(
        ("the new class",),
        tuple(attributes) if attributes else None,
        as_matrix([list(attributes.values())], "the attributes of the new class") if attributes else None,
        None if description is None else (description,),
    )
    return np.asarray(describe_like(table, new).vectors[0])


def _check_encoder(table: ClassTable, encode: Encoder, split: int) -> None:
    """Check that the encoder gives back a text vector of the table: a repository may have changed since."""
    kind = table.use.partition(":")[0]
    known = next((label for label in table.labels.tolist() if label in table.texts), None)
    if known is None or kind == "names" or encode.name == MINILM:  # the weights of MiniLM are compared when they are loaded
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a truncated text was reported when the table was made
        found = np.asarray(encode([table.texts[known]]), dtype=np.float64)[0]
    stored = table.vectors_of([known])[0, split:]
    if found @ stored < SAME * np.linalg.norm(found) * np.linalg.norm(stored):
        raise DataError(
            f"the text encoder '{encode.name}' gives another vector for the class '{quoted(known)}' than when the model was "
            "trained: its weights have changed. Open the revision that was used (NAME@REVISION), or train again."
        )


def _completed(table: ClassTable, new: ClassDescriptions, size: int) -> Vectors:
    """Attributes of new classes in the table's order, (c, size); missing ones are replaced by the table's means."""
    own = None if table.attribute_names is None else table.attribute_names[:size]
    if new.values is None:
        known = f", such as {', '.join(own[:3])}" if own else ""
        raise DataError(f"the classes are known by '{table.use}': give attributes{known}. A description alone is not enough.")
    if new.attribute_names is None or own is None:
        if (own is None and new.attribute_names is not None) or new.values.shape[1] != size:
            found = f"{new.values.shape[1]} {'without' if new.attribute_names is None else 'with'} names"
            wanted = "in order, without names: {label: [numbers]}" if own is None else "by name: {label: {attribute: number}}"
            raise DataError(f"a new class needs {size} attributes {wanted}, as in the table of the model; got {found}.")
        given = new.values
    else:
        unknown = sorted(set(new.attribute_names) - set(own))
        if unknown:
            raise DataError(f"there is no attribute '{unknown[0]}'; there are {', '.join(own[:8])}{', ...' * (size > 8)}.")
        given = np.full((len(new.labels), size), np.nan)
        column = {name: k for k, name in enumerate(own)}
        given[:, [column[name] for name in new.attribute_names]] = new.values
    means = table.vectors[:, :size].mean(axis=0)
    return filled(given, means, "attribute values not given", "over the existing classes")
