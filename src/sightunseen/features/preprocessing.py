"""Preprocessing of photos in PIL and numpy: centre crop, resizing and standardisation."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le, Len
from numpy.typing import NDArray

from sightunseen.core.arrays import Floats
from sightunseen.core.documents import STRICT, DocumentError, parse_document, validated
from sightunseen.core.limits import PHOTO_SIDE

if TYPE_CHECKING:
    from PIL.Image import Image

RESAMPLING = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # in the order of PIL's numbers
Side = Annotated[int, Ge(1), Le(PHOTO_SIDE)]
Colours = Annotated[list[float], Len(3, 3)]
Positive = Annotated[float, Gt(0), Le(1e6)]


@dataclass(frozen=True)
class Preprocessing:
    """Crop the centre of a photo, resize it and standardise its pixels.

    Parameters
    ----------
    size : list of two int
        Height and width of the result.
    mean, std : list of three float
        Mean and standard deviation of red, green and blue, for pixels from 0 to 255.
    part : float, default=0.875
        Fraction of the largest centre crop with the proportions of the result.
    squash : bool, default=False
        Whether the whole photo is resized, with changed proportions, instead of the largest centre crop.
    resample : str, default="bicubic"
        Interpolation.

    Examples
    --------
    >>> from PIL import Image
    >>> prepare = Preprocessing([2, 2], [127.0] * 3, [128.0] * 3)
    >>> prepare(Image.new("RGB", (30, 20), (255, 127, 63)))[:, 0, 0]
    array([ 1. ,  0. , -0.5], dtype=float32)
    """

    __pydantic_config__: ClassVar[Any] = {**STRICT, "allow_inf_nan": False}

    size: Annotated[list[Side], Len(2, 2)]
    mean: Colours
    std: Annotated[list[Positive], Len(3, 3)]
    part: Annotated[float, Gt(0), Le(1)] = 0.875
    squash: bool = False
    resample: str = "bicubic"

    def __call__(self, image: "Image") -> Floats:
        """Preprocess a photo.

        Parameters
        ----------
        image : PIL.Image.Image
            Photo in RGB.

        Returns
        -------
        ndarray of float32 of shape (3, height, width)
            Standardised pixels.
        """
        height, width = self.size
        pixels = cut_and_resized(image, (height, width), self.part, self.squash, self.resample).astype(np.float32)
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return np.asarray(((pixels - mean) / std).transpose(2, 0, 1))

    def to_json(self) -> str:
        """Convert to JSON, for the metadata of an ONNX file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Preprocessing":
        """Restore from the result of :meth:`to_json`; raises ``DocumentError`` if it is invalid."""
        found = validated(cls, parse_document(text.encode()))
        if found.resample not in RESAMPLING:
            raise DocumentError(f"resample must be one of {', '.join(RESAMPLING)}")
        return found


def cut_and_resized(
    image: "Image", size: tuple[int, int], part: float, squash: bool = False, resample: str = "bicubic"
) -> NDArray[np.uint8]:
    """Crop the centre of a photo and resize it.

    Parameters
    ----------
    image : PIL.Image.Image
        Photo in RGB.
    size : tuple of int
        Height and width of the result.
    part : float
        Fraction of the largest centre crop with these proportions.
    squash : bool, default=False
        Whether to take the fraction of the whole photo instead, with changed proportions.
    resample : str, default="bicubic"
        Interpolation.

    Returns
    -------
    ndarray of shape (height, width, 3)
        Pixels from 0 to 255.
    """
    from PIL import Image

    height, width = size
    scale = part * min(image.width / width, image.height / height)
    across, down = (part * image.width, part * image.height) if squash else (scale * width, scale * height)
    left, top = (image.width - across) / 2, (image.height - down) / 2
    box = (left, top, left + across, top + down)
    return np.asarray(image.resize((width, height), Image.Resampling[resample.upper()], box=box))
