"""Backbones in ONNX files, run by onnxruntime."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import numpy as np

from sightunseen.core.arrays import Floats
from sightunseen.core.documents import DocumentError, quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.extras import needed
from sightunseen.core.files import sha256_of
from sightunseen.core.limits import PHOTO_SIDE
from sightunseen.features.backbones import Backbone, fingerprint_of
from sightunseen.features.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET = Preprocessing([224, 224], [123.675, 116.28, 103.53], [58.395, 57.12, 57.375])
METADATA = "sightunseen.preprocessing"  # key in the metadata of the file


class OnnxBackbone(Backbone):
    """Backbone made from an ONNX model.

    The model has one input, photos of shape (n, 3, h, w). Its first output are the features, of shape (n, d) or
    (n, d, h, w); the latter are averaged over h and w. Photos are preprocessed as the metadata of the file say, see
    :func:`~sightunseen.features.onnx_export.export_backbone`. Without metadata, they are cropped to their centre, resized to
    (h, w) and standardised with the mean and standard deviation of ImageNet.

    Parameters
    ----------
    name : str
        Name of the backbone, such as ``onnx:model.onnx?mean=127&std=128``.
    path : Path
        The ONNX file.
    options : dict of str to str
        Options after the question mark: ``mean`` and ``std`` of pixels from 0 to 255, one number or three with commas,
        and ``size``, the height and width for models with dynamic axes (default 224).
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device to compute on; ``auto`` uses the GPU if there is one.

    Raises
    ------
    SettingsError
        If the file, its input or output, an option or the device cannot be used.
    MissingDependencyError
        If onnxruntime is not installed.
    """

    def __init__(self, name: str, path: Path, options: dict[str, str], device: str = "auto") -> None:
        runtime = needed("onnxruntime", "'sightunseen[onnx]'")
        if not path.is_file():
            raise SettingsError(f"there is no file {path} for the backbone '{name}'.")
        available = runtime.get_available_providers()
        if device == "cuda" and "CUDAExecutionProvider" not in available:
            raise SettingsError("device='cuda' was asked for but onnxruntime finds no GPU here. Use device='auto' or 'cpu'.")
        wanted = ("CPUExecutionProvider",) if device == "cpu" else ("CUDAExecutionProvider", "CPUExecutionProvider")
        try:
            self.session = runtime.InferenceSession(str(path), providers=[each for each in wanted if each in available])
        except Exception as error:  # onnxruntime has its own exceptions
            raise SettingsError(f"{path} cannot be opened as an ONNX model ({error}).") from error
        self.name = name
        stored = _preprocessing_of(self.session, path)
        self.most, shape = _input_of(self.session, path, options.pop("size", str(stored.size[0])))
        numbers: dict[str, Any] = {key: _numbers(name, key, options.pop(key)) for key in ("mean", "std") if key in options}
        if options:
            raise SettingsError(f"the backbone '{name}' has the options mean, std and size; got '{next(iter(options))}'.")
        self.preprocessing = replace(stored, size=[*shape], **numbers)
        self.fingerprint = fingerprint_of(sha256_of(path), _described(self.preprocessing))
        self.size = self._measure()

    def prepare(self, image: "Image") -> Floats:
        """Preprocess a photo to an array of shape (3, h, w)."""
        return self.preprocessing(image)

    def __call__(self, batch: Any) -> Floats:
        """Compute the features, (n, size), of preprocessed photos, (n, 3, h, w)."""
        images = np.ascontiguousarray(np.stack(batch), dtype=np.float32)
        step = self.most or len(images)
        return np.concatenate([self._run(images[start : start + step]) for start in range(0, len(images), step)])

    def _run(self, images: Floats) -> Floats:
        missing = (self.most or len(images)) - len(images)  # padding, for models with a fixed batch size
        filled = np.concatenate([images, np.zeros((missing, *images.shape[1:]), np.float32)])
        name = self.session.get_inputs()[0].name
        try:
            features = np.asarray(self.session.run(None, {name: filled})[0])[: len(images)]
        except Exception as error:  # onnxruntime has its own exceptions
            raise SettingsError(f"the backbone '{self.name}' cannot be run ({error}). Export the model again.") from error
        if features.ndim == 4:
            features = features.mean(axis=(2, 3))
        if features.ndim != 2 or len(features) != len(images) or not np.issubdtype(features.dtype, np.number):
            found = f"{features.dtype} of shape {features.shape}"
            raise SettingsError(f"the first output of '{self.name}' must be features (n, d) or (n, d, h, w); got {found}.")
        return np.asarray(features, dtype=np.float32)


def open_named(name: str, device: str) -> OnnxBackbone:
    """Open ``onnx:FILE`` or ``onnx:FILE?OPTIONS``."""
    path, _, options = name.removeprefix("onnx:").partition("?")
    return OnnxBackbone(name, Path(path), dict(parse_qsl(options, keep_blank_values=True)), device)


def _input_of(session: Any, path: Path, size: str) -> tuple[int | None, tuple[int, int]]:
    """The batch size, None if it is dynamic, and (height, width) of the model's input."""
    inputs = session.get_inputs()
    shape = inputs[0].shape
    photos = len(shape) == 4 and (shape[1] == 3 or not isinstance(shape[1], int)) and inputs[0].type == "tensor(float)"
    if len(inputs) != 1 or not photos:
        found = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
        raise SettingsError(f"{path} must have one input of photos, float (n, 3, h, w); it has {found}.")
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", size, re.ASCII):
        raise SettingsError(f"size of the photos for {path} must be a positive integer; got '{quoted(size)}'.")
    batch, height, width = (value if isinstance(value, int) else None for value in (shape[0], *shape[2:]))
    sides = height or int(size), width or int(size)
    if max(sides) > PHOTO_SIDE:
        found = f"{sides[0]} by {sides[1]} pixels"
        raise SettingsError(f"{path} takes photos of {found}; at most {PHOTO_SIDE} by {PHOTO_SIDE} are allowed.")
    return batch, sides


def _preprocessing_of(session: Any, path: Path) -> Preprocessing:
    """Preprocessing in the metadata of the file; without metadata that of ImageNet."""
    stored = session.get_modelmeta().custom_metadata_map.get(METADATA)
    try:
        return IMAGENET if stored is None else Preprocessing.from_json(stored)
    except DocumentError as error:
        raise SettingsError(f"{path}: the metadata '{METADATA}' are damaged: {error}. Export the model again.") from error


def _described(preprocessing: Preprocessing) -> str:
    """Description of the preprocessing in the fingerprint, with numbers as the network gets them."""
    mean, std = (np.array(values, np.float32) for values in (preprocessing.mean, preprocessing.std))
    mean, std = (values[:1] if (values == values[0]).all() else values for values in (mean, std))
    crop = f"middle {preprocessing.part}" if not preprocessing.squash else f"squashed {preprocessing.part}"
    size = tuple(preprocessing.size)
    return f"{crop}, {preprocessing.resample} to {size}, minus {mean.tolist()}, by {std.tolist()}"


def _numbers(name: str, key: str, text: str) -> list[float]:
    """Three numbers from an option that has one or three."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 3) or not np.isfinite(values).all() or (key == "std" and min(values) <= 0):
        raise SettingsError(f"{key} of the backbone '{name}' must be one number or three, such as 127; got '{text}'.")
    return values * 3 if len(values) == 1 else values
