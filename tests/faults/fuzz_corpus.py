"""The corpus: cases as small files and recipes, one case per line in ``corpus/manifest.jsonl``."""

import hashlib
import json
from pathlib import Path
from typing import Any

from .fuzz_case import Case

CORPUS = Path(__file__).parent / "corpus"
MANIFEST = "manifest.jsonl"


def read_corpus(folder: Path = CORPUS) -> dict[str, Case]:
    """Cases of a corpus by name."""
    entries = map(json.loads, (folder / MANIFEST).read_text("utf-8").splitlines())
    return {entry["name"]: _case(entry, folder) for entry in entries}


def add_case(folder: Path, name: str, case: Case, reason: str = "") -> None:
    """Add a case to a corpus; its files get names that begin with that of the case."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = [path for path, content in case.files.items() if isinstance(content, bytes)]
    files: dict[str, Any] = dict(case.files)
    for path in contents:
        file = Path(path.encode("ascii", "replace").decode().replace("?", "_"))
        files[path] = f"{name}{file.suffix}" if len(contents) == 1 else f"{name}.{'.'.join(file.parts)}"
        (folder / files[path]).write_bytes(case.files[path])
    entry: dict[str, Any] = {"name": name, "arguments": case.arguments, "files": files, "outputs": case.outputs}
    entry |= {"long": True} if case.long else {}
    entry |= {"reason": reason} if reason else {}
    with open(folder / MANIFEST, "a", encoding="utf-8") as file:
        file.write(json.dumps({key: value for key, value in entry.items() if value}) + "\n")


def save_finding(folder: Path, target: str, case: Case, signature: str, reason: str) -> None:
    """Add a failing case to a folder in the form of a corpus, once for each signature."""
    digest = hashlib.sha256(signature.encode("utf-8", "replace")).hexdigest()[:10]
    name = f"{target.replace(' ', '-')}-{digest}"
    if not (folder / MANIFEST).is_file() or name not in read_corpus(folder):
        add_case(folder, name, case, reason)


def _case(entry: dict[str, Any], folder: Path) -> Case:
    files = {
        path: content if isinstance(content, dict) else (folder / content).read_bytes()
        for path, content in entry.get("files", {}).items()
    }
    return Case(entry["arguments"], files, entry.get("outputs", []), entry.get("long", False))
