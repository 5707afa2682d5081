"""Storage of job outcomes: one JSON file per job, written atomically, so that a killed run loses only the running jobs."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sightunseen.benchmark.draws import Draw
from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.files import written_atomically

DONE, FAILED, SKIPPED = "done", "failed", "skipped"
STORE_VERSION = 1


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job.

    Parameters
    ----------
    state : {"done", "failed", "skipped"}
        State of the job.
    identity : mapping
        Everything that determines the result of the job, and nothing else.
    shown : mapping
        What tables show of the job: names of data set and method, backbone, setting, selection, seed and draw.
    reason : str, default=""
        Why the job failed or was skipped.
    record : mapping, optional
        Run record of a job that is done.
    seconds : float, default=0.0
        Wall-clock time of the job.
    store_version : int
        Version of the file format.
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
        """Hash of the identity."""
        return job_id(self.identity)

    @property
    def draw(self) -> Draw | None:
        """How the class split was drawn; None for the split of the data set."""
        return Draw(**self.shown["draw"]) if "draw" in self.shown else None

    @property
    def split_name(self) -> str:
        """Name of the data set, and that of the draws."""
        return self.shown["data"] if self.draw is None else f"{self.shown['data']}, {self.draw.name}"


def job_id(identity: Mapping[str, Any]) -> str:
    """Hash an identity, independent of the order of its keys.

    Parameters
    ----------
    identity : mapping
        Identity of a job.

    Returns
    -------
    str
        20 hexadecimal digits.

    Examples
    --------
    >>> job_id({"seed": 0, "method": "ESZSL"}) == job_id({"method": "ESZSL", "seed": 0})
    True
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Store:
    """A results folder: outcomes of jobs in ``folder/jobs``.

    Parameters
    ----------
    folder : Path
        Results folder. It is created by :meth:`locked`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder and lock it for writing.

        Raises
        ------
        StorageError
            If another run has locked the folder, or the folder has other content.
        """
        import fcntl  # not on Windows, where results can still be shown

        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"{self.folder} is a file; expected a folder. Choose another --out.")
        if self.folder.is_dir() and not self.jobs.is_dir() and any(self.folder.iterdir()):
            raise StorageError(f"{self.folder} is not a results folder; it was left unchanged. Choose another --out.")
        self.jobs.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StorageError(f"another run writes to {self.folder}. Wait, or choose another --out.") from error
            yield

    def add(self, outcome: Outcome) -> None:
        """Write an outcome; replace an earlier one of the same job."""
        text = json.dumps(asdict(outcome), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        with written_atomically(self.jobs / f"{outcome.id}.json") as temporary:
            temporary.write_text(text, encoding="utf-8")

    def outcomes(self) -> dict[str, Outcome]:
        """Read all outcomes.

        Returns
        -------
        dict of str to Outcome
            Outcomes by job id.

        Raises
        ------
        StorageError
            If the folder is not a results folder.
        ModelError
            If a file is damaged or has another format version.
        """
        if not self.jobs.is_dir():
            raise StorageError(f"{self.folder} has no results of a plan. Run one with: sightunseen benchmark run")
        return {path.stem: _read(path) for path in sorted(self.jobs.glob("[!.]*.json"))}

    def forget(self, job: str) -> None:
        """Remove the outcome of a job, if there is one."""
        (self.jobs / f"{job}.json").unlink(missing_ok=True)


def _read(path: Path) -> Outcome:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("store_version") != STORE_VERSION:
            raise ModelError(
                f"{path} has format version {content.get('store_version')}; expected {STORE_VERSION}. Run the plan again."
            )
        return Outcome(**content)
    except (json.JSONDecodeError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} is not a job outcome ({error}). Remove it and run the plan again.") from error
