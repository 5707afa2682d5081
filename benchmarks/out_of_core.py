"""Training on features larger than memory: peak memory and rate at several sizes, beside a bare pass over the same file.

The bare pass reads the file once and multiplies every block with its transpose, twice, as the two views of Foresight need it.

    python benchmarks/out_of_core.py --gib 2 4 8
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from safetensors.numpy import load_file

FEATURES, ATTRIBUTES, SEEN, UNSEEN = 2048, 85, 150, 50
ROWS = 4096  # rows of a row group
MEMORY = 2 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, nargs="+", default=[2, 4, 8], help="sizes of the features (default: 2 4 8)")
    parser.add_argument("--folder", type=Path, help="where the files are written (default: a temporary folder)")
    parser.add_argument("--part", choices=("train", "bare"), help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part is not None:
        print(json.dumps(PARTS[args.part](args.data)))
        return
    with TemporaryDirectory(dir=args.folder) as folder:
        print("| features | bare pass | train | rate of train / bare | peak memory of train |\n|---|---|---|---|---|")
        found = []
        for gib in args.gib:
            data = Path(folder) / f"{gib:g}"
            write(data, int(gib * 2**30 / (4 * FEATURES)))
            bare, train = measured("bare", data), measured("train", data)
            found.append((gib, bare["seconds"], train["seconds"]))
            ratio, peak = bare["seconds"] / train["seconds"], train["peak"] / 2**30
            print(
                f"| {gib:g} GiB | {bare['seconds']:.0f} s | {train['seconds']:.0f} s | {ratio:.2f} | {peak:.2f} GiB |",
                flush=True,
            )
            if gib == args.gib[0]:
                differences = compared(data)
            shutil.rmtree(data)
        (_, *first), (_, *last) = found[0], found[-1]
        if len(found) > 1:
            extra = (last[0] - first[0]) / (last[1] - first[1])
            print(f"\nEach further GiB is trained on at {extra:.2f} of the rate of the bare pass.")
        print(f"\nTrained on {args.gib[0]:g} GiB in memory and from disk: {differences}.")


def compared(data: Path) -> str:
    """Train without the limit, so that the features are loaded, and compare with the model that was trained from disk."""
    (data / "model").rename(data / "from disk")
    measured("train", data, limited=False)
    one, other = (load_file(data / name / "weights.safetensors") for name in ("from disk", "model"))
    arrays = [(one[name].astype(float), other[name].astype(float)) for name in one if one[name].size]
    weights = max(np.abs(here - there).max() / max(np.abs(here).max(), 1e-9) for here, there in arrays)
    results = [json.loads((data / name / "record.json").read_text("utf-8"))["results"] for name in ("from disk", "model")]
    same = "equal" if results[0] == results[1] else "DIFFERENT"
    return f"arrays of the models differ by {weights:.0e} of the largest, results are {same}"


def measured(part: str, data: Path, limited: bool = True) -> dict[str, float]:
    """Run a part in a process of its own, whose memory is limited to 2 GiB."""
    command = [sys.executable, __file__, "--part", part, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_memory if limited else None)
    if done.returncode:
        sys.exit(done.stderr)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def limit_memory() -> None:
    """Limit the memory of this process: by a control group, which also counts cached files, or else its private memory."""
    group = Path("/sys/fs/cgroup/memory/sightunseen")
    try:
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def write(folder: Path, rows: int) -> None:
    """Write features around class means, which depend on the class vectors; a tenth of the rows are test images."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = np.array([f"class {k:03}" for k in range(SEEN + UNSEEN)])
    vectors = rng.random((len(names), ATTRIBUTES)).astype(np.float32)
    means = np.maximum(vectors @ rng.normal(size=(ATTRIBUTES, FEATURES)).astype(np.float32), 0)
    columns = {"class": names, **{f"attribute {k}": vectors[:, k] for k in range(ATTRIBUTES)}}
    parquet.write_table(pa.table(columns), folder / "classes.parquet")
    kinds = pa.schema([("label", pa.string()), ("split", pa.string()), ("features", pa.list_(pa.float32(), FEATURES))])
    noise = 2 * rng.standard_normal((4 * ROWS, FEATURES), dtype=np.float32)
    with parquet.ParquetWriter(
        folder / "features.parquet", kinds, compression="none", use_dictionary=["label", "split"]
    ) as file:
        for start in range(0, rows, ROWS):
            size = min(ROWS, rows - start)
            split = rng.choice(["train", "test_seen", "test_unseen"], p=[0.9, 0.05, 0.05], size=size)
            classes = np.where(split == "test_unseen", SEEN + rng.integers(UNSEEN, size=size), rng.integers(SEEN, size=size))
            X = means[classes] + noise[rng.integers(len(noise), size=size)] * rng.uniform(0.5, 1.5, size=(size, 1)).astype("f4")
            X += 0.1 * rng.standard_normal((size, FEATURES), dtype=np.float32)
            values = pa.FixedSizeListArray.from_arrays(pa.array(np.maximum(X, 0).ravel()), FEATURES)
            file.write_table(pa.table([names[classes], split, values], schema=kinds))


def bare(data: Path) -> dict[str, float]:
    started = time.perf_counter()
    with parquet.ParquetFile(data / "features.parquet", pre_buffer=False) as file:
        for batch in file.iter_batches(ROWS, columns=["features"]):
            X = batch.column(0).values.to_numpy().reshape(-1, FEATURES)
            for _ in range(2):
                X.T @ X
    return {"seconds": time.perf_counter() - started, "peak": 0}


def train(data: Path) -> dict[str, float]:
    from sightunseen.cli import main as sightunseen

    started = time.perf_counter()
    code = sightunseen(["train", str(data), "--out", f"{data}/model", "--overwrite"])
    if code:
        sys.exit(f"train ended with {code}")
    return {"seconds": time.perf_counter() - started, "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


PARTS = {"train": train, "bare": bare}

if __name__ == "__main__":
    main()
