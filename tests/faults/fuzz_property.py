"""The property that every input must have, checked in a forked process for each input.

A command ends with exit code 0, 1 or 2, within 20 s and 2 GiB. With code 2 stderr ends in one message ``error: ...`` of at most
500 characters. There is no traceback and no warning of a numerical library. No file is left behind except the output of a
command that succeeded. A library function raises only ``SightUnseenError`` or ``OSError``.
"""

import gc
import importlib
import os
import pkgutil
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .fuzz_case import CALL, Case

SECONDS = 20.0
BYTES = 2 << 30
MESSAGE_LENGTH = 500
UNCAUGHT = 99  # exit code of the child for an exception that main() lets through
CODES = (0, 1, 2)
ERROR_LINE = re.compile(r"^(sightunseen[^:]*: )?error: ")
NUMERICAL = re.compile(
    r"RuntimeWarning|DeprecationWarning|FutureWarning|encountered in |Mean of empty slice|[Ii]ll-conditioned"
)
PLACE = re.compile(r'File "[^"]*?(sightunseen/[^"]+)", line (\d+)')
WHERE = re.compile(r"internal error: (\w+): .*?\(([^()]*:\d+)\)\. This is a bug", re.DOTALL)


@dataclass
class Result:
    """What a command did."""

    code: int
    seconds: float
    bytes: int
    out: str
    err: str
    hung: bool
    appeared: list[str] = field(default_factory=list)  # files and folders that are new or changed, relative to the sandbox
    removed: list[str] = field(default_factory=list)


@dataclass
class Failure:
    """A property that does not hold, with a signature that is equal for inputs that fail in the same way."""

    kind: str
    detail: str
    place: str = ""

    @property
    def signature(self) -> str:
        return f"{self.kind}: {self.place or re.sub(r'[0-9]+', 'N', self.detail)[:80]}"


def import_everything() -> None:
    """Import the package and what its commands import, so that a forked process starts at once."""
    import sightunseen

    optional = ("h5py", "onnxruntime", "pyarrow.csv", "pyarrow.parquet", "scipy.io", "sklearn.linear_model", "vl_convert")
    names = [module.name for module in pkgutil.walk_packages(sightunseen.__path__, "sightunseen.")]
    for name in (*names, *optional):
        if not name.endswith("__main__") and ".kernels" not in name:  # kernels need a GPU
            try:
                importlib.import_module(name)
            except ImportError:
                continue
    import PIL.Image
    import torch
    import torch._dynamo  # imported by the first step of an optimiser, which takes seconds

    PIL.Image.init()
    torch.set_num_threads(1)
    gc.freeze()  # forked processes do not copy the pages of these objects


def run_case(case: Case, shelf: Path, seconds: float = SECONDS) -> Result:
    """Run a case in a forked process with folders of its own."""
    sandbox = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for name in ("work", "home", "cache", "tmp"):
            (sandbox / name).mkdir()
        arguments = case.write(sandbox / "work", shelf)
        before = _listing(sandbox)
        result = _forked(arguments, sandbox, seconds)
        after = _listing(sandbox)
        result.appeared = sorted(name for name, state in after.items() if before.get(name) != state)
        result.removed = sorted(set(before) - set(after))
        return result
    finally:
        _make_writable(sandbox)
        shutil.rmtree(sandbox, ignore_errors=True)


def failures_of(case: Case, result: Result, seconds: float = SECONDS) -> list[Failure]:
    """Properties that do not hold."""
    found: list[Failure] = []
    lines = [line for line in result.err.splitlines() if line.strip()]
    if result.hung:
        if not (case.long and lines):
            found.append(Failure("hang", f"{result.seconds:.0f} s, limit {seconds:.0f} s", " ".join(case.arguments[:2])))
    elif result.code < 0:
        found.append(Failure("killed", f"signal {-result.code}", " ".join(case.arguments[:2])))
    elif result.code not in CODES:
        internal = WHERE.search(result.err)
        found.append(Failure(f"exit {result.code}", lines[-1][:300] if lines else "", internal[2] if internal else ""))
    if result.bytes > BYTES:
        found.append(Failure("memory", f"{result.bytes >> 20} MiB", " ".join(case.arguments[:2])))
    if "Traceback (most recent call last)" in result.err + result.out and result.code != UNCAUGHT:
        found.append(Failure("traceback", lines[-1][:300]))
    if numerical := NUMERICAL.search(result.err):
        line = next(line for line in lines if numerical[0] in line)
        found.append(Failure("numerical warning", line[:300]))
    if result.code == 2:
        errors = [number for number, line in enumerate(lines) if ERROR_LINE.match(line)]
        if len(errors) != 1:
            found.append(Failure("message", f"{len(errors)} error lines, last line of stderr: {(lines or [''])[-1][:200]!r}"))
        elif len(message := "\n".join(lines[errors[0] :])) > MESSAGE_LENGTH + len("sightunseen benchmark run: error: "):
            found.append(Failure("long message", f"{len(message)} characters: {message[:150]}"))
    return found + _left_behind(case, result)


