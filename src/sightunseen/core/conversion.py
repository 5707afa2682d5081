"""Conversion of arrays of unknown content to tables of numbers, labels and indices; every loader uses it."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.limits import FEATURES, LABEL_LENGTH, MAGNITUDE
from sightunseen.core.memory import check_memory

ROWS = 1024  # rows that are checked at a time
LARGEST_LABEL = 10**300
EXACT = 2**53  # whole numbers up to here are exact in double precision


def as_matrix(values: Any, where: str) -> NDArray[Any]:
    """Convert values to a table of real numbers; missing ones are NaN.

    Parameters
    ----------
    values : array-like of shape (n, d)
        Integers or floating-point numbers, or objects that are such numbers.
    where : str
        What the values are, for error messages.

    Returns
    -------
    ndarray of shape (n, d)
        The same array if its dtype is an integer or floating-point type of at most 8 bytes, else double precision.

    Raises
    ------
    DataError
        If the values are not numbers, not two-dimensional, have no column, or a finite one is beyond the largest magnitude.

    Examples
    --------
    >>> as_matrix([[1, 2.5]], "class vectors")
    array([[1. , 2.5]])
    >>> as_matrix([[1, 1e300]], "class vectors")
    Traceback (most recent call last):
    ...
    sightunseen.core.errors.DataError: class vectors: 1e+300 in row 1, column 2 is beyond the largest magnitude, 1e+15. ...
    """
    try:
        array = np.asarray(values)
        if array.dtype == object and not any(isinstance(value, str) for value in array.flat):
            array = np.array(array.tolist(), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:  # lists of several lengths, or integers of 400 digits
        raise DataError(f"{where} must be a table of numbers: {quoted(error, 100)}.") from error
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise DataError(f"{where} must be a table of numbers; got {quoted(array.dtype)} of shape {array.shape}.")
    if not 1 <= array.shape[1] <= FEATURES:
        raise DataError(f"{where} must have 1 to {FEATURES:,} columns; got shape {array.shape}.")
    if array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # infinite ones are found later
            array = array.astype(np.float64)
    check_magnitude(array, where)
    return array


def check_magnitude(table: NDArray[Any], where: str, first_row: int = 0) -> None:
    """Check that all finite numbers of a table are small enough to compute with.

    Parameters
    ----------
    table : ndarray of shape (n, d)
        Numbers.
    where : str
        What the numbers are, for the error message.
    first_row : int, default=0
        Index of the first row, if the table is a part of a larger one.

    Raises
    ------
    DataError
        If a finite number is beyond the largest magnitude; the message names its row and column, which count from one.
    """
    if table.dtype.itemsize < 4 or not table.size:
        return
    for start in range(0, len(table), ROWS):
        block = table[start : start + ROWS]
        if block.max() <= MAGNITUDE and block.min() >= -MAGNITUDE:
            continue
        with np.errstate(invalid="ignore"):  # of signalling NaN
            numbers = block.astype(np.float64)
        found = np.argwhere(np.isfinite(numbers) & (np.abs(numbers) > MAGNITUDE))
        if len(found):
            row, column = found[0].tolist()
            raise DataError(
                f"{where}: {numbers[row, column]:g} in row {first_row + start + row + 1}, column {column + 1} is beyond the "
                f"largest magnitude, {MAGNITUDE:g}. Correct the value, or scale the column."
            )


def as_labels(values: Any, where: str, most: int = LABEL_LENGTH) -> NDArray[np.str_]:
    """Convert values to texts.

    Parameters
    ----------
    values : array-like of shape (n,)
        Texts, bytes in UTF-8, or finite numbers.
    where : str
        What the values are, for error messages.
    most : int, default=1000
        Largest number of characters of a text.

    Returns
    -------
    ndarray of str of shape (n,)
        The texts.

    Raises
    ------
    DataError
        If the values are not a list of texts or numbers, if one is missing, too long, or has characters that are not valid.

    Examples
    --------
    >>> as_labels(np.array([7, 8]), "labels").tolist()
    ['7', '8']
    """
    array = np.asarray(values) if isinstance(values, np.ndarray) else _objects(values)
    if array.ndim != 1 or array.dtype.kind not in "biufUSO":
        raise DataError(f"{where} must be a list of texts or numbers; got {quoted(array.dtype)} of shape {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(f"{where}: row {row + 1} is {array[row]}; expected a text or a finite number. Fill it in.")
    if array.dtype.kind in "SO":
        texts = [as_text(value, f"{where}: row {row}", most) for row, value in enumerate(array.tolist(), 1)]
        check_memory(4 * len(texts) * max(map(len, texts), default=0), where)
        array = np.array(texts, dtype=np.str_)
    elif array.dtype.kind != "U":
        return array.astype(np.str_)
    _check_characters(array, where, most)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_text(value: Any, where: str, most: int = LABEL_LENGTH) -> str:
    """Convert a value to a text.

    Parameters
    ----------
    value : object
        A text, bytes in UTF-8, or a finite number.
    where : str
        What the value is, for error messages.
    most : int, default=1000
        Largest number of characters.

    Returns
    -------
    str
        The text.

    Raises
    ------
    DataError
        If the value is of another type, too long, or has characters that are not valid.

    Examples
    --------
    >>> as_text(7, "label")
    '7'
    """
    try:
        text = value.decode() if isinstance(value, bytes) else value
        if isinstance(text, str):
            text.encode()
    except UnicodeError as error:
        raise DataError(f"{where} is not valid text in UTF-8. Write it again.") from error
    if not isinstance(text, str):
        # Python prints no integer of thousands of digits.
        if not isinstance(value, (int, float, Decimal)) or not -LARGEST_LABEL <= value <= LARGEST_LABEL:
            shown = "a number of more than 300 digits" if isinstance(value, int) else quoted(repr(value))
            raise DataError(f"{where} is {shown}; expected a text or a finite number. Fill it in.")
        return str(value)
    if len(text) > most:
        raise DataError(f"{where} has {len(text):,} characters; at most {most:,} are allowed. Shorten it.")
    if "\0" in text:  # numpy drops it at the end of a text
        raise DataError(f"{where} has a NUL character. Remove it.")
    return text


def as_indices(values: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Convert values to whole numbers.

    Parameters
    ----------
    values : ndarray
        Integers, or floating-point numbers without a fraction, of any shape.
    where : str
        What the values are, for error messages.

    Returns
    -------
    ndarray of int of shape (n,)
        The whole numbers.

    Raises
    ------
    DataError
        If a value is not a whole number.
    """
    array = np.ravel(values)
    if array.dtype.kind not in "iuf":
        raise DataError(f"{where} must be whole numbers; got {quoted(array.dtype)}.")
    if array.dtype == np.float16:
        array = array.astype(np.float64)
    wrong = ~((array >= -EXACT) & (array <= EXACT) & (array == np.round(array)))
    if wrong.any():
        raise DataError(f"{where} must be whole numbers; found {array[wrong][0]}.")
    return array.astype(np.int64)


def _objects(values: Any) -> NDArray[Any]:
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _check_characters(array: NDArray[np.str_], where: str, most: int) -> None:
    """Raise ``DataError`` unless all texts are of allowed length and of valid characters."""
    width = array.dtype.itemsize // 4
    if not width and len(array):
        raise DataError(f"{where}: all texts are empty. Fill them in.")
    if not array.size:
        return
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    codes = native.view(np.uint32).reshape(len(array), width)
    if width > most and codes[:, most:].any():
        row = int(np.flatnonzero(codes[:, most:].any(axis=1))[0])
        raise DataError(f"{where}: row {row + 1} has more than {most:,} characters, the limit. Shorten it.")
    inside = (codes[:, :-1] == 0) & (codes[:, 1:] != 0)  # NUL before another character
    wrong = inside.any(axis=1) | ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"{where}: row {row + 1} has a NUL or a character that is not valid Unicode. Write the text again.")
