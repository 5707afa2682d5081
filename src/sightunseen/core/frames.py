"""Arrays and tables of other libraries: tensors, series, and DataFrames of pandas, polars and Arrow.

DataFrames are read by narwhals. A library is imported only if the user's object comes from it, or if its frames are asked for.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, MissingDependencyError
from sightunseen.core.rows import Rows

PLAIN = (np.ndarray, Rows, list, tuple, Mapping, str, bytes, int, float)  # never frames; found without importing narwhals
FRAMES = ("pandas", "polars")  # libraries whose frames can be returned


def frame_of(values: Any) -> Any:
    """Return a DataFrame as a frame of narwhals, or None for anything else.

    Parameters
    ----------
    values : object
        A DataFrame of pandas, polars or another library that narwhals supports, a table of Arrow, or any other object.

    Returns
    -------
    narwhals.DataFrame or None
        The frame.

    Raises
    ------
    DataError
        If the frame is lazy, or if a column name is repeated.

    Examples
    --------
    >>> import pyarrow
    >>> frame_of(pyarrow.table({"legs": [4]})).columns
    ['legs']
    >>> frame_of(np.eye(2)) is None
    True
    """
    if values is None or isinstance(values, PLAIN) or hasattr(values, "detach"):
        return None
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(values, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"a DataFrame has a column more than once: {quoted(error)}. Rename its columns.") from error
    if isinstance(frame, nw.LazyFrame):
        raise DataError("a lazy frame has no rows yet. Give the result of its .collect().")
    return frame if isinstance(frame, nw.DataFrame) else None


def as_array(values: Any, where: str) -> NDArray[Any]:
    """Convert a tensor, a series or any other array-like to an array.

    Parameters
    ----------
    values : array-like
        A tensor of torch on any device, a series of pandas or polars, an array of Arrow, a list. A series of vectors of one
        length becomes a two-dimensional array.
    where : str
        What the values are, for the error message.

    Returns
    -------
    ndarray
        The values.

    Raises
    ------
    DataError
        If there is no conversion.

    Examples
    --------
    >>> as_array([[1, 2], [3, 4]], "features").shape
    (2, 2)
    """
    if isinstance(values, np.ndarray):
        return values
    try:
        if hasattr(values, "detach"):  # a tensor
            values = values.detach().cpu()
            values = values.float() if "bfloat16" in str(values.dtype) else values
        array = np.asarray(values)
        if array.dtype == object and array.ndim == 1 and len(array) and np.ndim(array[0]) == 1:
            array = np.stack([np.asarray(vector) for vector in array])
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{where} cannot be converted to an array of numpy: {quoted(error, 200)}.") from error
    return array


def as_features(X: Any) -> Any:
    """Convert features to what scikit-learn validates: an array, or a DataFrame of numbers.

    Parameters
    ----------
    X : array-like, DataFrame or Rows of shape (n, d)
        Features.

    Returns
    -------
    array-like or DataFrame of shape (n, d)
        The same object if it is an array, a list, rows of files or a DataFrame.

    Raises
    ------
    DataError
        If a DataFrame has columns that are not numbers, or if there is no conversion to an array.
    """
    if isinstance(X, np.ndarray | Rows | list | tuple):
        return X
    frame = frame_of(X)
    if frame is None:
        return as_array(X, "features X") if hasattr(X, "__array__") else X  # scikit-learn refuses anything else
    import narwhals.stable.v2 as nw

    kinds = frame.schema.items()
    others = [name for name, kind in kinds if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown))]
    if others:
        shown = ", ".join(f"'{quoted(name)}'" for name in others[:3]) + (f" and {len(others) - 3} more" * (len(others) > 3))
        raise DataError(
            f"every column of X must be a feature, a number; found {shown}. Drop such columns. Give a column of vectors alone, "
            "as X = frame['embedding']."
        )
    return X


def as_targets(y: Any) -> Any:
    """Convert labels to an array; texts become an array of text.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.

    Returns
    -------
    ndarray of shape (n,)
        The labels; None if ``y`` is None.

    Raises
    ------
    DataError
        If a label is missing, or if there are texts and numbers.

    Examples
    --------
    >>> as_targets(np.array(["cat", "okapi"], dtype=object)).dtype.kind
    'U'
    """
    if y is None:
        return None
    frame = frame_of(y)
    array = as_array(y if frame is None else frame.to_numpy(), "labels y")
    if array.dtype != object and not (isinstance(y, list | tuple) and array.dtype.kind == "U" and array.ndim == 1):
        return array
    # numpy converts numbers and missing values in a list with texts to text.
    values = list(y) if array.dtype != object else array.ravel().tolist()
    missing = next((row for row, value in enumerate(values, 1) if is_missing(value)), None)
    if missing is not None:
        raise DataError(f"the label in row {missing} of y is missing. Fill it in, or drop the image.")
    kinds = {isinstance(value, str) for value in values}
    if len(kinds) > 1:
        raise DataError("the labels y must be all text or all numbers; got both. Convert them to one type.")
    return array.astype(np.str_) if kinds == {True} else array


def is_missing(value: Any) -> bool:
    """Tell whether a value marks a missing one: None, NaN, or ``NA`` and ``NaT`` of pandas.

    Parameters
    ----------
    value : object
        Any value.

    Returns
    -------
    bool
        True if it is missing.

    Examples
    --------
    >>> is_missing(float("nan")), is_missing(0)
    (True, False)
    """
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def index_of(X: Any) -> Any:
    """Return the index of a pandas DataFrame or series; None for anything else.

    Parameters
    ----------
    X : object
        Any object.

    Returns
    -------
    pandas.Index or None
        The index.
    """
    return X.index if _library(X) == "pandas" else None


def frame_kind(X: Any) -> str:
    """Return the library whose frames suit an input: ``polars`` for objects of polars, else ``pandas``.

    Parameters
    ----------
    X : object
        Any object.

    Returns
    -------
    str
        Name of the library.
    """
    return "polars" if _library(X) == "polars" else "pandas"


def make_frame(columns: Mapping[str, NDArray[Any]], library: str, index: Any = None) -> Any:
    """Make a DataFrame.

    Parameters
    ----------
    columns : mapping of str to ndarray of shape (n,)
        Columns by name.
    library : {"pandas", "polars"}
        Library of the frame.
    index : pandas.Index, default=None
        Index of a pandas frame; None: row numbers. Frames of polars have none.

    Returns
    -------
    DataFrame
        The frame.

    Raises
    ------
    MissingDependencyError
        If the library is not installed.
    """
    try:
        module = import_module(library)
    except ImportError as error:
        raise MissingDependencyError(f"a DataFrame of {library} needs {library}: pip install {library}") from error
    lists = {name: column.tolist() if column.dtype.kind in "OU" else column for name, column in columns.items()}
    return module.DataFrame(lists) if library == "polars" else module.DataFrame(lists, index=index)


def _library(values: Any) -> str:
    return type(values).__module__.partition(".")[0]
