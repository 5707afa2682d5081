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
    from sightunseen.cli._cluster import add_cluster_argument

    what = "folder of photos (flat, or one per class), a photo, a .csv with a column path, tar shards or a Hugging Face folder"
    parser.add_argument("photos", metavar="PHOTOS", type=Path, help=what)
    what = (
        "efficientnet_lite0 (default), _lite1, _lite2, hf:NAME_OR_FOLDER, onnx:FILE, torchvision:NAME, timm:NAME, "
        "open_clip:NAME/WEIGHTS or a plug-in, such as package.module:factory"
    )
    parser.add_argument("--backbone", default="efficientnet_lite0", metavar="NAME", help=what)
    what = "feature file to write: .parquet or .npz; - writes Parquet to stdout"
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=what)
    parser.add_argument("--batch", type=positive, default=32, metavar="N", help="batch size (default: 32)")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="device (default: a GPU if there is one)"
    )
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the feature cache")
    add_cluster_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Extract features and write them; returns the exit code."""
    from sightunseen.cli._output import check_output
    from sightunseen.data.photo_lists import list_photos
    from sightunseen.features.feature_files import check_ending

    check_output(args.out, check_ending, binary=True)
    photos = list_photos(args.photos)
    if photos.left_out:
        print(photos.remark, file=sys.stderr)
    from sightunseen.features.backbones import open_backbone

    # With --cluster, workers have the devices; here the backbone is only described.
    return _embed(args, photos, open_backbone(args.backbone, args.device if args.cluster is None else "cpu"))


def _embed(args: argparse.Namespace, photos: "PhotoList", backbone: "Backbone") -> int:
    from sightunseen.cli._cluster import connected
    from sightunseen.cli._jobs import STOPPED
    from sightunseen.cli._output import messages_of, output_file
    from sightunseen.cli._photo_progress import PhotoProgress
    from sightunseen.features.extract import extract
    from sightunseen.features.feature_files import write_features

    with connected(args) as cluster, PhotoProgress(backbone.name) as progress:
        how = (photos.fresh_paths(), backbone, args.batch, progress.say)
        if cluster is None:
            batches = extract(*how, cache=not args.no_cache)
        else:
            from sightunseen.cluster.embedding import extract_on

            batches = extract_on(cluster, *how, cache=not args.no_cache, device=args.device)
        try:
            watched = progress.watched(batches, len(photos))
            with output_file(args.out, ".parquet") as file:
                write_features(file, watched, backbone, photos.labels, photos.splits)
        except KeyboardInterrupt:
            kept = "nothing was saved" if args.no_cache else "they are kept, and the same command goes on from there"
            progress.say(f"interrupted after {progress.done:,} of {len(photos):,} photos; {kept}.")
            return STOPPED
    counts = f"{progress.done:,} photos, {progress.skipped:,} skipped, {progress.cached:,} from the cache"
    print(f"embedded {counts}: {args.out}", file=messages_of(args.out))
    return 0
