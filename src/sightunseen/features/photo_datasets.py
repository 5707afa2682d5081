"""Data sets from photos and a table of classes."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.data.content_cache import content_fingerprint
from sightunseen.data.photo_lists import list_photos
from sightunseen.data.table_files import load_classes
from sightunseen.features.backbones import Backbone
from sightunseen.features.extract import Batch, extract

CLASS_FILES = ("classes.csv", "classes.parquet", "classes.json", "classes.npz")
Tell = Callable[[str], None]
Watch = Callable[[Iterable[Batch], int], Iterator[Batch]]


def load_photos(
    source: str | Path,
    backbone: Backbone,
    classes: ClassTable | str | Path | None = None,
    semantics: str = "auto",
    seen: Collection[Any] | None = None,
    tell: Tell | None = None,
    watch: Watch = lambda batches, _: iter(batches),
) -> ZeroShotDataset:
    """Load a data set of photos; their features are extracted or come from the cache.

    Parameters
    ----------
    source : str or Path
        Folder or CSV of photos with labels, see :func:`~sightunseen.data.photo_lists.list_photos`.
    backbone : Backbone
        Network that computes the features.
    classes : ClassTable, str or Path, optional
        Class table or its file. The default is ``classes.csv`` (or ``.parquet``, ``.json``, ``.npz``) in the folder of the
        photos or in its parent.
    semantics : str, default="auto"
        Content of the class vectors, see :func:`~sightunseen.semantics.describe.describe_classes`. Texts are encoded by the
        text side of the backbone if it is a dual encoder, unless ``semantics`` names an encoder.
    seen : collection of labels, optional
        Classes that a model was trained on. If given, photos without a split become test images.
    tell : callable, optional
        Function that receives a line of text for each photo that cannot be used.
    watch : callable, optional
        Function of an iterable of batches and the number of photos. It returns an iterator of the same batches and may
        show progress.

    Returns
    -------
    ZeroShotDataset
        The data set, with a description of the backbone.

    Raises
    ------
    DataError
        If the photos have no labels, none can be used, or there is no table of classes.

    Examples
    --------
    >>> from sightunseen.features.backbones import open_backbone
    >>> data = load_photos("photos", open_backbone("efficientnet_lite0"), "classes.csv")  # doctest: +SKIP
    """
    source, photos = Path(source), list_photos(source)
    if photos.labels is None:
        raise DataError(f"{source} has no labels. Put the photos into folders named after their classes.")
    if photos.left_out and tell is not None:
        tell(photos.remark)
    encoder = None if ":" in semantics else backbone.text_encoder  # the text side of a dual encoder, unless another is named
    table, sources = _classes(source, classes, semantics, encoder, tell)
    batches = list(watch(extract(photos.paths, backbone, tell=tell), len(photos)))
    rows = np.concatenate([batch.rows for batch in batches])
    if not len(rows):
        raise DataError(f"none of the {len(photos)} photos of {source} could be used.")
    features, labels = np.concatenate([batch.features for batch in batches]), np.array(photos.labels)[rows]
    split = None if photos.splits is None else np.array(photos.splits)[rows]
    if split is None and seen is not None:
        split = np.where(np.isin(labels, list(seen)), "test_seen", "test_unseen")
    digest = hashlib.sha256(features.tobytes() + "\n".join(labels).encode()).hexdigest()
    return ZeroShotDataset.from_arrays(
        features,
        labels,
        table,
        split,
        name=source.resolve().name,
        image_names=np.array([str(path) for batch in batches for path in batch.paths]),
        sources={"photos": digest, **sources},
        options={"semantics": table.use},
        backbone=backbone.describe(),
    )


def _classes(
    source: Path,
    classes: ClassTable | str | Path | None,
    semantics: str,
    encoder: str | None,
    tell: Tell | None,
) -> tuple[ClassTable, dict[str, str]]:
    if isinstance(classes, ClassTable):
        return classes, {}
    folders = [source, source.parent] if source.is_dir() else [source.parent]
    beside = [folder / name for folder in folders for name in CLASS_FILES if (folder / name).is_file()]
    found = Path(classes) if classes is not None else next(iter(beside), None)
    if found is None:
        raise DataError(f"there is no table of classes at {source}. Give one with --classes FILE: one line per class.")
    if classes is None and tell is not None:
        tell(f"classes from {found} (--classes FILE for another table)")
    return load_classes(found, semantics, encoder), {f"classes {found.name}": content_fingerprint(found)}
