"""Show the three settings on a small generated world (synthetic, nothing to download)."""

import argparse
import shutil
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--out", type=Path, default=Path("demo-results"), metavar="FOLDER", help="default: demo-results")
    parser.add_argument("--overwrite", action="store_true", help="replace the results of an earlier demo")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> int:
    """Make a world, train honestly, evaluate, adapt, predict."""
    from sightunseen.cli._run import ProgressBar
    from sightunseen.cli._tables import print_results
    from sightunseen.data.doctor import examine
    from sightunseen.data.worlds import World, make_world
    from sightunseen.errors import StorageError
    from sightunseen.methods.cvc import CVC
    from sightunseen.model_files import was_written_here
    from sightunseen.predictions import ranked, write_predictions
    from sightunseen.protocols import run_adaptation, run_training

    if args.out.exists():
        ours = was_written_here(args.out / "model")
        if not (args.overwrite and ours):
            raise StorageError(f"{args.out} exists. Choose another --out" + (", or give --overwrite." if ours else "."))
        shutil.rmtree(args.out)
    data = make_world(World(seed=args.seed))
    sizes = data.describe()
    print(
        f"A synthetic world: {sizes['classes']['seen']} seen classes with {sizes['images']['train']:,} training images, and "
        f"{sizes['classes']['unseen']} unseen classes known only by {data.classes.vectors.shape[1]} attributes each."
    )
    settings = {"hidden": 256, "n_tasks": 1000, "seed": args.seed}
    hooks = [ProgressBar()]
    model = run_training(CVC(**settings), data, args.out, findings=examine(data), hooks=hooks)
    adapted = run_adaptation(model, data, args.out, hooks=hooks)
    model.save(args.out / "model")
    adapted.save(args.out / "model-transductive")
    test = data.test_unseen
    answers = ranked(adapted, test.X, test.rows.astype(str), top=3)
    write_predictions(args.out / "predictions.csv", answers)
    assert model.record_ is not None
    assert adapted.record_ is not None
    print_results(
        "Synthetic world, percent (T1: among unseen classes; U, S, H: among all classes)",
        {"inductive": model.record_.results, "transductive": adapted.record_.results},
    )
    chance = 100 / len(data.unseen)
    print(f"Chance for T1 is {chance:.1f}. Everything was chosen on validation classes; the test images were looked at once.")
    print(f"Results are in {args.out}/: model, model-transductive (each with its record.json) and predictions.csv")
    return 0
