"""Storage of job outcomes: one sealed JSON file per job, written atomically; a killed run loses only the running jobs."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sightunseen.benchmark.outcome import DONE, Outcome
from sightunseen.core.documents import DocumentError, parse_document, validated
from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.files import LEFTOVER, check_writable, written_atomically
from sightunseen.core.limits import DOCUMENT_BYTES
from sightunseen.core.locks import locked

STORE_VERSION = 3
READABLE = (1, 2, 3)  # version 1 has no seal, version 2 no ``cost``
SEAL = '"sha256": "{}"'  # SHA-256 of the file in which the digits of the seal are zeros
UNSEALED = "0" * 64
WORK = ".work"  # folder of intermediate files


class DamagedOutcomeError(ModelError):
    """A file of a results folder is not the outcome of a job.

    Parameters
    ----------
    path : Path
        The file; kept as the attribute ``path``.
    reason : str
        What is wrong with it; kept as the attribute ``reason``.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is not a job outcome ({reason}). Remove it and run the plan again.")
        self.path, self.reason = path, reason


class Store:
    """A results folder: outcomes of jobs in ``folder/jobs``.

    Parameters
    ----------
    folder : Path
        Results folder. It is created with the first outcome.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"
        self.work = folder / WORK  # intermediate files of running jobs

    def check(self) -> None:
        """Check that outcomes can be written, before any job runs.

        Raises
        ------
        StorageError
            If the folder cannot be written, or has other content.
        """
        check_writable(self.folder, folder=True)
        if self.folder.is_dir() and not self.jobs.is_dir():
            check_writable(self.jobs, folder=True)
            names = {entry.name for entry in self.folder.iterdir()} - {WORK}  # it may be there after a killed run
            if any(not LEFTOVER.fullmatch(name) for name in names):
                raise StorageError(f"{self.folder} is not a results folder; it was left unchanged. Choose another --out.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for writing. A folder that is new and has no outcome at the end is removed.

        Raises
        ------
        StorageError
            If another run has locked the folder, or the folder cannot be written or has other content.
        """
        self.check()
        new = not self.folder.exists()
        try:
            with locked(self.jobs):
                shutil.rmtree(self.work, ignore_errors=True)  # of a killed run
                try:
                    yield
                finally:
                    shutil.rmtree(self.work, ignore_errors=True)
        finally:
            with suppress(OSError):  # has outcomes
                if new:
                    self.folder.rmdir()

    def add(self, outcome: Outcome) -> None:
        """Write an outcome; replace an earlier one of the same job."""
        content = {**asdict(outcome), "store_version": STORE_VERSION, "sha256": UNSEALED}
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        sealed = text.replace(SEAL.format(UNSEALED), SEAL.format(hashlib.sha256(text.encode()).hexdigest()))
        with written_atomically(self.jobs / f"{outcome.id}.json") as temporary:
            temporary.write_bytes(sealed.encode())

    def outcomes(self, damaged: Callable[[DamagedOutcomeError], None] | None = None) -> dict[str, Outcome]:
        """Read all outcomes.

        Parameters
        ----------
        damaged : callable, optional
            Called with the error of every damaged file, which is left out. Default: the error is raised.

        Returns
        -------
        dict of str to Outcome
            Outcomes by job id.

        Raises
        ------
        StorageError
            If the folder is not a results folder.
        DamagedOutcomeError
            If a file is damaged.
        ModelError
            If a file has another format version.
        """
        if not self.jobs.is_dir():
            raise StorageError(f"{self.folder} has no results of a plan. Run one with: sightunseen benchmark run")
        found = {}
        for path in sorted(self.jobs.glob("[!.]*.json")):
            try:
                found[path.stem] = _read(path)
            except DamagedOutcomeError as error:
                if damaged is None:
                    raise
                damaged(error)
        return found

    def forget(self, job: str) -> None:
        """Remove the outcome of a job, if there is one."""
        (self.jobs / f"{job}.json").unlink(missing_ok=True)


def _read(path: Path) -> Outcome:
    """Read and verify an outcome: seal, format version, schema and the job id in the name of the file."""
    try:
        raw = _bytes_of(path)
        content = parse_document(raw)
        if not isinstance(content, dict):
            raise DocumentError("not a table")
        seal, version = content.pop("sha256", None), content.pop("store_version", None)
        if seal is not None and seal != _seal_of(raw, str(seal)):
            raise DocumentError("changed after it was written")
        if version not in READABLE:
            raise ModelError(
                f"{path} has format version {version}; expected {READABLE[0]} to {STORE_VERSION}. Use the version of "
                "sightunseen that wrote it, or run the plan with another --out."
            )
        if seal is None and version != 1:
            raise DocumentError("its seal is missing")
        outcome = _outcome(content)
        if outcome.id != path.stem:
            raise DocumentError("the file has the name of another job")
    except (DocumentError, ValueError) as error:  # ValueError: NaN, or text that is not valid Unicode, in the identity
        raise DamagedOutcomeError(path, str(error)) from error
    return outcome


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():
        raise DocumentError("not a file")
    with open(path, "rb") as file:
        return file.read(DOCUMENT_BYTES + 1)


def _seal_of(raw: bytes, seal: str) -> str | None:
    """Compute the seal of a file in which ``seal`` is stored."""
    parts = raw.split(SEAL.format(seal).encode())
    return hashlib.sha256(SEAL.format(UNSEALED).encode().join(parts)).hexdigest() if len(parts) == 2 else None


def _outcome(content: Mapping[str, Any]) -> Outcome:
    """Validate the content of an outcome, as far as it is read later."""
    from sightunseen.benchmark.outcome_schema import DoneTable, OutcomeTable  # takes 0.1 s to import

    record = content.get("record")
    if isinstance(record, dict):  # the rest of it, above all what was tried, would take most of the time
        record = {
            name: _without(record[name], "tried") for name in ("results", "intervals", "selection", "data") if name in record
        }
    validated(DoneTable if content.get("state") == DONE else OutcomeTable, {**content, "record": record})
    return Outcome(**content)


def _without(table: Any, name: str) -> Any:
    return {key: value for key, value in table.items() if key != name} if isinstance(table, dict) else table
