"""Cases of the fuzzer: a command line with the files it reads, described so that it can be stored and repeated.

The content of a file is bytes, or a *recipe*: a dictionary that can be written to JSON and TOML. ``RECIPES`` lists the kinds.
``{shelf}`` in an argument or a recipe stands for the folder of valid files that :mod:`fuzz_shelf` makes.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALL = "call:"  # first argument of a case that calls a library function, such as "call:sightunseen.data:open_data"

Content = bytes | dict[str, Any]


@dataclass
class Case:
    """One input of the fuzzer.

    Parameters
    ----------
    arguments : list of str
        Arguments of the command line; or ``call:MODULE:FUNCTION`` and the arguments of the function.
    files : dict of str to bytes or dict
        Content of the files in the current folder, by path.
    outputs : list of str
        Files and folders that may appear or change if the command succeeds.
    long : bool
        Whether the input can ask for work of any length, such as the jobs of a plan; such work is stopped without a failure
        once its first lines are printed.
    """

    arguments: list[str]
    files: dict[str, Content] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    long: bool = False

    def write(self, folder: Path, shelf: Path) -> list[str]:
        """Write the files into a folder and return the arguments with the path of the shelf filled in."""
        for name, content in self.files.items():
            path = os.path.join(os.fsencode(folder), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(content, bytes):
                with open(path, "wb") as file:
                    file.write(content.replace(b"{shelf}", os.fsencode(shelf)))
            else:
                RECIPES[content["kind"]](Path(os.fsdecode(path)), shelf, content)
        return [argument.replace("{shelf}", str(shelf)) for argument in self.arguments]


def sealed(description: dict[str, Any]) -> bytes:
    """Content of a ``model.json`` with the checksum of its content, as the library computes it."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    seal = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps({"sha256": seal, **rest}).encode()


def edited(document: Any, edits: list[Any]) -> Any:
    """Apply edits ``[path, operation, value]`` to a parsed document; a path is a list of keys and indices.

    Operations are ``set``, ``delete``, ``rename`` (of the last key) and ``double`` (of an item of a list).
    """
    holder = [document]
    for path, operation, value in edits:
        where: Any = holder
        steps = [0, *path]
        for step in steps[:-1]:
            where = where[step]
        last = steps[-1]
        if operation == "set":
            where[last] = value
        elif operation == "delete" and len(steps) > 1:
            del where[last]
        elif operation == "rename" and isinstance(where, dict):
            where[value] = where.pop(last)
        elif operation == "double" and isinstance(where, list):
            where.insert(last, where[last])
    return holder[0]


