"""Reader of MATLAB files: up to v7.2 with scipy, v7.3 (HDF5) with h5py."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError, MissingDependencyError

Arrays = dict[str, NDArray[Any]]


def read_mat(path: Path) -> Arrays:
    """Read all variables of a MATLAB file.

    Parameters
    ----------
    path : Path
        The ``.mat`` file, of any version.

    Returns
    -------
    dict of str to ndarray
        The variables by name. Cell arrays of strings become string arrays.

    Raises
    ------
    DataError
        If the file is truncated or not a MATLAB file.
    MissingDependencyError
        If the file is of version 7.3 and h5py is not installed.
    """
    from scipy.io import loadmat  # imported here: takes 0.1 s and is not needed when the arrays are cached

    try:
        content = loadmat(path)
    except NotImplementedError:
        return _read_hdf5(path)
    except FileNotFoundError:
        raise
    except Exception as error:  # scipy's parser raises many exception types on damaged files
        raise DataError(
            f"{path} cannot be read as a MATLAB file ({type(error).__name__}: {error}). "
            "It may be truncated: compare its size with the original and download it again."
        ) from error
    return {name: _plain(value) for name, value in content.items() if not name.startswith("__")}


def _plain(value: NDArray[Any]) -> NDArray[Any]:
    if value.dtype != object:
        return value
    return np.array([str(np.ravel(cell)[0]) if np.size(cell) else "" for cell in value.ravel()])


def _read_hdf5(path: Path) -> Arrays:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            f"{path} is a MATLAB v7.3 file; reading it needs h5py: pip install 'sightunseen[hdf5]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            return {name: _from_hdf5(file, node) for name, node in file.items() if isinstance(node, h5py.Dataset)}
    except OSError as error:
        raise DataError(f"{path} cannot be read as a MATLAB v7.3 file: {error}. Download it again.") from error


def _from_hdf5(file: Any, node: Any) -> NDArray[Any]:
    import h5py

    if h5py.check_ref_dtype(node.dtype) is not None:
        # A cell array: references to arrays of UTF-16 code units.
        units = [np.ravel(file[cell][()]).astype("<u2") for cell in np.ravel(node[()])]
        return np.array([text.tobytes().decode("utf-16-le") for text in units])
    return np.asarray(node[()]).T  # MATLAB stores arrays transposed in HDF5
