"""Run commands in forked processes, with or without a fault, and compare what they leave with a run without faults."""

import atexit
import importlib
import multiprocessing
import os
import select
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .commands import COMMANDS, SERVE, make_inputs
from .invariants import hidden_files, paths_below, states_of
from .shim import Fault, Kind, Mode, Operation, Shim, read_log

LONGEST_RUN = 120.0  # seconds; a longer one counts as a hang
HUNG = -1000
SETTLED = 2.5  # seconds after which caches rely on the time stamps of inputs
Work = Callable[[], int | None]
RETRIES = 4  # changes of a command line that its error messages ask for


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Parameters
    ----------
    code : int
        Exit code; negative for a signal, ``HUNG`` if it did not end.
    err : str
        What it printed to stderr.
    fired : Kind or None
        Kind of the operation at which the fault happened; None if the run ended before it.
    seconds : float
        Duration.
    """

    code: int
    err: str
    fired: Kind | None
    seconds: float


class Bench:
    """Working folder of one command: its root folder, and the states before and after it without a fault.

    Everything runs in forked processes. So modules are imported once, and no run sees another's memory.

    Parameters
    ----------
    name : str
        Name of the command in ``COMMANDS``.
    folder : Path
        Folder to work in.
    shim : Shim
        The fault injection library.
    """

    def __init__(self, name: str, folder: Path, shim: Shim) -> None:
        self.name, self.command, self.shim = name, COMMANDS[name], shim
        self.root, self.template = folder / "root", folder / "template"
        self.log, self.out, self.modules = folder / "log", folder / "output", folder / "modules"
        self.root.mkdir(parents=True)
        (folder / "tmp").mkdir()
        os.environ.update(SIGHTUNSEEN_CACHE=str(self.root / "cache"), TMPDIR=str(folder / "tmp"), COLUMNS="160")
        self._link_inputs(folder.parent / "inputs")
        for step in self.command.before:
            if callable(step):
                step(self.root)
            elif step.startswith("interrupted:"):
                self._interrupt(step.removeprefix("interrupted:"))
            else:
                self._must(step)
        shutil.copytree(self.root, self.template, symlinks=True)
        self._must(self.command.line)  # imports what the command needs
        self.restore()
        self.before = paths_below(self.root)
        self.old = states_of(self.root, self.command)
        self.operations = self.recorded()
        self.new, self.expected = states_of(self.root, self.command), paths_below(self.root)
        self.repeated: set[str] = set()  # states after which the command was repeated
        self.left_without_fault = hidden_files(self.expected)
        if self.command.instead:
            self._must(self.command.instead)
            self.expected |= paths_below(self.root)

    def _link_inputs(self, folder: Path) -> None:
        """Link to the inputs, which stay as they are while the root folder is replaced; write them first if necessary."""
        if not folder.exists():
            self._forked(lambda: make_inputs(folder))
            time.sleep(SETTLED)
        for name in self.command.needs:
            for path in (folder / name).iterdir():
                (self.root / path.name).symlink_to(path)

    def restore(self) -> None:
        """Bring the root folder into the state before the command."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root, symlinks=True)

    def recorded(self) -> list[Operation]:
        """Run the command and return its operations."""
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            ended = self.run(self.command.line, Fault(), log)
        finally:
            os.close(log)
        if ended.code:
            raise RuntimeError(f"{self.name}: exit {ended.code} without a fault: {ended.err}")
        return list(read_log(self.log))

    def run(self, line: str, fault: Fault | None = None, log: int = -1, kill_after: float | None = None) -> Ended:
        """Run a command line; without a fault its operations are not trapped.

        Parameters
        ----------
        line : str
            The command line.
        fault : Fault, optional
            The fault.
        log : int, default=-1
            Descriptor of the log of operations.
        kill_after : float, optional
            Seconds after which the process is killed.

        Returns
        -------
        Ended
            How it ended.
        """
        self.shim.set(self.root, fault or Fault(), log)
        code, seconds = self._forked(lambda: run_line(line, self.root), fault is not None, kill_after)
        fired = self.shim.control.fired
        return Ended(code, self.out.read_text(errors="replace"), Kind(fired - 1) if fired else None, seconds)

    def run_again(self) -> Ended:
        """Repeat the command after a fault, changed as its error messages ask for."""
        line = self.command.line
        for _ in range(RETRIES):
            ended = self.run(line)
            if ended.code not in (1, 2):
                break
            if "--retry" in ended.err and "--retry" not in line:
                line += " --retry"
            elif "without --resume" in ended.err:
                line = line.replace(" --resume", "")
            elif "--resume" in ended.err and "--resume" not in line:
                line += " --resume"
            elif "--overwrite" in ended.err and "--overwrite" not in line:
                line += " --overwrite"
            else:
                break
        return ended

    def _must(self, line: str) -> None:
        ended = self.run(line)
        if ended.code:
            raise RuntimeError(f"{self.name}: '{line}' ended with exit {ended.code}: {ended.err}")
        for name in self.modules.read_text().split():
            if name not in sys.modules:
                with suppress(Exception):
                    importlib.import_module(name)

    def _interrupt(self, line: str) -> None:
        """Run a command and kill it after its last checkpoint."""
        inputs = self.root.with_name("before")
        shutil.copytree(self.root, inputs, symlinks=True)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.run(line, Fault(), log)
        os.close(log)
        renamed = [one for one in read_log(self.log) if one.kind is Kind.RENAME and ".checkpoint/" in one.other]
        shutil.rmtree(self.root)
        inputs.rename(self.root)
        ended = self.run(line, Fault(Mode.KILL, renamed[-1].number))
        assert ended.code == -signal.SIGKILL, ended

    def _forked(
        self, work: Callable[[], int | None], armed: bool = False, kill_after: float | None = None
    ) -> tuple[int, float]:
        """Run a function in a forked process group; returns exit code and seconds."""
        sys.stdout.flush()
        started = time.monotonic()
        process = os.fork()
        if not process:
            self._in_child(work, armed)
        code = _waited(process, kill_after)
        seconds = time.monotonic() - started
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # workers of a killed process
        return code, seconds

    def _in_child(self, work: Work, armed: bool) -> None:
        code = 70
        try:
            os.setsid()
            output = os.open(self.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for descriptor in (1, 2):
                os.dup2(output, descriptor)
            if armed:
                self.shim.arm()
            code = work() or 0
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            if not armed:
                self.modules.write_text("\n".join(sys.modules))
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)


