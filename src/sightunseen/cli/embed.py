"""Extract features of photos with a backbone, and cache them by the content of the photos."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightunseen.data.photo_lists import PhotoList
    from sightunseen.features.backbones import Backbone


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import positive

    what = "folder of photos (flat, or one folder per class), one photo, or a .csv file with a column path"
    parser.add_argument("photos", metavar="PHOTOS", type=Path, help=what)
    parser.add_argument(
        "--backbone",
        default="efficientnet_lite0",
        metavar="NAME",
        help="efficientnet_lite0 (default), _lite1, _lite2, onnx:FILE, torchvision:NAME, timm:NAME or open_clip:NAME/WEIGHTS",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="feature file to write: .parquet or .npz")
    parser.add_argument("--batch", type=positive, default=32, metavar="N", help="batch size (default: 32)")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="device (default: a GPU if there is one)"
    )
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the feature cache")


def run(args: argparse.Namespace) -> int:
    """Extract features and write them; returns the exit code."""
    from sightunseen.core.files import check_writable
    from sightunseen.data.photo_lists import list_photos
    from sightunseen.features.feature_files import check_ending

    check_ending(args.out)
    check_writable(args.out)
    photos = list_photos(args.photos)
    if photos.left_out:
        kinds = ", ".join(sorted({path.suffix.lower() for path in photos.left_out}))
        print(f"note: {len(photos.left_out)} images left out that are of kinds not read: {kinds}", file=sys.stderr)
    from sightunseen.features.backbones import open_backbone

    return _embed(args, photos, open_backbone(args.backbone, args.device))


def _embed(args: argparse.Namespace, photos: "PhotoList", backbone: "Backbone") -> int:
    from sightunseen.cli._jobs import STOPPED
    from sightunseen.cli._photo_progress import PhotoProgress
    from sightunseen.features.extract import extract
    from sightunseen.features.feature_files import write_features

    with PhotoProgress(backbone.name) as progress:
        batches = extract(photos.fresh_paths(), backbone, args.batch, progress.say, cache=not args.no_cache)
        try:
            watched = progress.watched(batches, len(photos))
            write_features(args.out, watched, backbone, photos.labels, photos.splits)
        except KeyboardInterrupt:
            kept = "nothing was saved" if args.no_cache else "they are kept, and the same command goes on from there"
            progress.say(f"interrupted after {progress.done:,} of {len(photos):,} photos; {kept}.")
            return STOPPED
    counts = f"{progress.done:,} photos, {progress.skipped:,} skipped, {progress.cached:,} from the cache"
    print(f"embedded {counts}: {args.out}")
    return 0
