"""Thumbnails: photos are found by the end of their path, turned upright and scaled down."""

import base64
import io
from pathlib import Path

import pytest
from PIL import Image

from sightunseen.core.errors import DataError
from sightunseen.report.thumbnails import SIZE, Photos

RED, BLUE = (220, 20, 20), (20, 20, 220)


def write(path: Path, colour: tuple[int, int, int] = RED, size: tuple[int, int] = (40, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def opened(address: str) -> Image.Image:
    kind, _, content = address.partition(",")
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(content, validate=True)))


def test_a_photo_is_found_by_the_end_of_its_path(tmp_path: Path) -> None:
    right = write(tmp_path / "images" / "001.Tern" / "Tern_0001.jpg")
    write(tmp_path / "images" / "002.Jay" / "Tern_0001.jpg")
    photos = Photos(tmp_path)
    assert photos.find("/BS/xian/work/CUB/images/001.Tern/Tern_0001.jpg") == right
    assert photos.find("001.tern/tern_0001.JPG") == right
    assert photos.find("C:\\data\\001.Tern\\Tern_0001.jpg") == right
    assert photos.find("Tern_0002.jpg") is None
    assert photos.find("") is None


def test_a_unique_file_name_is_found_in_any_folder(tmp_path: Path) -> None:
    flat = write(tmp_path / "Tern_0001.png")
    assert Photos(tmp_path).find("/elsewhere/001.Tern/Tern_0001.png") == flat


def test_an_ambiguous_file_name_has_no_photo(tmp_path: Path) -> None:
    write(tmp_path / "tern" / "0001.jpg")
    write(tmp_path / "jay" / "0001.jpg", BLUE)
    photos = Photos(tmp_path)
    assert photos.find("0001.jpg") is None
    assert photos.find("owl/0001.jpg") is None
    assert photos.picture("owl/0001.jpg") == ""
    assert photos.find("jay/0001.jpg") == tmp_path / "jay" / "0001.jpg"


def test_a_thumbnail_is_small_and_keeps_its_aspect_ratio(tmp_path: Path) -> None:
    write(tmp_path / "wide.jpg", size=(800, 400))
    write(tmp_path / "tiny.png", BLUE, size=(20, 10))
    photos = Photos(tmp_path)
    wide, tiny = opened(photos.picture("wide.jpg")), opened(photos.picture("tiny.png"))
    assert wide.size == (SIZE, SIZE // 2)
    assert tiny.size == (20, 10)
    assert all(abs(found - wanted) < 12 for found, wanted in zip(tiny.getpixel((10, 5)), BLUE, strict=True))


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    sideways = Image.new("RGB", (60, 20), BLUE)
    sideways.paste(RED, (0, 0, 20, 20))  # the left of the file is the top of the upright photo
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees clockwise
    sideways.save(tmp_path / "sideways.jpg", exif=exif, quality=95)
    upright = opened(Photos(tmp_path).picture("sideways.jpg"))
    assert upright.size == (20, 60)
    top, bottom = upright.getpixel((10, 5)), upright.getpixel((10, 55))
    assert top[0] > 150 > top[2]
    assert bottom[2] > 150 > bottom[0]
    assert not upright.getexif().get(0x0112)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_pixel_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (30, 20)).save(tmp_path / "photo.png")
    assert opened(Photos(tmp_path).picture("photo.png")).mode == "RGB"


@pytest.mark.parametrize("spoil", ["no image", "empty", "cut"])
def test_an_unreadable_photo_has_no_thumbnail(tmp_path: Path, spoil: str) -> None:
    path = write(tmp_path / "photo.png", size=(300, 200))
    good = path.read_bytes()
    bad = {
        "no image": b"<html>not found</html>",
        "empty": b"",
        "cut": good[: len(good) // 2],
    }[spoil]
    path.write_bytes(bad)
    assert Photos(tmp_path).picture("photo.png") == ""


def test_a_decoder_error_gives_no_thumbnail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "photo.png")

    def fail(*_: object) -> None:
        raise SyntaxError("broken PNG file")

    monkeypatch.setattr("sightunseen.data.photo_files._decoded", fail)
    assert Photos(tmp_path).picture("photo.png") == ""


def test_a_missing_folder_or_one_without_photos_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no folder .*nowhere.* --images"):
        Photos(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("jpg")
    with pytest.raises(DataError, match=r"contains no photos \(.*\.jpg"):
        Photos(tmp_path)
    with pytest.raises(DataError, match="no folder"):
        Photos(write(tmp_path / "photo.jpg"))
