"""Write a torch backbone as an ONNX file, so that photos can be embedded without torch."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.core.errors import ModelError, SettingsError
from sightunseen.core.extras import needed
from sightunseen.core.files import written_atomically
from sightunseen.features.backbones import Backbone, open_backbone
from sightunseen.features.onnx_backbones import METADATA

INSTALL = "'sightunseen[deep,onnx]' onnxscript"
TOLERANCE = 1e-3  # of the largest feature: convolutions of two libraries add in different orders


@dataclass(frozen=True)
class ExportedBackbone:
    """Description of a written backbone.

    Parameters
    ----------
    path : Path
        The ONNX file.
    size : int
        Number of features per photo.
    difference : float
        Largest difference from the features of the torch backbone on one photo, relative to the largest feature.
    """

    path: Path
    size: int
    difference: float


def export_backbone(backbone: Backbone, path: str | Path) -> ExportedBackbone:
    """Write a torch backbone as an ONNX file and compare the features of both.

    The file is opened by ``onnx:FILE``. Its metadata hold the preprocessing; photos are cropped and resized by this library,
    which for networks of transformers differs by fractions of a pixel from their own preprocessing. A model that was trained on
    features of one needs features of the same one.

    Parameters
    ----------
    backbone : Backbone
        ``efficientnet_lite0`` to ``efficientnet_lite2``, or ``hf:NAME_OR_FOLDER``.
    path : str or Path
        File to write; its name must end in ``.onnx``.

    Returns
    -------
    ExportedBackbone
        Description of the file.

    Raises
    ------
    SettingsError
        If the name does not end in ``.onnx``, or the backbone is not a torch network with a known preprocessing.
    MissingDependencyError
        If onnxscript or onnxruntime is not installed.
    ModelError
        If the features differ; no file is written then.
    """
    path, preprocessing = Path(path), getattr(backbone, "preprocessing", None)
    if path.suffix != ".onnx":
        raise SettingsError(f"the name of an ONNX file must end in .onnx; got {path}. Choose another name.")
    if preprocessing is None or not hasattr(backbone, "network"):
        raise SettingsError(
            f"the backbone '{backbone.name}' cannot be exported; efficientnet_lite0 to efficientnet_lite2 and "
            "hf:NAME_OR_FOLDER can, if photos are cropped, resized and standardised as usual."
        )
    needed("onnxscript", INSTALL, "exporting a backbone")
    onnx = needed("onnx", INSTALL, "exporting a backbone")
    photo = _photo()
    images = np.stack([preprocessing(photo), preprocessing(photo.rotate(90))])
    model = _converted(backbone, images)
    onnx.helper.set_model_props(model, {METADATA: preprocessing.to_json(), "sightunseen.backbone": backbone.name})
    with written_atomically(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
        opened = open_backbone(f"onnx:{temporary}", "cpu")
        expected, found = backbone(images), opened([opened.prepare(photo), opened.prepare(photo.rotate(90))])
        difference = float(np.abs(found - expected).max() / max(float(np.abs(expected).max()), 1e-12))
        if not difference <= TOLERANCE:  # also true for NaN
            raise ModelError(
                f"the features of the ONNX file differ from those of '{backbone.name}' by {difference:.1e} of the largest "
                f"feature; expected at most {TOLERANCE:.0e}. The file was not written. Export the network by its own means."
            )
    return ExportedBackbone(path, opened.size, difference)


def _converted(backbone: Any, images: Any) -> Any:
    """The network from images (n, 3, h, w) to features (n, d) as an ONNX model, for any n."""
    torch = needed("torch", INSTALL, "exporting a backbone")

    class Features(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = backbone.network

        def forward(self, photos: Any) -> Any:
            return backbone.features(photos)

    given = torch.from_numpy(images).to(backbone.device)
    try:
        with _quiet():
            program = torch.onnx.export(
                Features().eval(),
                (given,),
                input_names=["photos"],
                output_names=["features"],
                dynamic_shapes={"photos": {0: torch.export.Dim("n", min=1, max=4096)}},
                dynamo=True,
            )
        return program.model_proto
    except Exception as error:  # the exporter has many exceptions; networks may have operators without an ONNX form
        raise SettingsError(
            f"the backbone '{backbone.name}' cannot be converted to ONNX ({type(error).__name__}: {str(error)[:200]})."
        ) from error


def _photo() -> Any:
    """A photo with gradients and edges."""
    from PIL import Image

    ramp = np.linspace(0, 255, 320)
    pixels = np.stack(
        [ramp[None].repeat(240, 0), ramp[:240, None].repeat(320, 1), 255 * (ramp // 40 % 2)[None].repeat(240, 0)], 2
    )
    return Image.fromarray(pixels.astype(np.uint8))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress messages of the exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
