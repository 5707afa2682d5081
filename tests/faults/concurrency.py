"""Commands that run at the same time on the same files: nothing acknowledged is lost, and readers are not disturbed."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from .campaign import Tally
from .invariants import hidden_files, paths_below, states_of
from .runs import Bench, run_line

TRAIN_A = "train data --method CVC --set hidden=8 --set n_steps=20 --out model"
TRAIN_B = f"{TRAIN_A} --seed 1"


def together(bench: Bench, lines: Sequence[str]) -> list[tuple[int, str]]:
    """Run command lines at the same time; returns exit code and output of each."""
    outputs = [bench.root.with_name(f"output-{k}") for k in range(len(lines))]
    ready, start = os.pipe()
    processes = [_started(line, bench.root, output, (ready, start)) for line, output in zip(lines, outputs, strict=True)]
    os.close(ready)
    os.close(start)  # all processes wait for this
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    return [(code, output.read_text(errors="replace")) for code, output in zip(codes, outputs, strict=True)]


def _started(line: str, root: Path, output: Path, gate: tuple[int, int]) -> int:
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        signal.alarm(300)
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(gate[1])
        os.read(gate[0], 1)
        code = run_line(line, root)
    finally:
        os._exit(code)


def writers_of_one_model(bench: Bench, tally: Tally, writers: int = 16, readers: int = 4) -> None:
    """Add classes to one model at the same time, while others predict with it; ``bench`` is of ``classes-add``."""
    from sightunseen.methods import load_model

    bench.restore()
    names = [f"new-{k:02d}" for k in range(writers)]
    for name in names:
        table = (bench.root / "extra.csv").read_text("utf-8")
        (bench.root / f"{name}.csv").write_text(table.replace("extra", name), "utf-8")
    before = paths_below(bench.root)
    lines = [f"classes add model --name {name} --attributes {name}.csv" for name in names]
    ended = together(bench, [*lines, *["predict model images.csv"] * readers])
    known = set(load_model(bench.root / "model").classes_.tolist())
    for name, (code, out) in zip(names, ended, strict=False):
        tally.counts["points"] += 1
        if code == 0 and name not in known:
            tally.note("lost", f"{writers} writers", f"'{name}' was acknowledged: {out.strip()[-200:]}")
        if code not in (0, 2):
            tally.note("messages", f"{writers} writers", f"exit {code}: {out.strip()[-300:]}")
    tally.counts["acknowledged"] += sum(code == 0 for code, _ in ended[:writers])
    for code, out in ended[writers:]:
        tally.counts["points"] += 1
        if code:
            tally.note("messages", f"reader beside {writers} writers", f"exit {code}: {out.strip()[-300:]}")
    _note_left(bench, tally, before, f"{writers} writers")


def trainings_to_one_folder(bench: Bench, tally: Tally) -> None:
    """Train two models to one folder at the same time: one is written completely, the other refused; of ``train-cvc``."""
    alone = []
    for line in (TRAIN_A, TRAIN_B):
        bench.restore()
        bench.run(line)
        alone.append(states_of(bench.root, bench.command))
    expected = paths_below(bench.root)
    bench.restore()
    ended = together(bench, [TRAIN_A, TRAIN_B])
    found = states_of(bench.root, bench.command)
    tally.counts["points"] += 2
    acknowledged = [state for (code, _), state in zip(ended, alone, strict=True) if code == 0]
    if len(acknowledged) != 1 or found != acknowledged[0]:
        tally.note("lost", "two trainings", f"exits {[code for code, _ in ended]}: {ended[0][1][-200:]} / {ended[1][1][-200:]}")
    if any(code not in (0, 2) for code, _ in ended):
        tally.note("messages", "two trainings", f"{[(code, out[-200:]) for code, out in ended]}")
    _note_left(bench, tally, expected, "two trainings")


def first_loads_of_one_table(bench: Bench, tally: Tally, readers: int = 6) -> None:
    """Load a table for the first time in several processes; of ``train``."""
    bench.restore()
    ended = together(bench, [f"train data --select none --out model-{k}" for k in range(readers)])
    states = {str(states_of(bench.root, _with_model(bench, f"model-{k}"))).replace(f"model-{k}", "") for k in range(readers)}
    tally.counts["points"] += readers
    if any(code for code, _ in ended) or len(states) != 1:
        tally.note("differing", f"{readers} first loads", f"{[(code, out[-200:]) for code, out in ended if code]}")
    if hidden_files(paths_below(bench.root)):
        tally.note("leftovers", f"{readers} first loads", ", ".join(hidden_files(paths_below(bench.root))))


def _with_model(bench: Bench, name: str) -> object:
    from dataclasses import replace

    return replace(bench.command, models=(name,))


def _note_left(bench: Bench, tally: Tally, expected: set[str], where: str) -> None:
    left = sorted(paths_below(bench.root) - expected)
    if left:
        tally.note("leftovers", where, ", ".join(left[:4]))
