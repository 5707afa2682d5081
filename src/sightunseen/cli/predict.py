"""Predict the classes of images with their confidence."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sightunseen.analysis.reasons import Reason
    from sightunseen.prediction import Batch, Explain

SHOWN = 50  # rows printed without --out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_trust_arguments, positive
    from sightunseen.cli._cluster import add_cluster_argument

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    what = "photos (a folder, one photo, or a .csv file of paths) or features (.npz, .npy, .csv or .parquet)"
    parser.add_argument("images", metavar="IMAGES", type=Path, help=what)
    parser.add_argument("--top", type=positive, default=1, metavar="K", help="number of classes per image (default: 1)")
    what = "all (default), unseen, seen, or a text file with one label per line"
    parser.add_argument("--candidates", default="all", metavar="WHICH", help=what)
    parser.add_argument("--never-none", action="store_true", help="always predict a class, without open-set rejection")
    what = "say why the best class is ahead of the second-best one: N attributes or words for and against it (default: 3)"
    parser.add_argument("--reasons", type=positive, nargs="?", const=3, metavar="N", help=what)
    what = "file to write: .csv, .json, .jsonl or .parquet; - writes CSV to stdout (default: print a table)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=what)
    add_cluster_argument(parser)
    add_trust_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Predict, and write or print the predictions; returns the exit code."""
    from functools import partial

    from sightunseen.cli._cluster import connected
    from sightunseen.cli._data import candidates_of, load_images
    from sightunseen.cli._output import check_output
    from sightunseen.core.blocks import named_blocks
    from sightunseen.core.errors import DataError
    from sightunseen.data.photo_lists import is_photos
    from sightunseen.methods import load_model
    from sightunseen.prediction import check_ending, ranked

    if args.out is not None:
        check_output(args.out, check_ending)
    model = load_model(args.model)
    candidates = candidates_of(args.candidates, model)
    if is_photos(args.images):
        return _of_photos(args, model, candidates)
    features, names = load_images(args.images, model, streamed=True)
    explain, how = _explainer_of(args.reasons, model), (args.top, candidates, not args.never_none)
    try:
        with connected(args) as cluster:
            if cluster is None:
                predictions = ranked(model, named_blocks(features, names), *how, explain)
            else:
                from sightunseen.cluster.prediction import ranked_on

                explainer = partial(_explainer_of, args.reasons)
                predictions = ranked_on(cluster, model, args.images, len(features), *how, explainer)
            _output(predictions, len(features), args)
    except DataError as error:
        raise DataError(f"{args.images}: {error}") from error
    return 0


def _of_photos(args: argparse.Namespace, model: Any, candidates: Any) -> int:
    """Predict photos batch by batch, with constant memory."""
    from itertools import chain

    import numpy as np

    from sightunseen.cli._cluster import connected
    from sightunseen.cli._photo_progress import PhotoProgress
    from sightunseen.core.blocks import joined_blocks
    from sightunseen.core.errors import DataError
    from sightunseen.data.photo_lists import list_photos
    from sightunseen.features.extract import extract
    from sightunseen.pipeline.data import open_for_photos
    from sightunseen.prediction import ranked

    photos, backbone = list_photos(args.images, labelled=False), open_for_photos(None, model)
    if photos.left_out:
        print(photos.remark, file=sys.stderr)
    explain = _explainer_of(args.reasons, model)
    with connected(args) as cluster, PhotoProgress(backbone.name) as progress:
        if cluster is None:
            batches = extract(photos.fresh_paths(), backbone, tell=progress.say)
        else:
            from sightunseen.cluster.embedding import extract_on

            batches = extract_on(cluster, photos.fresh_paths(), backbone, tell=progress.say)
        found = progress.watched(batches, len(photos))
        batch = next((one for one in found if one.paths), None)
        if batch is None:
            raise DataError(f"none of the {len(photos)} photos of {args.images} can be read; the reasons are above.")
        read = chain([batch], (one for one in found if one.paths))
        blocks = joined_blocks((one.features, np.array([str(path) for path in one.paths])) for one in read)
        predictions = ranked(model, blocks, args.top, candidates, not args.never_none, explain)
        _output(predictions, len(photos), args)
    return 0


def _explainer_of(number: int | None, model: Any) -> "Explain | None":
    """Build the function that explains the best classes of images; None without ``--reasons``."""
    if number is None:
        return None
    import numpy as np

    from sightunseen.analysis.pairs import shortened
    from sightunseen.analysis.reasons import Explainer
    from sightunseen.prediction import REASONS

    explainer = Explainer(model, number)
    if not explainer.speaks:
        print(f"note: there are no reasons: {explainer.silence}.", file=sys.stderr)

    def shown(reasons: "Iterable[Reason]") -> str:
        return "; ".join(f"{shortened(one.phrase)} {one.contribution:+.3g}" for one in reasons)

    def explain(X: Any, labels: Any, leads: Any) -> "Batch":
        found = explainer(X, labels, leads) if explainer.speaks else []
        texts = [(shown(one.speaks_for), shown(one.speaks_against)) for one in found] or [("", "")] * len(labels)
        columns = [labels[:, 1].astype(str).astype(object), *np.array(texts, dtype=object).reshape(-1, 2).T]
        return dict(zip(REASONS, columns, strict=True))

    return explain


def _output(predictions: "Iterator[Batch]", images: int, args: argparse.Namespace) -> None:
    """Write predictions to a file, or print the first rows."""
    from itertools import islice

    from sightunseen.cli._output import messages_of, output_file
    from sightunseen.cli._printing import print_table
    from sightunseen.prediction import COLUMNS, REASONS, write_predictions

    columns = COLUMNS if args.reasons is None else COLUMNS + REASONS
    if args.out is not None:
        with output_file(args.out, ".csv") as file:
            count = write_predictions(file, predictions, columns)
        print(f"wrote {count:,} rows of {images:,} images to {args.out}", file=messages_of(args.out))
        return
    rows = (row for batch in predictions for row in zip(*(batch[name].tolist() for name in columns), strict=True))
    shown = [
        (path, rank, label, round(100 * confidence, 1), *others)
        for path, rank, label, confidence, *others in islice(rows, SHOWN)
    ]
    heads = [{"confidence": "confidence %"}.get(name, name.replace("_", " ")) for name in columns]
    print_table("Predictions", heads, shown, paths="path")
    if next(rows, None) is not None:
        print(f"first {SHOWN} rows of {images:,} images; give --out FILE for all rows")
