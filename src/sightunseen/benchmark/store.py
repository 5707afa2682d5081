"""The outcomes of jobs: one file each, written whole or not at all, so that a killed run loses only the job in hand."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.files import written_atomically

DONE, FAILED, SKIPPED = "done", "failed", "skipped"
STORE_VERSION = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    ``identity`` is all that changes the answer, and nothing else; ``shown`` what tables need to show it (names, backbone).
    ``record`` is the run record of a job that is done; ``reason`` says why another failed or was skipped.
    """

    state: str
    identity: Mapping[str, Any]
    shown: Mapping[str, Any]
    reason: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    store_version: int = STORE_VERSION

    @property
    def id(self) -> str:
        """The job's name: a hash of its identity."""
        return job_id(self.identity)


def job_id(identity: Mapping[str, Any]) -> str:
    """A hash of what changes the answer: no paths, no hosts, no order of keys."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Store:
    """A folder of outcomes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second run out of the folder while this one writes."""
        import fcntl  # not on Windows, where results can still be shown

        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"{self.folder} is a file. Give --out the name of a folder.")
        if self.folder.is_dir() and not self.jobs.is_dir() and any(self.folder.iterdir()):
            raise StorageError(f"{self.folder} holds something else than a benchmark's results; it is left alone.")
        self.jobs.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StorageError(f"another run is writing to {self.folder}. Wait for it, or choose another --out.") from error
            yield

    def add(self, outcome: Outcome) -> None:
        """Write an outcome; an earlier one of the same job is replaced."""
        text = json.dumps(asdict(outcome), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        with written_atomically(self.jobs / f"{outcome.id}.json") as temporary:
            temporary.write_text(text, encoding="utf-8")

    def outcomes(self) -> dict[str, Outcome]:
        """Every outcome by the job's id."""
        if not self.jobs.is_dir():
            raise StorageError(f"{self.folder} holds no results of a benchmark. Make some with: sightunseen benchmark run")
        return {path.stem: _read(path) for path in sorted(self.jobs.glob("[!.]*.json"))}

    def forget(self, job: str) -> None:
        """Remove an outcome."""
        (self.jobs / f"{job}.json").unlink(missing_ok=True)


def _read(path: Path) -> Outcome:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("store_version") != STORE_VERSION:
            raise ModelError(f"{path} is of version {content.get('store_version')}; this sightunseen reads {STORE_VERSION}.")
        return Outcome(**content)
    except (json.JSONDecodeError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} is not an outcome of a benchmark ({error}). Remove it, and run the plan again.") from error
