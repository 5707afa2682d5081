"""Backbones: networks and functions that turn photos into features, opened by name."""

import hashlib
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError

if TYPE_CHECKING:
    from PIL.Image import Image


PREFIXES = ("efficientnet_lite", "onnx:", "torchvision:", "timm:", "open_clip:")
NAMES = (
    "efficientnet_lite0, efficientnet_lite1, efficientnet_lite2, onnx:FILE, torchvision:NAME, timm:NAME, open_clip:NAME/WEIGHTS"
)
DEVICES = ("auto", "cpu", "cuda")


class Backbone(ABC):
    """Base class of feature extractors.

    Attributes
    ----------
    name : str
        Name of the backbone.
    fingerprint : str
        Hash of the weights and the preprocessing. Features with different fingerprints must not be mixed.
    size : int
        Number of features per photo.
    """

    name: str
    fingerprint: str
    size: int

    @abstractmethod
    def prepare(self, image: "Image") -> Any:
        """Preprocess a photo.

        Parameters
        ----------
        image : PIL.Image.Image
            Photo in RGB.

        Returns
        -------
        ndarray of shape (3, h, w)
            Input of the backbone, in single precision.
        """

    @abstractmethod
    def __call__(self, batch: Any) -> Floats:
        """Compute the features of preprocessed photos.

        Parameters
        ----------
        batch : array of shape (n, 3, h, w) or sequence of n arrays of shape (3, h, w)
            Results of :meth:`prepare`.

        Returns
        -------
        ndarray of shape (n, size)
            Features in single precision.
        """

    def describe(self) -> dict[str, Any]:
        """Return name, fingerprint and size, as stored in feature files and models."""
        return {"name": self.name, "fingerprint": self.fingerprint, "size": self.size}

    def _measure(self) -> int:
        """The number of features, determined with a grey photo."""
        from PIL import Image

        return int(self([self.prepare(Image.new("RGB", (64, 64), "grey"))]).shape[1])


class CallableBackbone(Backbone):
    """Backbone made from a Python function.

    Parameters
    ----------
    function : callable
        Function from a list of n PIL images to features of shape (n, d).
    name : str
        Name of the backbone. Cached features are stored under this name: change it when the function changes.

    Raises
    ------
    DataError
        If the function returns an array of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> backbone = CallableBackbone(lambda images: [np.asarray(image).mean(axis=(0, 1)) for image in images], "mean colours")
    >>> backbone.size
    3
    """

    def __init__(self, function: "Callable[[list[Image]], Any]", name: str) -> None:
        self.function = function
        self.name = name
        self.fingerprint = fingerprint_of("callable", name)
        self.size = self._measure()

    def prepare(self, image: "Image") -> "Image":
        """Return the photo unchanged."""
        return image

    def __call__(self, batch: "Sequence[Image]") -> Floats:
        """Compute the features, an array of shape (n, size), of n photos."""
        features = np.asarray(self.function(list(batch)), dtype=np.float32)
        if features.ndim != 2 or len(features) != len(batch):
            raise DataError(
                f"{self.name} must return an array of shape (n, d), one row per photo; {len(batch)} photos gave shape "
                f"{features.shape}."
            )
        return features


def open_backbone(name: str, device: str = "auto") -> Backbone:
    """Open a backbone with its pretrained weights.

    Parameters
    ----------
    name : str
        ``efficientnet_lite0`` to ``efficientnet_lite2``; ``torchvision:NAME``, with torchvision's default weights, or
        ``torchvision:NAME/WEIGHTS`` as in ``torchvision:resnet101/IMAGENET1K_V1``; ``timm:NAME``;
        ``open_clip:NAME/WEIGHTS`` as in ``open_clip:ViT-B-32/openai``; or ``onnx:FILE``, see
        :class:`~sightunseen.features.onnx_backbones.OnnxBackbone`.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device to compute on; ``auto`` uses the GPU if there is one.

    Returns
    -------
    Backbone
        The backbone.

    Raises
    ------
    SettingsError
        If the name is unknown, the weights cannot be loaded, or there is no GPU for ``cuda``.
    MissingDependencyError
        If a package is not installed.
    ModelError
        If packaged weights are not those that this version was tested with.

    Examples
    --------
    >>> open_backbone("efficientnet_lite0").size  # doctest: +SKIP
    1280
    """
    check_choice("device", device, DEVICES)
    if not name.startswith(PREFIXES) or name in PREFIXES:
        raise SettingsError(f"there is no backbone '{name}'; there are {NAMES}.")
    module = importlib.import_module(
        f"sightunseen.features.{'onnx_backbones' if name.startswith('onnx:') else 'torch_backbones'}"
    )
    opened: Backbone = module.open_named(name, device)
    return opened


def fingerprint_of(*parts: str | bytes) -> str:
    """Hash descriptions of weights and preprocessing; memory addresses in them, which vary between runs, are ignored.

    >>> fingerprint_of("<lambda at 0x7f01>") == fingerprint_of("<lambda at 0x7f02>")
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        content = re.sub(r" at 0x[0-9a-fA-F]+", "", part).encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def needed(module: str, install: str) -> Any:
    """Import an optional package.

    Parameters
    ----------
    module : str
        Module to import.
    install : str
        Arguments of ``pip install``, for the error message.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingDependencyError
        If the import fails.
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # a package built for another torch version can raise anything
        why = "" if isinstance(error, ModuleNotFoundError) else f" (it is installed, but its import failed: {error})"
        raise MissingDependencyError(f"this backbone needs the package {module}{why}: pip install {install}") from error


def cut_and_resized(image: "Image", size: tuple[int, int], part: float) -> NDArray[np.uint8]:
    """Crop the centre of a photo and resize it.

    Parameters
    ----------
    image : PIL.Image.Image
        Photo in RGB.
    size : tuple of int
        Height and width of the result.
    part : float
        Fraction of the largest centre crop with these proportions.

    Returns
    -------
    ndarray of shape (height, width, 3)
        Pixels from 0 to 255.
    """
    from PIL import Image

    height, width = size
    scale = part * min(image.width / width, image.height / height)
    across, down = scale * width, scale * height
    left, top = (image.width - across) / 2, (image.height - down) / 2
    box = (left, top, left + across, top + down)
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC, box=box))
