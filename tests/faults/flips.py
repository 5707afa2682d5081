"""Flipped bits in stored files: in models, results and checkpoints they are found; damaged caches are rebuilt."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from .campaign import Tally, sampled
from .invariants import states_of, wrong_ending
from .runs import Bench


def flips(path: Path, most: int | None, seed: int) -> Iterator[str]:
    """Flip one bit at each byte of a file, or at a number of them, and restore the file after each; yields where."""
    content = path.read_bytes()
    rng = random.Random(seed)
    for position in sampled(range(len(content)), most, seed):
        bit = 1 << rng.randrange(8)
        path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        yield f"bit {bit} of byte {position} of {path.name}"
    path.write_bytes(content)


def _must_raise(bench: Bench, tally: Tally, pattern: str, load: Callable[[], object], most: int | None) -> None:
    from sightunseen.core.errors import SightUnseenError

    for path in sorted(bench.root.glob(pattern)):
        for where in flips(path, most, len(path.name)):
            tally.counts["points"] += 1
            try:
                load()
                tally.note("lost", where, "not found")
            except SightUnseenError:
                pass
            except Exception as error:
                tally.note("messages", where, f"{type(error).__name__}: {error}")


def model_flips(bench: Bench, tally: Tally, most: int | None) -> None:
    """Flip bits of a model folder; ``bench`` is of ``classes-add``."""
    from sightunseen.methods import load_model

    bench.restore()
    _must_raise(bench, tally, "model/*", lambda: load_model(bench.root / "model"), most)


def result_flips(bench: Bench, tally: Tally, most: int | None) -> None:
    """Flip bits of the results of a benchmark; ``bench`` is of ``benchmark``."""
    from sightunseen.benchmark.store import Store

    bench.restore()
    bench.run(bench.command.line)
    _must_raise(bench, tally, "results/jobs/*.json", lambda: Store(bench.root / "results").outcomes(), most)


def checkpoint_flips(bench: Bench, tally: Tally, most: int | None) -> None:
    """Flip bits of checkpoints: the training is not resumed; ``bench`` is of ``train-resume``."""
    for checkpoint in sorted(bench.template.glob("*.checkpoint/[!.]*")):
        bench.restore()
        for where in flips(bench.root / checkpoint.relative_to(bench.template), most, len(checkpoint.name)):
            tally.counts["points"] += 1
            ended = bench.run(bench.command.line)
            for what in wrong_ending(ended.code, ended.err, allowed=(2,)):
                tally.note("lost" if ended.code == 0 else "messages", where, what)
            if ended.code == 0:
                bench.restore()


def cache_flips(bench: Bench, tally: Tally, most: int | None) -> None:
    """Flip bits of caches: the outputs stay the same; ``bench`` is of ``train-mat`` or ``embed-parquet``."""
    bench.restore()
    bench.run(bench.command.line)
    full = bench.root.with_name("full")
    (bench.root / "cache").rename(full)
    for path in sorted(path for path in full.rglob("*") if path.is_file()):
        for where in flips(path, most, len(path.name)):
            tally.counts["points"] += 1
            bench.restore()
            shutil.copytree(full, bench.root / "cache", dirs_exist_ok=True)
            ended = bench.run(bench.command.line)
            if ended.code or states_of(bench.root, bench.command) != bench.new:
                tally.note("differing", where, f"exit {ended.code}: {ended.err.strip()[-300:]}")
            if path.suffix == ".npy" and "damaged" not in ended.err:
                tally.note("lost", where, f"rebuilt or used without a note: {ended.err.strip()[-300:]}")


# Each kind of stored files: the command that writes them, and the check.
KINDS = {
    "classes-add": model_flips,
    "benchmark": result_flips,
    "train-resume": checkpoint_flips,
    "train-mat": cache_flips,
    "embed-parquet": cache_flips,
}
