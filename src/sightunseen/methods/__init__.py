"""The methods, written out: a name in a model folder or on the command line is looked up here and nowhere else."""

from pathlib import Path

from sightunseen.errors import ModelError
from sightunseen.methods._adaptable import AdaptableClassifier
from sightunseen.methods._base import ZeroShotClassifier
from sightunseen.methods._trained import TrainedClassifier
from sightunseen.methods.ale import ALE
from sightunseen.methods.cmt import CMT
from sightunseen.methods.cnzsl import CNZSL
from sightunseen.methods.conse import CONSE
from sightunseen.methods.cvc import CVC
from sightunseen.methods.dap import DAP
from sightunseen.methods.dem import DEM
from sightunseen.methods.devise import DEVISE
from sightunseen.methods.dsrl import DSRL
from sightunseen.methods.eszsl import ESZSL
from sightunseen.methods.fclswgan import FCLSWGAN
from sightunseen.methods.foresight import Foresight
from sightunseen.methods.gfzsl import GFZSL
from sightunseen.methods.latem import LATEM
from sightunseen.methods.projection import Projection
from sightunseen.methods.psr import PSR
from sightunseen.methods.qfsl import QFSL
from sightunseen.methods.relation_network import RelationNetwork
from sightunseen.methods.sae import SAE
from sightunseen.methods.sje import SJE
from sightunseen.methods.spaen import SPAEN
from sightunseen.methods.sse import SSE
from sightunseen.methods.sync import SYNC
from sightunseen.model_files import read_model

__all__ = [
    "ALE",
    "CMT",
    "CNZSL",
    "CONSE",
    "CVC",
    "DAP",
    "DEM",
    "DEVISE",
    "DSRL",
    "ESZSL",
    "FCLSWGAN",
    "GFZSL",
    "LATEM",
    "METHODS",
    "PSR",
    "QFSL",
    "SAE",
    "SJE",
    "SPAEN",
    "SSE",
    "SYNC",
    "AdaptableClassifier",
    "Foresight",
    "Projection",
    "RelationNetwork",
    "TrainedClassifier",
    "ZeroShotClassifier",
    "load_model",
]

METHODS: dict[str, type[ZeroShotClassifier]] = {
    "ALE": ALE,
    "CMT": CMT,
    "CNZSL": CNZSL,
    "CONSE": CONSE,
    "CVC": CVC,
    "Foresight": Foresight,
    "DAP": DAP,
    "DEM": DEM,
    "DEVISE": DEVISE,
    "DSRL": DSRL,
    "ESZSL": ESZSL,
    "FCLSWGAN": FCLSWGAN,
    "GFZSL": GFZSL,
    "LATEM": LATEM,
    "PSR": PSR,
    "Projection": Projection,
    "QFSL": QFSL,
    "RelationNetwork": RelationNetwork,
    "SAE": SAE,
    "SJE": SJE,
    "SPAEN": SPAEN,
    "SSE": SSE,
    "SYNC": SYNC,
}


def load_model(path: str | Path) -> ZeroShotClassifier:
    """Read a model folder, whichever method it holds."""
    files = read_model(Path(path))
    if files.method not in METHODS:
        raise ModelError(f"{path} holds a '{files.method}' model; this sightunseen knows {', '.join(METHODS)}. Update it.")
    return METHODS[files.method].from_files(files)
