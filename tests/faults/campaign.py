"""Faults of one command: a crash, an error or a loss of power at each operation, and crashes at random times."""

import errno
import random
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from .invariants import broken_outputs, paths_below, states_of, tree_digest, wrong_ending
from .power_loss import states_after_loss, write_tree
from .runs import HUNG, Bench, Ended
from .shim import ERRORS, Fault, Kind, Mode

T = TypeVar("T")
COUNTED = ("points", "broken", "vanished", "lost", "differing", "leftovers", "messages", "hangs")
MOST_EXAMPLES = 12  # of each kind


@dataclass
class Tally:
    """Counts of points and of what was found wrong, with examples.

    Parameters
    ----------
    name : str
        Name of the command.
    counts : Counter
        Numbers by the names in ``COUNTED``: points tried; outputs that are broken, vanished, or lost after exit 0; reruns
        that fail or differ; files left behind; wrong exit codes or messages; runs without an end.
    examples : list of str
        What was found, in words.
    """

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, where: object, what: str) -> None:
        """Count a finding."""
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_EXAMPLES:
            self.examples.append(f"{self.name}, {where}: {kind}: {what}")


def sampled(items: Iterable[T], most: int | None, seed: int) -> list[T]:
    """All items, or at most a number of them, evenly spaced from a start that is drawn by the seed."""
    every = list(items)
    if most is None or len(every) <= most:
        return every
    start = random.Random(seed).random()
    return [every[int((k + start) * len(every) / most)] for k in range(most)]


def crash_points(bench: Bench, tally: Tally, most: int | None = None, seed: int = 0) -> None:
    """Kill the command before each operation, and in the middle of each write."""
    faults = [Fault(Mode.KILL, one.number) for one in bench.operations]
    faults += [Fault(Mode.TORN, one.number) for one in bench.operations if one.kind is Kind.WRITE]
    for fault in sampled(sorted(faults, key=lambda fault: fault.target), most, seed):
        bench.restore()
        ended = bench.run(bench.command.line, fault)
        where = _where(bench, fault)
        if ended.code != -signal.SIGKILL:
            tally.note("messages", where, f"not killed: exit {ended.code}: {ended.err[-200:]}")
        _check_state(bench, tally, where)
        _check_rerun(bench, tally, where)
        tally.counts["points"] += 1


def failing_calls(bench: Bench, tally: Tally, most: int | None = None, seed: int = 0) -> None:
    """Let each operation fail with each error, each write be short, and the disk stay full from each operation on."""
    faults = []
    for one in bench.operations:
        faults += [Fault(Mode.FAIL, one.number, error) for error, kinds in ERRORS.items() if one.kind in kinds]
        faults += [Fault(mode, one.number) for mode in (Mode.SHORT, Mode.FULL) if one.kind is Kind.WRITE]
    for fault in sampled(faults, most, seed):
        _failing_call(bench, tally, fault)


def _failing_call(bench: Bench, tally: Tally, fault: Fault) -> None:
    bench.restore()
    ended = bench.run(bench.command.line, fault)
    where = _where(bench, fault)
    tally.counts["points"] += 1
    if ended.fired is None:
        return
    found = _check_state(bench, tally, where)
    harmless = fault.mode is Mode.SHORT or fault.error == errno.EINTR
    if ended.code == HUNG:
        tally.note("hangs", where, ended.err[-300:])
    else:
        allowed = (0,) if harmless else (0, 1, 2) if "jobs" in "".join(bench.command.files) else (0, 2)
        for what in wrong_ending(ended.code, ended.err, allowed):
            tally.note("messages", where, what)
    if ended.code == 0 and found != bench.new:
        tally.note("lost", where, f"exit 0 without the new outputs: {ended.err[-300:]}")
    if ended.fired not in (Kind.UNLINK, Kind.RMDIR):  # what could not be removed is removed by the next run
        _check_leftovers(bench, tally, where, ended)
    _check_rerun(bench, tally, where)


def power_losses(bench: Bench, tally: Tally, most: int | None = None, seed: int = 0) -> None:
    """Lose power after each operation; after exit 0 nothing may be lost."""
    states = list(states_after_loss(bench.template, bench.root, bench.operations, seed))
    acknowledged = [state for state in states if state[0] == len(bench.operations)]
    for number, what, tree in [*sampled(states, most, seed), *acknowledged]:
        write_tree(tree, bench.root)
        where = f"loss of power after {_shown(bench, number)}, {what} survived"
        found = _check_state(bench, tally, where)
        if number == len(bench.operations) and found != bench.new:
            missing = [name for name in bench.new if found.get(name) != bench.new[name]]
            tally.note("lost", where, f"acknowledged, but not durable: {', '.join(missing)}")
        _check_rerun(bench, tally, where)
        tally.counts["points"] += 1


def random_kills(bench: Bench, tally: Tally, kills: int, seed: int = 0) -> None:
    """Kill the command at random times."""
    bench.restore()
    longest = bench.run(bench.command.line).seconds
    rng = random.Random(seed)
    for _ in range(kills):
        seconds = rng.uniform(0, longest)
        bench.restore()
        bench.run(bench.command.line, kill_after=seconds)
        where = f"killed after {seconds:.3f} s"
        _check_state(bench, tally, where)
        _check_rerun(bench, tally, where)
        tally.counts["points"] += 1


def _check_state(bench: Bench, tally: Tally, where: object) -> dict[str, str]:
    found = states_of(bench.root, bench.command)
    for what in broken_outputs(found, bench.old, bench.new):
        tally.note("vanished" if what.startswith("vanished") else "broken", where, what)
    return found


def _check_rerun(bench: Bench, tally: Tally, where: object) -> None:
    """Repeat the command without a fault: it must give the same outputs as if there had been none, and tidy up."""
    state = tree_digest(bench.root)
    if state in bench.repeated:  # many faults leave the same files
        return
    if bench.command.instead and states_of(bench.root, bench.command) == bench.new:
        ended = bench.run(bench.command.instead)
    else:
        ended = bench.run_again()
        if ended.code == 0 and states_of(bench.root, bench.command) != bench.new:
            tally.note("differing", where, "the outputs of the rerun differ")
    bench.repeated.add(state)
    if ended.code:
        tally.note("differing", where, f"rerun ended with exit {ended.code}: {ended.err.strip()[-300:]}")
    _check_leftovers(bench, tally, f"{where}, rerun")


def _check_leftovers(bench: Bench, tally: Tally, where: object, ended: Ended | None = None) -> None:
    left = _outermost(paths_below(bench.root) - bench.expected)
    if ended is not None:  # a rerun needs the checkpoint of a training, and the journal of a database on a full disk
        left = [path for path in left if path not in bench.before and not path.endswith((".checkpoint", "-journal"))]
    if left:
        tally.note("leftovers", where, ", ".join(left[:4]))


def _outermost(paths: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(paths):
        if not kept or not path.startswith(f"{kept[-1]}/"):
            kept.append(path)
    return kept


def _where(bench: Bench, fault: Fault) -> str:
    return f"{fault} ({_shown(bench, fault.target)})"


def _shown(bench: Bench, number: int) -> str:
    return f"operation {bench.operations[number - 1]}".replace(f"{bench.root}/", "")
