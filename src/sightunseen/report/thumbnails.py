"""Photos of a data set's images, as small pictures that stand in a page."""

import base64
import io
from pathlib import Path, PurePosixPath

from sightunseen.core.errors import DataError, PhotoError
from sightunseen.data.photo_files import ENDINGS, read_photo

SIZE = 160  # pixels


class Photos:
    """The photos below a folder, found by the end of their path: data sets name images by paths of other machines."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}. Give --images the folder of the photos.")
        self.folder = folder
        self.by_name: dict[str, list[Path]] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in ENDINGS:
                self.by_name.setdefault(path.name.lower(), []).append(path)
        if not self.by_name:
            raise DataError(f"{folder} holds no photos ({', '.join(sorted(ENDINGS))}). Give --images another folder.")

    def find(self, name: str) -> Path | None:
        """The photo of an image: of those with its file name, the one that most folders above it agree on.

        None where there is no photo of that name, or several that agree equally well.
        """
        wanted = PurePosixPath(name.replace("\\", "/")).parts
        found = self.by_name.get(wanted[-1].lower(), []) if wanted else []
        agreeing = [_agreeing(path.parts, wanted) for path in found]
        best = [path for path, folders in zip(found, agreeing, strict=True) if folders == max(agreeing)]
        return best[0] if len(best) == 1 else None

    def picture(self, name: str) -> str:
        """The photo as a small JPEG in a ``data:`` address; empty where there is none, or none that can be read."""
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


def _agreeing(path: tuple[str, ...], wanted: tuple[str, ...]) -> int:
    agreeing = 0
    for mine, theirs in zip(reversed(path), reversed(wanted), strict=False):
        if mine.lower() != theirs.lower():
            break
        agreeing += 1
    return agreeing
