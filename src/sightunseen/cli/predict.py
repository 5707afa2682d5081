"""Predict the classes of images, best first, with a confidence."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sightunseen.predictions import Batch

SHOWN = 50  # rows printed where no file is asked for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from sightunseen.cli._arguments import positive

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    what = "photos (a folder, one photo, a .csv of paths), or features of images: .npz, .npy, .csv or .parquet"
    parser.add_argument("images", metavar="IMAGES", type=Path, help=what)
    parser.add_argument("--top", type=positive, default=1, metavar="K", help="classes an image (default: 1)")
    parser.add_argument(
        "--candidates", default="all", metavar="WHICH", help="all (default), unseen, seen, or a text file with one label a line"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=".csv, .json or .parquet; without it a table is printed")


def run(args: argparse.Namespace) -> int:
    """Predict and write."""
    from sightunseen.cli._data import candidates_of, load_images
    from sightunseen.data.photo_lists import is_photos
    from sightunseen.errors import DataError
    from sightunseen.methods import load_model
    from sightunseen.predictions import check_ending, ranked

    if args.out is not None:
        check_ending(args.out)
    model = load_model(args.model)
    candidates = candidates_of(args.candidates, model)
    if is_photos(args.images):
        return _of_photos(args, model, candidates)
    features, names = load_images(args.images, model)
    try:
        _answer(ranked(model, features, names, args.top, candidates), len(features), args.out)
    except DataError as error:
        raise DataError(f"{args.images}: {error}") from error
    return 0


def _of_photos(args: argparse.Namespace, model: Any, candidates: Any) -> int:
    """Answer photos as their features come, so that memory stays flat over any number of them."""
    import numpy as np

    from sightunseen.cli._data import open_for_photos
    from sightunseen.cli._photos import PhotoProgress
    from sightunseen.data.photo_lists import list_photos
    from sightunseen.features.extract import extract
    from sightunseen.predictions import ranked

    photos, backbone = list_photos(args.images), open_for_photos(None, model)
    with PhotoProgress(backbone.name) as progress:
        found = progress.watched(extract(photos.paths, backbone, tell=progress.say), len(photos))
        answers = (
            answer
            for batch in found
            if len(batch.paths)
            for answer in ranked(model, batch.features, np.array([str(path) for path in batch.paths]), args.top, candidates)
        )
        _answer(answers, len(photos), args.out)
    return 0


def _answer(answers: "Iterator[Batch]", images: int, out: Path | None) -> None:
    """Write the answers to a file, or print the first of them."""
    from itertools import islice

    from sightunseen.cli._tables import print_table
    from sightunseen.predictions import COLUMNS, write_predictions

    if out is not None:
        print(f"wrote {write_predictions(out, answers):,} rows to {out}, images: {images:,}")
        return
    rows = (row for batch in answers for row in zip(*(batch[name].tolist() for name in COLUMNS), strict=True))
    shown = [
        (path, rank, label, round(100 * confidence, 1), seen) for path, rank, label, confidence, seen in islice(rows, SHOWN)
    ]
    print_table("Predictions", ["path", "rank", "class", "confidence %", "seen"], shown)
    if next(rows, None) is not None:
        print(f"these are the first {SHOWN} rows, of {images:,} images; give --out FILE for all of them")
