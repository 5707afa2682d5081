"""The methods, written out: a name in a model folder or on the command line is looked up here and nowhere else."""

from pathlib import Path

from sightunseen.errors import ModelError
from sightunseen.methods._base import ZeroShotClassifier
from sightunseen.methods.cvc import CVC
from sightunseen.model_files import read_model

__all__ = ["CVC", "METHODS", "ZeroShotClassifier", "load_model"]

METHODS: dict[str, type[ZeroShotClassifier]] = {"CVC": CVC}


def load_model(path: str | Path) -> ZeroShotClassifier:
    """Read a model folder, whichever method it holds."""
    files = read_model(Path(path))
    if files.method not in METHODS:
        raise ModelError(f"{path} holds a '{files.method}' model; this sightunseen knows {', '.join(METHODS)}. Update it.")
    return METHODS[files.method].from_files(files)