def changed_arrays(arrays: dict[str, Any], changes: list[Any]) -> dict[str, Any]:
    """Apply changes ``[name, operation, value]`` to arrays: ``delete``, ``rename``, ``dtype``, ``shape`` or ``fill``."""
    import numpy as np

    arrays = dict(arrays)
    for name, operation, value in changes:
        if name not in arrays:
            continue
        if operation == "delete":
            del arrays[name]
        elif operation == "rename":
            arrays[value] = arrays.pop(name)
        elif operation == "dtype":
            with np.errstate(all="ignore"):
                arrays[name] = arrays[name].astype(value)
        elif operation == "shape":
            arrays[name] = np.resize(arrays[name], value)
        elif operation == "fill":
            whole = arrays[name].copy()
            with np.errstate(all="ignore"):
                whole.flat[: 1 + whole.size // 3] = np.array(value).astype(whole.dtype)
            arrays[name] = whole
    return arrays


def _write_model(path: Path, shelf: Path, recipe: dict[str, Any]) -> None:
    """A model folder of the shelf with changes and valid checksums."""
    from safetensors.numpy import load, save

    source = shelf / recipe["of"]
    shutil.copytree(source, path)
    description = json.loads((source / "model.json").read_text("utf-8"))
    weights = (source / "weights.safetensors").read_bytes()
    if recipe.get("arrays"):
        weights = save(changed_arrays(load(weights), recipe["arrays"]))
    if "weights" in recipe:
        weights = bytes.fromhex(recipe["weights"])
    (path / "weights.safetensors").write_bytes(weights)
    description["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    if description.get("record_sha256") is not None and (recipe.get("record") or "record_text" in recipe):
        record = json.loads((source / "record.json").read_text("utf-8"))
        content = json.dumps(edited(record, recipe.get("record", []))).encode()
        content = bytes.fromhex(recipe["record_text"]) if "record_text" in recipe else content
        (path / "record.json").write_bytes(content)
        description["record_sha256"] = hashlib.sha256(content).hexdigest()
    (path / "model.json").write_bytes(sealed(edited(description, recipe.get("edits", []))))


def _write_checkpoint(path: Path, shelf: Path, recipe: dict[str, Any]) -> None:
    """A folder of checkpoints of the shelf, the first of them changed."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    shutil.copytree(shelf / recipe["of"], path)
    first = sorted(path.glob("*.safetensors"))[0]
    with safe_open(first, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        metadata = dict(file.metadata())
    if "progress" in recipe:
        metadata["progress"] = recipe["progress"]
    else:
        metadata["progress"] = json.dumps(edited(json.loads(metadata["progress"]), recipe.get("edits", [])))
    save_file(changed_arrays(arrays, recipe.get("arrays", [])), first, metadata if recipe.get("metadata", True) else None)


def _write_outcome(path: Path, shelf: Path, recipe: dict[str, Any]) -> None:
    """An outcome of a job of the shelf with edits, a valid checksum and the name that belongs to its content."""
    zeros = '"sha256": "' + "0" * 64 + '"'
    document = edited(json.loads((shelf / recipe["of"]).read_text("utf-8")), recipe["edits"])
    if isinstance(document, dict) and "sha256" in document:
        document["sha256"] = "0" * 64
    text = json.dumps(document, indent=1, sort_keys=True).encode()
    seal = f'"sha256": "{hashlib.sha256(text).hexdigest()}"'
    if isinstance(document, dict) and "identity" in document:
        identity = json.dumps(document["identity"], sort_keys=True, ensure_ascii=False)
        name = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:20]
        path = path.with_name(f"{name}.json")
    path.write_bytes(text.replace(zeros.encode(), seal.encode()))


def _write_json(path: Path, shelf: Path, recipe: dict[str, Any]) -> None:
    """A JSON file of the shelf with edits."""
    document = json.loads(Path(recipe["of"].replace("{shelf}", str(shelf))).read_text("utf-8"))
    path.write_text(json.dumps(edited(document, recipe["edits"])), "utf-8", "surrogatepass")


def _write_copy(path: Path, shelf: Path, recipe: dict[str, Any]) -> None:
    """A copy of a file or folder of the shelf."""
    source = shelf / recipe["of"]
    if source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copyfile(source, path)


def _write_wide(path: Path, _: Path, recipe: dict[str, Any]) -> None:
    """A CSV file with many columns."""
    columns = recipe["columns"]
    rows = [",".join(["label", *(f"c{k}" for k in range(columns))]), *(",".join([name, *["1"] * columns]) for name in "ab")]
    path.write_text("\n".join(rows) + "\n")


def _write_repeated(path: Path, _: Path, recipe: dict[str, Any]) -> None:
    """A text repeated many times between two others."""
    path.write_text(recipe.get("before", "") + recipe["text"] * recipe["times"] + recipe.get("after", ""), "utf-8")


def _write_sparse(path: Path, _: Path, recipe: dict[str, Any]) -> None:
    """A file of many zero bytes that take no space on the disk, after a beginning."""
    with open(path, "wb") as file:
        file.write(recipe.get("before", "").encode())
        file.truncate(recipe["gibibytes"] << 30)


def _write_grey(path: Path, _: Path, recipe: dict[str, Any]) -> None:
    """A black photo of a mode and a size, which compresses well."""
    from PIL import Image

    Image.new(recipe["mode"], recipe["size"]).save(path)


def _write_bomb(path: Path, _: Path, recipe: dict[str, Any]) -> None:
    """A zip archive, such as a ``.npz``, with one entry: a header and many zero bytes, without a valid checksum."""
    import struct
    import zlib

    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    start = compressor.compress(bytes.fromhex(recipe["header"])) + compressor.flush(zlib.Z_FULL_FLUSH)
    block = compressor.compress(bytes(1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)  # blocks do not refer to others
    content = start + block * recipe["mebibytes"] + compressor.flush()
    size = len(bytes.fromhex(recipe["header"])) + (recipe["mebibytes"] << 20)
    name = recipe["entry"].encode()
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(content), size, len(name), 0)
    local = b"PK\x03\x04" + common + name + content
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    path.write_bytes(local + central + end)


RECIPES: dict[str, Callable[[Path, Path, dict[str, Any]], None]] = {
    "bomb": _write_bomb,
    "checkpoint": _write_checkpoint,
    "copy": _write_copy,
    "grey": _write_grey,
    "fifo": lambda path, _shelf, _recipe: os.mkfifo(path),
    "folder": lambda path, _shelf, _recipe: path.mkdir(),
    "json": _write_json,
    "link": lambda path, _shelf, recipe: path.symlink_to(recipe["to"]),
    "model": _write_model,
    "outcome": _write_outcome,
    "repeated": _write_repeated,
    "sparse": _write_sparse,
    "wide": _write_wide,
}
