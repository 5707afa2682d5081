"""Backbones by name: each turns photos into features, and says by a fingerprint which weights and preprocessing it has."""

import hashlib
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.checks import check_choice
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError

if TYPE_CHECKING:
    from PIL.Image import Image

Floats = NDArray[np.float32]

KINDS = {  # how names begin -> the module that opens them
    "efficientnet_lite": "networks",
    "onnx:": "onnx_backbones",
    "torchvision:": "networks",
    "timm:": "networks",
    "open_clip:": "networks",
}
NAMES = (
    "efficientnet_lite0, efficientnet_lite1, efficientnet_lite2, onnx:FILE, torchvision:NAME, timm:NAME, open_clip:NAME/WEIGHTS"
)
DEVICES = ("auto", "cpu", "cuda")


class Backbone(ABC):
    """Turns photos into features.

    ``name`` says which it is, ``size`` how many features a photo has; ``fingerprint`` changes with the weights and with the
    preprocessing, so features with one fingerprint may be mixed and others may not.
    """

    name: str
    fingerprint: str
    size: int

    @abstractmethod
    def prepare(self, image: "Image") -> Any:
        """A photo as the backbone wants it: float32 (3, h, w)."""

    @abstractmethod
    def __call__(self, batch: Any) -> Floats:
        """The features (n, size) of prepared photos (n, 3, h, w), as one array or as a sequence of them."""

    def describe(self) -> dict[str, Any]:
        """What a file of features or a model remembers of its backbone."""
        return {"name": self.name, "fingerprint": self.fingerprint, "size": self.size}

    def _measure(self) -> int:
        """The number of features, found by trying a grey photo."""
        from PIL import Image

        return int(self([self.prepare(Image.new("RGB", (64, 64), "grey"))]).shape[1])


class CallableBackbone(Backbone):
    """Any function from a list of n PIL images to features (n, d), under a name that stands for what it does.

    Features are kept under that name: give another one when the function changes.
    """

    def __init__(self, function: "Callable[[list[Image]], Any]", name: str) -> None:
        self.function = function
        self.name = name
        self.fingerprint = fingerprint_of("callable", name)
        self.size = self._measure()

    def prepare(self, image: "Image") -> "Image":
        """The photo itself, in RGB."""
        return image

    def __call__(self, batch: "Sequence[Image]") -> Floats:
        """The features (n, size) of photos."""
        features = np.asarray(self.function(list(batch)), dtype=np.float32)
        if features.ndim != 2 or len(features) != len(batch):
            raise DataError(f"{self.name} must give (n, d), a row a photo; {len(batch)} photos gave shape {features.shape}.")
        return features


def open_backbone(name: str, device: str = "auto") -> Backbone:
    """The backbone of this name, one of those in ``NAMES``, with its weights.

    ``torchvision:resnet101`` has the weights that torchvision calls DEFAULT; others come after a slash, as in
    ``torchvision:resnet101/IMAGENET1K_V1`` and ``open_clip:ViT-B-32/openai``. See :class:`OnnxBackbone` for ``onnx:FILE``.
    """
    check_choice("device", device, DEVICES)
    kind = next((kind for kind in KINDS if name.startswith(kind)), None)
    if kind is None or name == kind:
        raise SettingsError(f"there is no backbone '{name}'; there are {NAMES}.")
    module = importlib.import_module(f"sightunseen.features.{KINDS[kind]}")
    opened: Backbone = module.open_named(name, device)
    return opened


def fingerprint_of(*parts: str | bytes) -> str:
    """One fingerprint of weights and preprocessing; addresses in memory, which change from run to run, are left out."""
    digest = hashlib.sha256()
    for part in parts:
        content = re.sub(r" at 0x[0-9a-fA-F]+", "", part).encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def needed(module: str, install: str) -> Any:
    """Import an optional package, or say what to install."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a package that does not fit the installed torch fails in ways of its own
        why = "" if isinstance(error, ModuleNotFoundError) else f" (it is there, but: {error})"
        raise MissingDependencyError(f"this backbone needs the package {module}{why}: pip install {install}") from error


def cut_and_resized(image: "Image", size: tuple[int, int], part: float) -> NDArray[np.uint8]:
    """The middle of a photo, the largest of these proportions times ``part``, at this (height, width): (h, w, 3)."""
    from PIL import Image

    height, width = size
    scale = part * min(image.width / width, image.height / height)
    across, down = scale * width, scale * height
    left, top = (image.width - across) / 2, (image.height - down) / 2
    box = (left, top, left + across, top + down)
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC, box=box))
