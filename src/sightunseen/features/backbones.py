"""Backbones: networks and functions that turn photos into features, opened by name."""

import hashlib
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.extras import needed
from sightunseen.core.plugins import BACKBONES, is_path, load_object, plugins

if TYPE_CHECKING:
    from PIL.Image import Image


MODULES = {  # module of this package that opens a name, by the beginning of the name
    "efficientnet_lite": "torch_backbones",
    "torchvision:": "torch_backbones",
    "timm:": "torch_backbones",
    "open_clip:": "torch_backbones",
    "hf:": "transformers_backbones",
    "onnx:": "onnx_backbones",
}
EXTRAS = {"efficientnet_lite": "'sightunseen[photos]'", "hf:": "'sightunseen[transformers]'"}  # that torch comes with
NAMES = (
    "efficientnet_lite0, efficientnet_lite1, efficientnet_lite2, hf:NAME_OR_FOLDER, onnx:FILE, torchvision:NAME, timm:NAME, "
    "open_clip:NAME/WEIGHTS and plug-ins (package.module:factory)"
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
    text_encoder : str or None
        Name of the text encoder whose vectors are in the space of the features, if the backbone is the image side of a dual
        encoder such as CLIP.
    """

    name: str
    fingerprint: str
    size: int
    text_encoder: str | None = None

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
        """Return name, fingerprint, size and, of a dual encoder, the text encoder, as stored in feature files and models."""
        known = {"name": self.name, "fingerprint": self.fingerprint, "size": self.size}
        return known if self.text_encoder is None else {**known, "text_encoder": self.text_encoder}

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
        ``efficientnet_lite0`` to ``efficientnet_lite2``; ``hf:FOLDER`` or ``hf:REPOSITORY``, a checkpoint of transformers, see
        :func:`~sightunseen.features.transformers_backbones.open_named`; ``torchvision:NAME``, with torchvision's default
        weights, or ``torchvision:NAME/WEIGHTS`` as in ``torchvision:resnet101/IMAGENET1K_V1``; ``timm:NAME``;
        ``open_clip:NAME/WEIGHTS`` as in ``open_clip:ViT-B-32/openai``; ``onnx:FILE``, see
        :class:`~sightunseen.features.onnx_backbones.OnnxBackbone`; or a plug-in: the name of an entry point of
        ``sightunseen.backbones``, or ``package.module:factory``, where ``factory()`` returns a :class:`Backbone`.
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
    prefix = next((known for known in MODULES if name.startswith(known) and name != known), None)
    if prefix is None and (name in plugins(BACKBONES) or is_path(name)):
        return _of_plugin(name)
    if prefix is None:
        raise SettingsError(f"there is no backbone '{quoted(name)}'; there are {NAMES}.")
    if prefix != "onnx:":
        needed("torch", EXTRAS.get(prefix, "'sightunseen[deep]'"))
    opened: Backbone = importlib.import_module(f"sightunseen.features.{MODULES[prefix]}").open_named(name, device)
    return opened


def _of_plugin(name: str) -> Backbone:
    """Call the factory of a plug-in; the name that the user gave is recorded, since it opens the backbone again."""
    made = load_object(name, BACKBONES)()
    if not isinstance(made, Backbone):
        raise SettingsError(
            f"'{quoted(name)}' made {quoted(made)}; a factory of backbones returns a sightunseen.features.backbones.Backbone."
        )
    made.name = name
    return made


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
