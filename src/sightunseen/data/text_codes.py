"""Labels of millions of images as codes: the distinct texts, and one number per image."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.conversion import as_labels, as_text
from sightunseen.core.errors import DataError
from sightunseen.core.limits import CLASSES
from sightunseen.core.memory import check_memory


class TextCodes:
    """Texts of many images, added block by block.

    Parameters
    ----------
    what : str
        What the texts are, for error messages, such as ``label``.

    Examples
    --------
    >>> codes = TextCodes("label")
    >>> codes.add_array(np.array(["owl", "bat", "owl"]), "birds.npz")
    >>> codes.texts().tolist()
    ['owl', 'bat', 'owl']
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.known: dict[str, int] = {}
        self.parts: list[NDArray[np.int32]] = []

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add_array(self, values: NDArray[Any], where: str) -> None:
        """Add the texts of an array.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Texts or finite numbers.
        where : str
            File, for error messages.

        Raises
        ------
        DataError
            If a value is neither.
        """
        texts, codes = np.unique(as_labels(values, f"{where}: the {self.what}s"), return_inverse=True)
        self._add(texts.tolist(), codes.ravel(), where)

    def add_repeated(self, text: str, count: int) -> None:
        """Add a text ``count`` times."""
        self._add([text], np.zeros(count, dtype=np.int32), text)

    def add_column(self, column: Any, where: str, first: int = 0, names: tuple[str, ...] | None = None) -> None:
        """Add the values of a column.

        Parameters
        ----------
        column : pyarrow.Array
            Texts or finite numbers.
        where : str
            File, for error messages.
        first : int, default=0
            Index of the first row in the file.
        names : tuple of str, default=None
            Texts that the values, whole numbers, stand for.

        Raises
        ------
        DataError
            If a value is missing, or neither a text nor a number; the message names its row, which counts from one.
        """
        from pyarrow import types

        if types.is_nested(column.type):
            raise DataError(f"{where}: the {self.what}s must be texts or numbers; got {column.type}.")
        encoded = column if types.is_dictionary(column.type) else column.dictionary_encode()
        if encoded.null_count:
            row = int(np.flatnonzero(encoded.is_null().to_numpy(zero_copy_only=False))[0])
            raise DataError(f"{where}, row {first + row + 1}: the {self.what} is missing. Fill it in.")
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        used = np.flatnonzero(np.bincount(codes))  # a dictionary may have values that no row has
        values = encoded.dictionary.to_numpy(zero_copy_only=False)[used]
        codes = np.searchsorted(used, codes)
        try:
            texts = as_labels(values, where) if names is None else np.array([names[_index(value, names)] for value in values])
        except (DataError, IndexError) as error:
            for row, value in enumerate(values[codes].tolist(), first + 1):  # the error names the row of the file
                what = f"{where}, row {row}, the {self.what}"
                as_text(value, what)
                if names is not None and not _is_index(value, names):
                    raise DataError(
                        f"{what} is {value}; expected 0 to {len(names) - 1}, the numbers of the classes."
                    ) from error
            raise
        self._add(texts.tolist(), codes, where)

    def texts(self) -> NDArray[np.str_]:
        """Return the text of every image."""
        texts = np.array(list(self.known), dtype=np.str_)
        check_memory(len(self) * texts.dtype.itemsize, f"the {self.what}s of all images")
        return texts[self.codes()] if len(texts) else np.empty(0, dtype="U1")

    def codes(self) -> NDArray[np.int32]:
        """Return the code of every image: its position among the distinct texts, in the order of their first use."""
        return np.concatenate([np.empty(0, dtype=np.int32), *self.parts])

    def _add(self, texts: list[str], codes: NDArray[Any], where: str) -> None:
        own = np.array([self.known.setdefault(text, len(self.known)) for text in texts], dtype=np.int32)
        if len(self.known) > CLASSES:
            raise DataError(f"{where}: more than {CLASSES:,} different {self.what}s, the limit. Give the class of each image.")
        self.parts.append(own[codes] if len(own) else np.empty(0, dtype=np.int32))


def _is_index(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, (int, np.integer)) and bool(0 <= value < len(names))


def _index(value: Any, names: tuple[str, ...]) -> int:
    if not _is_index(value, names):
        raise IndexError(value)
    return int(value)
