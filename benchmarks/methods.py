"""What a fit of every method costs: its default settings, one processor core.

    python benchmarks/methods.py [FOLDER] [FEATURES]

Default: ../shared/xlsa17/data/CUB res50. Seconds to fit on the training images and, for transductive methods, to adapt to the
unseen test images; and T1 of what comes out, with nothing chosen. ``sightunseen methods`` shows these costs.
"""

import argparse
import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy and torch count the cores

import torch
from threadpoolctl import threadpool_limits

from sightunseen import evaluate, load_gbu
from sightunseen.methods import METHODS, AdaptableClassifier
from sightunseen.methods.catalogue import CARDS, TRANSDUCTIVE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("../shared/xlsa17/data/CUB"))
    parser.add_argument("features", nargs="?", default="res50")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = load_gbu(args.folder, features=args.features)
    X, y, unlabelled = data.train.X, data.train.y, data.test_unseen.X
    print(f"{data.name} {args.features}, one core, default settings\n{'':16}  seconds     T1  in the catalogue")
    for name, card in CARDS.items():
        with threadpool_limits(1):
            started = time.perf_counter()
            model = METHODS[card.estimator](**card.settings).fit(X, y, data.classes)
            if card.setting == TRANSDUCTIVE:
                assert isinstance(model, AdaptableClassifier)
                model = model.adapt(unlabelled, data.unseen, **card.adaptation)
            taken = time.perf_counter() - started
        print(f"{name:16}  {taken:7.1f}  {evaluate(model, data).T1:5.1f}  {card.cost} s", flush=True)


if __name__ == "__main__":
    main()
