"""Fuzz every loader, the command line and the HTTP API: ``python -m tests.faults.fuzz --minutes 30``.

Half of the time runs generated inputs in forked processes, a third runs coverage-guided inputs (where Atheris is installed),
and the rest sends requests to the HTTP API. What ran is printed every minute, and a table at the end. The exit code is 1 if an
input violates the property of :mod:`fuzz_property`; failing inputs are added to ``--findings`` in the form of the corpus.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
COVERED = ("tables", "features", "class files", "benchmark folders", "plans", "results", "models", "candidates", "arguments")
SHARES = {"coverage": 0.35, "requests": 0.1, "sockets": 0.05}  # of the time; the rest is for forked processes
SHORTEST = 30.0  # seconds of coverage-guided fuzzing of a target


@dataclass
class Tally:
    """What ran against one target."""

    inputs: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)  # by signature


@dataclass
class Campaign:
    """State of a run: targets, folders, and what was found."""

    shelf: Path
    findings: Path
    seed: int
    tallies: dict[str, Tally] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)

    def tally(self, name: str) -> Tally:
        return self.tallies.setdefault(name, Tally())

    def run(self, name: str, case: Any) -> bool:
        """Run a case in a forked process and note its failures; returns whether there are any."""
        from .fuzz_corpus import save_finding
        from .fuzz_property import failures_of, run_case, traced

        tally, result = self.tally(name), run_case(case, self.shelf)
        tally.inputs += 1
        tally.codes["hang" if result.hung else str(result.code)] += 1
        found = failures_of(case, result)
        for failure in found:
            if failure.signature not in tally.failures:
                detail = f"{failure.kind}: {failure.detail}"
                if failure.kind.startswith("exit"):
                    detail = f"{traced(case, self.shelf)} | {detail}"
                say(f"FAIL {name}: {detail}\n     {' '.join(case.arguments)[:200]!r}")
                save_finding(self.findings, name, case, failure.signature, detail)
            tally.failures[failure.signature] += 1
        self.tell()
        return bool(found)

    def tell(self) -> None:
        """Print what ran, once a minute."""
        if time.monotonic() - self.told > 60:
            self.told = time.monotonic()
            shown = ", ".join(f"{name} {tally.inputs}" for name, tally in self.tallies.items())
            failed = sum(sum(tally.failures.values()) for tally in self.tallies.values())
            say(f"{(self.told - self.started) / 60:.0f} min: {shown}; failures: {failed}")

    def fork(self, targets: list[str], seconds: float) -> None:
        """Run generated cases of all targets in turn."""
        from .fuzz_targets import TARGETS

        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            for name in targets:
                try:
                    case = TARGETS[name](random.Random(f"{self.seed} {name} {number}"), self.shelf)
                except Exception as error:  # a fault of the generator, not of the package
                    self.tally(name).failures[f"no input could be made: {type(error).__name__}: {error}"] += 1
                    continue
                self.run(name, case)
            number += 1

    def cover(self, targets: list[str], seconds: float, folder: Path) -> None:
        """Run coverage-guided fuzzing of some targets, each in a process of its own, and check its suspects."""
        from .fuzz_targets import TARGETS
        from .fuzz_values import ByteRandom

        most = max(1, int(seconds // SHORTEST))
        chosen = random.Random(self.seed).sample(targets, min(most, len(targets)))
        for name in chosen:
            work = folder / name.replace(" ", "-")
            share = str(max(1, int(seconds / len(chosen))))
            command = [sys.executable, "-m", "tests.faults.fuzz_coverage", name, str(self.shelf), str(work), share]
            ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=REPOSITORY)
            lines = [line.split() for line in ended.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
            tally = self.tally(f"{name}, guided")
            tally.inputs += int(lines[-1][1]) if lines else 0
            if not lines:
                say(f"{name}: the coverage-guided engine ended with {ended.returncode}: {ended.stderr[-300:]}")
            for suspect in sorted((work / "suspects").glob("*")):
                if not self.run(f"{name}, guided", TARGETS[name](ByteRandom(suspect.read_bytes()), self.shelf)):
                    say(f"{name}: {suspect.name} does not fail in a process of its own")

    def request(self, seconds: float, folder: Path) -> None:
        """Send requests that follow and violate the OpenAPI schema, in a process of their own."""
        command = [sys.executable, "-m", "tests.faults.fuzz_http", str(self.shelf / "seer"), str(seconds)]
        ended = subprocess.run(
            [*command, str(self.seed)], capture_output=True, text=True, errors="replace", check=False, cwd=REPOSITORY
        )
        tally = self.tally("requests")
        for line in ended.stdout.splitlines():
            if line.startswith("sent "):
                tally.inputs = int(line.split()[1])
            elif line.startswith("FAIL "):
                say(line)
                tally.failures[line.removeprefix("FAIL ")] += 1
        if ended.returncode and not tally.failures:
            say(ended.stderr[-1000:])
            tally.failures[f"exit code {ended.returncode}"] += 1

    def attack(self, seconds: float, folder: Path) -> None:
        """Send malformed bytes to a server process."""
        from .fuzz_sockets import fuzz_sockets

        answers, failures = fuzz_sockets(self.shelf / "seer", folder, seconds, self.seed)
        tally = self.tally("sockets")
        tally.inputs, tally.codes, tally.failures = sum(answers.values()), answers, failures
        for text in failures:
            say(f"FAIL sockets: {text}")

    def print_table(self) -> None:
        """Print one row per target, and the failures by frequency."""
        say(f"\n{'target':<28}{'inputs':>8}  {'exits by code':<40}{'failures':>8}")
        for name, tally in self.tallies.items():
            codes = ", ".join(f"{code}: {count}" for code, count in sorted(tally.codes.items()))
            say(f"{name:<28}{tally.inputs:>8}  {codes:<40}{sum(tally.failures.values()):>8}")
        found = [(count, name, text) for name, tally in self.tallies.items() for text, count in tally.failures.items()]
        for count, name, text in sorted(found, reverse=True):
            say(f"  {count:>5} x {name}: {text}")


def say(text: str) -> None:
    """Print a line at once."""
    print(text.encode("utf-8", "backslashreplace").decode(), flush=True)


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="time for all targets together (default: 30)")
    parser.add_argument("--targets", nargs="+", metavar="NAME", help="only these targets, in forked processes")
    parser.add_argument("--seed", type=int, help="random seed (default: from the clock)")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), metavar="FOLDER", help="failing inputs")
    parser.add_argument("--shelf", type=Path, metavar="FOLDER", help="valid files; made if the folder does not exist")
    return parser.parse_args()


def main() -> int:
    """Run all targets until the time is up; returns the exit code."""
    args = parsed()
    os.environ["OMP_NUM_THREADS"] = "1"
    from .fuzz_property import import_everything
    from .fuzz_shelf import build_shelf
    from .fuzz_targets import TARGETS

    import_everything()
    with tempfile.TemporaryDirectory(prefix="fuzzing-") as name:
        folder = Path(name)
        shelf = (args.shelf or folder / "shelf").absolute()
        if not shelf.is_dir():
            build_shelf(shelf)
        campaign = Campaign(shelf, args.findings, int(time.time()) if args.seed is None else args.seed)
        say(f"seed {campaign.seed}")
        seconds = 60 * args.minutes
        shares = {name: seconds * share for name, share in SHARES.items()} if args.targets is None else {}
        if find_spec("atheris") is None:
            shares.pop("coverage", None)
        if find_spec("schemathesis") is None:
            shares.pop("requests", None)
        campaign.fork(args.targets or list(TARGETS), seconds - sum(shares.values()))
        if "coverage" in shares:
            campaign.cover(list(COVERED), shares["coverage"], folder)
        if "requests" in shares:
            campaign.request(shares["requests"], folder)
        if "sockets" in shares:
            campaign.attack(shares["sockets"], folder)
    campaign.print_table()
    return 1 if any(tally.failures for tally in campaign.tallies.values()) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # native libraries print about leaks at the end of a process
