"""Coverage-guided fuzzing of one target with Atheris: ``python -m tests.faults.fuzz_coverage TARGET SHELF FOLDER SECONDS``.

Runs cases inside this process, guided by the coverage of the package. The bytes of inputs that look like failures are
written to ``FOLDER/suspects``; :mod:`fuzz` checks them in a forked process.
"""

import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

SLOW = ("train", "adapt", "report", "demo", "ablate", "serve")  # commands that are left to forked processes


def main() -> None:
    """Fuzz until the time is up."""
    target, shelf, folder, seconds = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    with atheris.instrument_imports(include=["sightunseen"]):
        from .fuzz_property import import_everything

        import_everything()
    seeds = folder / "inputs"
    for name in (seeds, folder / "suspects"):
        name.mkdir(parents=True, exist_ok=True)
    for number in range(40):
        (seeds / f"seed{number}").write_bytes(os.urandom(600))
    os.chdir(tempfile.mkdtemp(prefix="fuzz-"))
    limits = [
        f"-max_total_time={seconds}",
        "-timeout=25",
        "-rss_limit_mb=4096",
        "-max_len=2000",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], str(seeds), f"-artifact_prefix={folder}/suspects/", *limits], Runner(target, shelf, folder))
    atheris.Fuzz()


class Runner:
    """Function that runs one input."""

    def __init__(self, target: str, shelf: Path, folder: Path) -> None:
        from .fuzz_targets import TARGETS

        self.make, self.shelf, self.suspects = TARGETS[target], shelf, folder / "suspects"
        self.known: set[str] = set()
        os.environ.update(SIGHTUNSEEN_CACHE=str(folder / "cache"), OMP_NUM_THREADS="1")

    def __call__(self, content: bytes) -> None:
        from .fuzz_property import MESSAGE_LENGTH, NUMERICAL
        from .fuzz_values import ByteRandom

        case = self.make(ByteRandom(content), self.shelf)
        if case.arguments[0] in SLOW or case.arguments[:2] == ["benchmark", "run"]:
            return
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, contextlib.chdir(folder):
            code, err = run_here(case.write(Path(folder), self.shelf))
        message = err.rpartition("error: ")[2]
        if code in (0, 1, 2) and not NUMERICAL.search(err) and not (code == 2 and len(message) > MESSAGE_LENGTH):
            return
        signature = re.sub(r"'[^']*'|[0-9]+(?!\))", "", err.strip().rpartition("\n")[2])[-150:]
        if signature not in self.known:
            self.known.add(signature)
            (self.suspects / f"suspect-{hashlib.sha256(content).hexdigest()[:16]}").write_bytes(content)


def run_here(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; returns the exit code and stderr."""
    from sightunseen.cli import main as command

    from .fuzz_case import CALL
    from .fuzz_property import _call

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = _call(arguments) if arguments[0].startswith(CALL) else command(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        except Exception as error:
            return 99, f"{type(error).__name__}: {error}"
    return int(code), err.getvalue()


if __name__ == "__main__":
    main()
