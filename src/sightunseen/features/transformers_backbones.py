"""Backbones from checkpoints of transformers: CLIP, SigLIP, DINOv2, ViT, ConvNeXt, ResNet and others."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.checkpoints import INSTALL, Checkpoint, loaded, open_checkpoint
from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.extras import needed
from sightunseen.core.limits import PHOTO_SIDE
from sightunseen.features.preprocessing import RESAMPLING, Preprocessing
from sightunseen.features.torch_backbones import NetworkBackbone

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


def open_named(name: str, device: str) -> NetworkBackbone:
    """Open the image side of ``hf:FOLDER``, ``hf:REPOSITORY`` or ``hf:REPOSITORY@REVISION``.

    The features are what the network itself compares or classifies: the projected embedding of a dual encoder (CLIP, SigLIP),
    the class token of the last layer (ViT, DeiT), else the pooled output (DINOv2, ConvNeXt, Swin; 2,048 features of
    ResNet-101). Photos are preprocessed by the checkpoint's image processor, in PIL and numpy.

    Parameters
    ----------
    name : str
        Name of the checkpoint.
    device : {"auto", "cpu", "cuda"}
        Device to compute on; ``auto`` uses the GPU if there is one.

    Returns
    -------
    NetworkBackbone
        The backbone. Its ``text_encoder`` is the same name if the checkpoint is a dual encoder.

    Raises
    ------
    SettingsError
        If the checkpoint cannot be loaded or does not embed photos.
    MissingDependencyError
        If transformers, torch or pillow is not installed.
    """
    needed("PIL", INSTALL)
    checkpoint = open_checkpoint(name, device)
    processor = _image_processor(checkpoint)
    network = checkpoint.network

    def transform(image: "Image") -> Floats:
        pixels = np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0], dtype=np.float32)
        if pixels.ndim != 3 or len(pixels) != 3:
            raise SettingsError(f"the image processor of '{quoted(name)}' makes {pixels.shape}; expected (3, height, width).")
        return pixels

    def features(images: "Tensor") -> "Tensor":
        found = _embedded(network, images, checkpoint.is_dual).flatten(1)
        return found.contiguous()

    preprocessing = _description(processor)
    try:
        backbone = NetworkBackbone(name, network, transform, preprocessing, device, features, checkpoint.digest)
    except (AttributeError, TypeError, ValueError, RuntimeError, IndexError) as error:  # a language model, video, ...
        if isinstance(error, SettingsError):
            raise
        raise SettingsError(
            f"'{quoted(name)}' ({type(network).__name__}) cannot embed a photo ({type(error).__name__}: {quoted(error, 200)}). "
            "Choose a network for images."
        ) from error
    backbone.text_encoder = name if checkpoint.is_dual else None
    backbone.preprocessing = _as_preprocessing(processor)
    return backbone


def _embedded(network: Any, images: "Tensor", is_dual: bool) -> "Tensor":
    """Features (n, d) or (n, d, 1, 1) of preprocessed photos (n, 3, h, w)."""
    found = network.get_image_features(pixel_values=images) if is_dual else network(pixel_values=images)
    if is_dual:
        return getattr(found, "pooler_output", found)  # type: ignore[no-any-return]  # a tensor in earlier versions
    pooled = getattr(found, "pooler_output", None)
    if pooled is None or hasattr(getattr(network, "pooler", None), "dense"):
        # The dense layer of the pooler was trained for another task, and many checkpoints lack it. The class token is what
        # the classifier of these networks gets.
        return found.last_hidden_state[:, 0]  # type: ignore[no-any-return]
    return pooled  # type: ignore[no-any-return]


def _image_processor(checkpoint: Checkpoint) -> Any:
    load = needed("transformers", INSTALL).AutoImageProcessor.from_pretrained
    processor = loaded(checkpoint.name, lambda: load(checkpoint.origin.place, backend="pil", **checkpoint.origin.options))
    sides = [*_sides(getattr(processor, "size", None)), *_sides(getattr(processor, "crop_size", None))]
    if max(sides, default=0) > PHOTO_SIDE:
        raise SettingsError(
            f"'{quoted(checkpoint.name)}' takes photos of {max(sides)} pixels; at most {PHOTO_SIDE} are allowed."
        )
    return processor


def _sides(size: Any) -> list[int]:
    """Numbers in a size of transformers, such as {"height": 224, "width": 224}."""
    values = dict(size).values() if size is not None and not isinstance(size, int) else [size]
    return [int(value) for value in values if isinstance(value, int | float)]


def _description(processor: Any) -> str:
    """Preprocessing as text for the fingerprint: values of the configuration, without paths."""
    found = {key: value for key, value in processor.to_dict().items() if not key.startswith("_")}
    return repr(sorted((key, _plain(value)) for key, value in found.items()))


def _plain(value: Any) -> Any:
    return sorted((key, _plain(each)) for key, each in value.items()) if isinstance(value, Mapping) else str(value)


def _as_preprocessing(processor: Any) -> Preprocessing | None:
    """The same preprocessing in this library's terms, for export; None if it has none."""
    config = processor.to_dict()
    size, crop = config.get("size") or {}, config.get("crop_size") or {}
    usual = all(config.get(key, True) for key in ("do_resize", "do_rescale", "do_normalize"))
    resample = int(config.get("resample") or 0)
    if not usual or not config.get("image_mean") or resample >= len(RESAMPLING):
        return None
    result = crop if config.get("do_center_crop") else size
    result = [result.get("height"), result.get("width")] if "height" in result else [result.get("shortest_edge")] * 2
    if not all(isinstance(side, int) for side in result):
        return None
    short, part = size.get("shortest_edge"), 1.0
    if short and config.get(
        "crop_pct"
    ):  # ConvNeXt: small photos are resized to size / crop_pct and cropped, large ones squashed
        short, part = (short, float(config["crop_pct"])) if short < 384 else (None, 1.0)
    elif config.get("do_center_crop"):
        part = min(1.0, max(result) / (short or max(size.values(), default=max(result))))
    scale = 1 / (config.get("rescale_factor") or 1 / 255)
    mean, std = ([scale * value for value in config[key]] for key in ("image_mean", "image_std"))
    return Preprocessing(result, mean, std, part, squash=not short, resample=RESAMPLING[resample])
