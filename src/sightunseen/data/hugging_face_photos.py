"""Photos in a column of a Hugging Face folder: their content stays in the Arrow files."""

from functools import partial
from pathlib import Path

import numpy as np

from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.data.arrow_columns import roles_of, text_blocks
from sightunseen.data.arrow_files import ArrowFile, ArrowTable, open_arrow_file
from sightunseen.data.columns import few
from sightunseen.data.hugging_face import SPLIT_WORDS, class_names, is_hugging_face, shards_of
from sightunseen.data.opening import opened
from sightunseen.data.stored_photos import NOT_REGULAR, StoredPhotos
from sightunseen.data.text_codes import TextCodes

Texts = tuple[str, ...] | None


def has_photos(folder: Path) -> bool:
    """Return whether a folder is one of Hugging Face with a column of images and no features."""
    if not is_hugging_face(folder):
        return False
    file = open_arrow_file(shards_of(folder)[0].path)
    return _image_column(file) is not None and roles_of(file).vectors is None


def read_photos(folder: Path) -> tuple[StoredPhotos, Texts, Texts]:
    """List the photos of a Hugging Face folder.

    Parameters
    ----------
    folder : Path
        Folder with a column of images. Their content is in the files, as ``save_to_disk`` writes it.

    Returns
    -------
    photos : StoredPhotos
        The photos, in order.
    labels : tuple of str or None
        Class of each photo, from the column ``label``.
    splits : tuple of str or None
        Split of each photo: from the column ``split``, or the names of the splits of the folder.

    Raises
    ------
    DataError
        If there is no such column, if a file is damaged, or if a split is not one of train, test_seen and test_unseen.
    """
    photos, labels, splits = StoredPhotos(), TextCodes("label"), TextCodes("split")
    for shard in shards_of(folder):
        file = open_arrow_file(shard.path)
        name, roles = _image_column(file), roles_of(file)
        if name is None or not isinstance(file, ArrowTable):
            raise DataError(f"{shard.path} has no column of images (bytes and path); it has {few(file.schema.names)}.")
        photos.add_file(shard.path, shard.path.relative_to(folder).as_posix())
        opened(shard.path, partial(_add_all, photos, file, name))
        if roles.label is not None:
            names = class_names(file.schema, roles.label, shard.columns)
            for first, column in text_blocks(file, roles.label):
                labels.add_column(column, str(shard.path), first, names)
        if roles.split is not None:
            for first, column in text_blocks(file, roles.split):
                splits.add_column(column, str(shard.path), first)
        elif shard.split is not None:
            splits.add_repeated(shard.split, file.rows)
    unknown = sorted(set(splits.known) - set(SPLIT_WORDS))
    if unknown:
        raise DataError(
            f"{folder}: the split must be {', '.join(SPLIT_WORDS)}; found '{quoted(unknown[0])}'. Rename the splits, or give "
            "the folder of one of them."
        )
    return photos, _texts(labels, len(photos), folder), _texts(splits, len(photos), folder)


def _image_column(file: ArrowFile) -> str | None:
    """Name of the first column that holds images as bytes and path."""
    from pyarrow import types

    for field in file.schema:
        inner = {child.name: child.type for child in field.type} if types.is_struct(field.type) else {}
        if "bytes" in inner and (types.is_binary(inner["bytes"]) or types.is_large_binary(inner["bytes"])):
            return str(field.name)
    return None


def _add_all(photos: StoredPhotos, file: ArrowTable, name: str) -> None:
    """Add the images of a file, by the position and size of their content; their names are their rows."""
    from pyarrow import types

    row = 0
    with file.mapped() as (content, batches):
        for batch in batches:
            column = batch.column(batch.schema.get_field_index(name))
            column.validate(full=True)
            values = column.flatten()[column.type.get_field_index("bytes")]
            _, offsets, data = values.buffers()
            width = np.int64 if types.is_large_binary(values.type) else np.int32
            ends = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1].astype(np.int64)
            base = 0 if data is None else data.address - content.address
            if data is not None and not 0 <= base <= base + data.size <= content.size:
                raise DataError(f"{file.path} is compressed. Save it again without compression.")
            missing = values.is_null().to_numpy(zero_copy_only=False)
            sizes = np.where(missing, NOT_REGULAR, np.diff(ends))
            for start, size in zip((base + ends[:-1]).tolist(), sizes.tolist(), strict=True):
                photos.add(str(row), start, size)
                row += 1


def _texts(codes: TextCodes, count: int, folder: Path) -> Texts:
    """Text of each photo, one object for each distinct one; None without texts."""
    if not len(codes):
        return None
    if len(codes) != count:
        raise DataError(f"{folder}: {count} images but {len(codes)} {codes.what}s; all files must have the column.")
    known = list(codes.known)
    return tuple(known[code] for code in codes.codes().tolist())
