"""What must hold after a fault: outputs are the old or the new ones, nothing is half-written, nothing is left behind."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .commands import Command

TIMES = ("created", "wall_seconds", "seconds")  # differ between equal runs
SEALS = ("sha256", "record_sha256")  # of files with times
HIDDEN_ENDINGS = (".lock", ".old", "-journal", "-wal", "-shm", ".damaged")
TEMPORARY = re.compile(r"(?<=\.)[^/]*-[0-9a-f]{8,}")
LONGEST_MESSAGE = 500 + len("error: ")

States = Mapping[str, str]


def states_of(root: Path, command: Command) -> dict[str, str]:
    """Digest of each output that exists, by its path below the root; ``broken: reason`` if it cannot be loaded."""
    models = {name: root / name for name in command.models}
    found = {name: _model_state(path) for name, path in models.items() if path.exists()}
    for path in (path for pattern in command.files for path in root.glob(pattern)):
        if path.is_file() and not path.name.startswith(".") and not _is_failed_job(path):
            found[str(path.relative_to(root))] = _digest(_without_times(path)) if path.stat().st_size else "broken: empty"
    return found


def _model_state(path: Path) -> str:
    from sightunseen.core.errors import SightUnseenError
    from sightunseen.methods import load_model

    try:
        load_model(path)
    except (SightUnseenError, OSError) as error:
        return f"broken: {error}"
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return _digest(*(part for file in files for part in (file.name.encode(), _without_times(file))))


def _is_failed_job(path: Path) -> bool:
    """Whether a file is the outcome of a failed job, which ``--retry`` runs again."""
    return path.parent.name == "jobs" and b'"state": "failed"' in path.read_bytes()


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).hexdigest()[:16]


def _without_times(path: Path) -> bytes:
    """Content of a file; of JSON documents without times and the checksums of files with times."""
    content = path.read_bytes()
    if path.suffix != ".json":
        return content
    try:
        return json.dumps(_plain(json.loads(content))).encode()
    except ValueError:
        return content


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in (*TIMES, *SEALS)}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def broken_outputs(found: States, old: States, new: States) -> list[str]:
    """What is wrong with the outputs after a fault.

    Parameters
    ----------
    found : mapping of str to str
        The outputs, as :func:`states_of` gives them.
    old, new : mapping of str to str
        Those before the command, and after it without a fault.

    Returns
    -------
    list of str
        One line for each output that vanished or is neither old nor new.
    """
    wrong = [f"vanished: {name}" for name in sorted(set(old) & set(new)) if name not in found]
    for name, state in found.items():
        if state not in (old.get(name), new.get(name)):
            wrong.append(f"{name} is {state if state.startswith('broken') else 'broken: neither old nor new'}")
    return wrong


def paths_below(root: Path) -> set[str]:
    """All files and folders, relative to the root."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def tree_digest(root: Path) -> str:
    """Digest of all files and folders, without times; hexadecimal parts of temporary names count as equal."""
    parts = []
    for path in sorted(root.rglob("*")):
        parts.append(TEMPORARY.sub("*", str(path.relative_to(root))).encode())
        parts.append(_without_times(path) if path.is_file() and not path.is_symlink() else b"/")
    return _digest(*parts)


def hidden_files(paths: Iterable[str]) -> list[str]:
    """Temporary files, locks and checkpoints, which a finished command does not leave behind."""
    names = ((path, path.rsplit("/", 1)[-1]) for path in paths)
    return sorted(path for path, name in names if name.startswith(".") or name.endswith((*HIDDEN_ENDINGS, ".checkpoint")))


def wrong_ending(code: int, err: str, allowed: Iterable[int] = (0, 2)) -> list[str]:
    """What is wrong with exit code and message of a command that met an error."""
    if code not in allowed:
        return [f"exit {code}: {err.strip()[-300:]}"]
    wrong = []
    if "Traceback" in err or "internal error" in err or "Exception ignored" in err:
        wrong.append(f"traceback: {err.strip()[-300:]}")
    messages = [line for line in err.splitlines() if line.startswith("error: ")]
    if code == 2 and (len(messages) != 1 or len(messages[0]) > LONGEST_MESSAGE):
        wrong.append(f"{len(messages)} error messages: {err.strip()[-300:]}")
    return wrong
