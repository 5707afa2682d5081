"""Predict the classes of images, best first, with a confidence."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument("features", metavar="FEATURES", type=Path, help="features of images: .npz, .npy, .csv or .parquet")
    parser.add_argument("--top", type=int, default=1, metavar="K", help="classes an image (default: 1)")
    parser.add_argument(
        "--candidates", default="all", metavar="WHICH", help="all (default), unseen, seen, or a text file with one label a line"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=".csv, .json or .parquet; without it a table is printed")


def run(args: argparse.Namespace) -> int:
    """Predict and write."""
    from itertools import islice

    import numpy as np

    from sightunseen.cli._tables import print_table
    from sightunseen.data.tables import load_features
    from sightunseen.errors import DataError
    from sightunseen.methods import load_model
    from sightunseen.predictions import COLUMNS, check_ending, ranked, write_predictions

    if args.out is not None:
        check_ending(args.out)
    model = load_model(args.model)
    candidates = args.candidates
    if candidates not in ("all", "seen", "unseen"):
        path = Path(candidates)
        if not path.is_file():
            raise DataError(f"candidates must be all, seen, unseen or a file with one label a line; there is no file {path}.")
        lines = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
        candidates = np.array(lines, dtype=str)
    features, names = load_features(args.features)
    answers = ranked(model, features, names, args.top, candidates)
    if args.out is not None:
        written = write_predictions(args.out, answers)
        print(f"wrote {written:,} rows for {len(names):,} images to {args.out}")
        return 0
    rows = [row for batch in answers for row in zip(*(batch[name].tolist() for name in COLUMNS), strict=True)]
    shown = [(path, rank, label, round(100 * confidence, 1), seen) for path, rank, label, confidence, seen in islice(rows, 50)]
    print_table("Predictions", ["path", "rank", "class", "confidence %", "seen"], shown)
    if len(rows) > len(shown):
        print(f"the first {len(shown)} of {len(rows):,} rows; give --out FILE for all of them")
    return 0
