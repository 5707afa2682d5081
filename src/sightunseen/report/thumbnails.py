"""Thumbnails of photos, embedded in a page."""

import base64
import io
from pathlib import Path, PurePosixPath

from sightunseen.core.errors import DataError, PhotoError
from sightunseen.data.photo_files import ENDINGS, read_photo

SIZE = 160  # pixels


class Photos:
    """Photos below a folder, found by the end of their path: data sets often contain paths of another machine.

    Parameters
    ----------
    folder : Path
        The folder, searched recursively.

    Raises
    ------
    DataError
        If the folder does not exist or contains no photos.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}. Give the folder of the photos as --images.")
        self.by_name: dict[str, list[Path]] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in ENDINGS:
                self.by_name.setdefault(path.name.lower(), []).append(path)
        if not self.by_name:
            raise DataError(f"{folder} contains no photos ({', '.join(sorted(ENDINGS))}). Give another folder as --images.")

    def find(self, name: str) -> Path | None:
        """Find the photo of an image.

        Parameters
        ----------
        name : str
            Name or path of the image, possibly a path of another machine.

        Returns
        -------
        Path or None
            Of the photos with this file name, the one with most parent folders in common. None if no photo has
            this name, or if several have equally many folders in common.
        """
        wanted = PurePosixPath(name.replace("\\", "/")).parts
        found = self.by_name.get(wanted[-1].lower(), []) if wanted else []
        common = [_common_parts(path.parts, wanted) for path in found]
        best = [path for path, parts in zip(found, common, strict=True) if parts == max(common)]
        return best[0] if len(best) == 1 else None

    def picture(self, name: str) -> str:
        """Encode the thumbnail of an image.

        Parameters
        ----------
        name : str
            Name or path of the image.

        Returns
        -------
        str
            A JPEG as ``data:`` address; empty if there is no photo or it cannot be read.
        """
        path = self.find(name)
        if path is None:
            return ""
        try:
            small = read_photo(path)
        except PhotoError:
            return ""
        small.thumbnail((SIZE, SIZE))
        content = io.BytesIO()
        small.save(content, "JPEG", quality=80)
        return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"


def _common_parts(path: tuple[str, ...], wanted: tuple[str, ...]) -> int:
    """Number of equal parts at the end of two paths, ignoring case."""
    common = 0
    for mine, theirs in zip(reversed(path), reversed(wanted), strict=False):
        if mine.lower() != theirs.lower():
            break
        common += 1
    return common
