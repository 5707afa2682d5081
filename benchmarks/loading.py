"""How much faster is the second load of a benchmark folder? Prints times and their ratio.

    python benchmarks/loading.py [FOLDER] [FEATURES]

Default: ../shared/xlsa17/data/CUB res50. The first load reads the .mat files and fills a cache; the second maps it.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from sightunseen import load_gbu


def seconds(folder: Path, features: str) -> float:
    started = time.perf_counter()
    load_gbu(folder, features=features)
    return time.perf_counter() - started


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/xlsa17/data/CUB")
    features = sys.argv[2] if len(sys.argv) > 2 else "res50"
    firsts, seconds_later = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["SIGHTUNSEEN_CACHE"] = cache
            firsts.append(seconds(folder, features))
            seconds_later.append(min(seconds(folder, features) for _ in range(3)))
    first, later = statistics.median(firsts), statistics.median(seconds_later)
    print(f"{folder.name} {features}: first load {first:.3f} s, second load {later:.4f} s, {first / later:.0f} times faster")


if __name__ == "__main__":
    main()