def run_line(line: str, root: Path) -> int:
    """Run a command line in this process; returns the exit code."""
    os.chdir(root)
    if line == SERVE:
        return _serve()
    from sightunseen.benchmark import workers
    from sightunseen.cli import main

    # Jobs run in forked workers: a spawned one would import everything again, and would not be trapped.
    workers.get_context = lambda _: multiprocessing.get_context("fork")
    try:
        return main(shlex.split(line))
    except SystemExit as ended:  # raised by argparse
        return int(ended.code or 0)


def _serve() -> int:
    """Add a class by a request to the service that saves its changes; returns 0 if it was accepted, else 2."""
    from fastapi.testclient import TestClient

    from sightunseen.methods import load_model
    from sightunseen.serve.app import create_app

    model = load_model(Path("model"))
    request = {"name": "extra", "attributes": dict.fromkeys(model.table_.attribute_names, 1.0)}
    with TestClient(create_app(model, folder=Path("model")), raise_server_exceptions=False) as client:
        reply = client.post("/classes", json=request)
    if reply.status_code == 201:
        return 0
    sys.stderr.write(f"error: {reply.json()['error']}\n")
    return 2 if reply.status_code in (409, 422, 503, 507) else 70


def _waited(process: int, kill_after: float | None) -> int:
    """Wait for a process; kill its group after a time. Returns the exit code."""
    descriptor = os.pidfd_open(process)
    try:
        ended = select.select([descriptor], [], [], LONGEST_RUN if kill_after is None else kill_after)[0]
        if not ended:
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return code if ended or kill_after is not None else HUNG
    finally:
        os.close(descriptor)
