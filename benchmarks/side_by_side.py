"""Is a version of sightunseen slower than another? Prints times of both, measured in turn, and their ratio.

    git worktree add /tmp/before REVISION
    python benchmarks/side_by_side.py /tmp/before [DATA] [--repeats 7]

Times train, predict and the second load of a benchmark folder (default: ../shared/xlsa17/data/CUB, features res50). Every
command is a new process. The two versions alternate, and the median is taken, so that other load on the machine hits both.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
LOAD = "import time, sys; from sightunseen import load_gbu; load_gbu(sys.argv[1], features='res50'); " + (
    "t = time.perf_counter(); load_gbu(sys.argv[1], features='res50'); print(time.perf_counter() - t)"
)


def seconds(version: Path, cache: Path, *words: object) -> float:
    """Run a command, or the load in Python; returns its wall-clock time, or the time that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(version / "src"), "SIGHTUNSEEN_CACHE": str(cache)}
    started = time.perf_counter()
    ran = subprocess.run([sys.executable, *map(str, words)], env=environment, capture_output=True, text=True, check=True)
    return float(ran.stdout) if words[0] == "-c" else time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("before", type=Path, help="checkout of the other version")
    parser.add_argument("data", type=Path, nargs="?", default=Path("../shared/xlsa17/data/CUB"))
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run, data = ("-m", "sightunseen"), (args.data, "--features", "res50")
        tasks = {
            "second load": ("-c", LOAD, args.data),
            "inspect": (*run, "inspect", *data),
            "train": (*run, "train", *data, "--select", "none", "--out", work / "new", "--overwrite"),
            "predict": (*run, "predict", work / "new", work / "images.npy", "--out", work / "answers.csv"),
        }
        _write_images(work / "images.npy", args.data)
        versions = {"before": args.before, "now": HERE}
        for task, words in tasks.items():
            times: dict[str, list[float]] = {version: [] for version in versions}
            for repeat in range(args.repeats + 1):
                for version, folder in versions.items():
                    used = seconds(folder, work / version, *words)
                    if repeat:  # the first run fills caches
                        times[version].append(used)
            before, now = (statistics.median(times[version]) for version in versions)
            print(f"{task}: before {before:.3f} s, now {now:.3f} s, ratio {now / before:.3f}", flush=True)


def _write_images(path: Path, data: Path) -> None:
    import numpy as np

    from sightunseen import load_gbu

    np.save(path, load_gbu(data, features="res50").test_unseen.X)


if __name__ == "__main__":
    main()
