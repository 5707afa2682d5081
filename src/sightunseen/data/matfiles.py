"""Reader of MATLAB files: of versions 5 to 7.2 here, version 4 with scipy, version 7.3 (HDF5) with h5py."""

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError, MissingDependencyError
from sightunseen.core.limits import PATH_LENGTH
from sightunseen.core.memory import check_memory
from sightunseen.data.columns import few
from sightunseen.data.matlab5 import HEADER, read_variables
from sightunseen.data.opening import opened, size_of

Arrays = dict[str, NDArray[Any]]
Wanted = Callable[[str], bool]
CELL_BYTES = 32  # least size of a cell in a v7.3 file
REMEDY = "It may be truncated: compare its size with the original and download it again."


def read_mat(path: Path, needed: Sequence[str], others: Sequence[str] = ()) -> Arrays:
    """Read variables of a MATLAB file.

    Parameters
    ----------
    path : Path
        The ``.mat`` file, of any version.
    needed : sequence of str
        Variables that the file must have.
    others : sequence of str, default=()
        Further variables to read if the file has them; ``*`` stands for any characters.

    Returns
    -------
    dict of str to ndarray
        The variables by name. Cell arrays of strings become string arrays.

    Raises
    ------
    DataError
        If the file is truncated or not a MATLAB file, or if a variable is missing, too large or not an array.
    MissingDependencyError
        If the file is of version 7.3 and h5py is not installed.
    """

    def wanted(name: str) -> bool:
        return name in needed or any(fnmatchcase(name, pattern) for pattern in others)

    version = opened(path, lambda: _version_of(path), "a MATLAB file", REMEDY)
    form, read = FORMS[version]
    names, arrays = opened(path, lambda: read(path, wanted), form, REMEDY)
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise DataError(f"{path} has no '{missing[0]}'; it has {few(names) or 'nothing'}. Use the file of the benchmark.")
    return arrays


def _version_of(path: Path) -> int:
    """4, 5 (up to 7.2) or 7 (7.3)."""
    with open(path, "rb") as file:
        header = file.read(HEADER)
    if 0 in header[:4]:  # later versions begin with text
        return 4
    version = {b"\x00\x01IM": 5, b"\x01\x00MI": 5, b"\x00\x02IM": 7, b"\x02\x00MI": 7}.get(header[124:])
    if version is None:
        raise ValueError("it does not begin as a MATLAB file does")
    return version


def _read_matlab4(path: Path, wanted: Wanted) -> tuple[list[str], Arrays]:
    from scipy.io import loadmat, whosmat

    declared = {name: shape for name, shape, _ in whosmat(path)}
    chosen = [name for name in declared if wanted(name)]
    check_memory(8 * sum(math.prod(declared[name]) for name in chosen), path, size_of(path))
    content = loadmat(path, variable_names=chosen)
    odd = [name for name in chosen if not isinstance(content[name], np.ndarray)]
    if odd:
        raise DataError(f"{path}: '{odd[0]}' must be an array; got {type(content[odd[0]]).__name__}. Write it with full().")
    return list(declared), {name: content[name] for name in chosen}


def _read_hdf5(path: Path, wanted: Wanted) -> tuple[list[str], Arrays]:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            f"{path} is a MATLAB v7.3 file; reading it needs h5py: pip install 'sightunseen[hdf5]'"
        ) from error
    with h5py.File(path, "r") as file:
        # Links may point to other files.
        own = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        nodes = {name: file[name] for name in own if wanted(name)}
        odd = [name for name, node in nodes.items() if not _is_array(node)]
        if odd:
            raise DataError(f"{path}: '{odd[0]}' must be an array that is stored in this file. Write the file again.")
        check_memory(sum(node.size * node.dtype.itemsize for node in nodes.values()), path, size_of(path))
        return own, {name: _from_hdf5(file, node, path) for name, node in nodes.items()}


def _is_array(node: Any) -> bool:
    import h5py

    return isinstance(node, h5py.Dataset) and node.shape is not None and not node.external and not node.is_virtual


def _from_hdf5(file: Any, node: Any, path: Path) -> NDArray[Any]:
    import h5py

    if h5py.check_ref_dtype(node.dtype) is not None:
        if node.size > size_of(path) // CELL_BYTES:
            raise DataError(f"{path} cannot be read: {node.size:,} cells are more than it can hold. {REMEDY}")
        return np.array([_cell(file[cell]) for cell in np.ravel(node[()])])
    return np.asarray(node[()]).T  # MATLAB stores arrays transposed in HDF5


def _cell(node: Any) -> str:
    """Text of a cell: an array of UTF-16 code units."""
    if "MATLAB_empty" in node.attrs:
        return ""
    if not _is_array(node) or node.dtype.kind not in "iu" or node.size > PATH_LENGTH:
        raise DataError(f"a cell must be a text of at most {PATH_LENGTH:,} characters.")
    return np.ravel(node[()]).astype("<u2").tobytes().decode("utf-16-le")


FORMS = {
    4: ("a MATLAB file", _read_matlab4),
    5: ("a MATLAB file", read_variables),
    7: ("a MATLAB v7.3 file", _read_hdf5),
}