def traced(case: Case, shelf: Path) -> str:
    """Exception and place in the package of a case that ends with exit code 70."""
    arguments = case.arguments if case.arguments[0].startswith(CALL) else ["--debug", *case.arguments]
    err = run_case(Case(arguments, case.files, case.outputs), shelf).err
    places = [f"{path}:{line}" for path, line in PLACE.findall(err) if not path.startswith("sightunseen/cli/__init__")]
    lines = [line for line in err.splitlines() if line.strip()]
    return f"{places[-1] if places else '?'} {lines[-1][:200] if lines else ''}"


def _left_behind(case: Case, result: Result) -> list[Failure]:
    allowed = [f"work/{name}" for name in case.outputs] if result.code in (0, 1) else []
    # A folder that holds an allowed output may be new or have a new time stamp.
    extra = [
        name
        for name in (*result.appeared, *result.removed)
        if not name.startswith(("cache", "tmp/torchinductor"))
        and not any(name == one or name.startswith(f"{one}/") or one.startswith(f"{name}/") for one in allowed)
        and name not in ("work", "home", "tmp")
    ]
    hidden = [name for name in result.appeared if Path(name).name.startswith(".") and name not in extra]
    if result.hung or result.code < 0:  # a killed command cannot clean up
        return []
    return [Failure("left behind", ", ".join((extra + hidden)[:4]))] if extra or hidden else []


def _forked(arguments: list[str], sandbox: Path, seconds: float) -> Result:
    started = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        code = UNCAUGHT
        try:
            code = _run_in_child(arguments, sandbox)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        hung = not poll.poll(1000 * seconds)
        # A busy machine makes everything slow: wait longer in proportion to its load.
        patience = min(8.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
        if hung and patience > 1:
            hung = not poll.poll(1000 * seconds * (patience - 1))
        if hung:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status, usage = os.wait4(child, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what the command started
    out, err = ((sandbox / name).read_bytes().decode("utf-8", "replace") for name in (".stdout", ".stderr"))
    (sandbox / ".stdout").unlink()
    (sandbox / ".stderr").unlink()
    code = os.waitstatus_to_exitcode(status)
    return Result(code, time.monotonic() - started, usage.ru_maxrss << 10, out, err, hung)


def _run_in_child(arguments: list[str], sandbox: Path) -> int:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number, name in ((1, ".stdout"), (2, ".stderr")):
        handle = os.open(sandbox / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Own streams: those of the parent may be captured by a test runner.
    sys.stdout = open(1, "w", encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.update(
        HOME=str(sandbox / "home"), SIGHTUNSEEN_CACHE=str(sandbox / "cache"), TMPDIR=str(sandbox / "tmp"), OMP_NUM_THREADS="1"
    )
    os.environ.pop("XDG_CACHE_HOME", None)
    tempfile.tempdir = None
    os.chdir(sandbox / "work")
    resource.setrlimit(resource.RLIMIT_DATA, (3 * BYTES, 3 * BYTES))  # protects the machine; the limit is checked afterwards
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if arguments[0].startswith(CALL):
        return _call(arguments)
    from sightunseen.cli import main

    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1


def _call(arguments: list[str]) -> int:
    from sightunseen.core.errors import SightUnseenError

    module, _, name = arguments[0].removeprefix(CALL).partition(":")
    try:
        getattr(importlib.import_module(module), name)(*arguments[1:])
    except (SightUnseenError, OSError) as error:
        sys.stderr.write(f"error: {str(error)[: MESSAGE_LENGTH - 10]!r}\n")
        return 2
    except Exception as error:
        places = [frame for frame in traceback.extract_tb(error.__traceback__) if "sightunseen" in frame.filename]
        traceback.print_exc()
        shown = f"{type(error).__name__}: {str(error)[:200]} ({places[-1].filename}:{places[-1].lineno})"
        sys.stderr.write(f"internal error: {shown}. This is a bug\n")
        return UNCAUGHT
    return 0


def _listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Kind, size and time stamp of every file and folder; those of folders only by kind."""
    found: dict[str, tuple[int, int, int]] = {}
    stack = [os.fsencode(folder)]
    while stack:
        for entry in os.scandir(stack.pop()):
            state = entry.stat(follow_symlinks=False)
            is_folder = entry.is_dir(follow_symlinks=False)
            name = os.fsdecode(os.path.relpath(entry.path, os.fsencode(folder)))
            found[name] = (state.st_mode, 0, 0) if is_folder else (state.st_mode, state.st_size, state.st_mtime_ns)
            if is_folder:
                stack.append(entry.path)
    return found


def _make_writable(folder: Path) -> None:
    for root, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
