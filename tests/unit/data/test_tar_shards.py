"""Tar archives of photos: members of a key are a photo and its label; nothing is extracted; faults are named."""

import io
import json
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightunseen.core.errors import DataError, PhotoError
from sightunseen.data.photo_files import MOST_BYTES, content_of, read_photo
from sightunseen.data.photo_lists import is_photos, list_photos
from sightunseen.data.tar_shards import shards_of
from sightunseen.features.backbones import CallableBackbone
from sightunseen.features.extract import extract
from sightunseen.features.photo_datasets import load_photos


def png(value: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (2, 2), (value, 0, 0)).save(content, "PNG")
    return content.getvalue()


def write_tar(path: Path, members: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sample(key: str, value: int, label: str | None = None, ending: str = "cls") -> dict[str, bytes]:
    return {f"{key}.png": png(value), **({} if label is None else {f"{key}.{ending}": label.encode()})}


def red(photo: object) -> int:
    return int(np.asarray(read_photo(content_of(photo)))[0, 0, 0])  # type: ignore[arg-type]


def test_photos_and_labels_of_a_folder_of_shards(tmp_path: Path) -> None:
    write_tar(tmp_path / "shard-10.tar", sample("c", 30, "cat"))
    write_tar(tmp_path / "shard-9.tar", {**sample("a", 10, "owl\n"), **sample("b", 20, "bat")})
    assert is_photos(tmp_path)
    photos = list_photos(tmp_path)
    assert [str(photo) for photo in photos.paths] == ["shard-9.tar/a.png", "shard-9.tar/b.png", "shard-10.tar/c.png"]
    assert photos.labels == ("owl", "bat", "cat")
    assert [red(photo) for photo in photos.paths] == [10, 20, 30]
    assert {path.name for path in tmp_path.iterdir()} == {"shard-9.tar", "shard-10.tar"}


def test_photos_can_be_listed_again_and_pickled(tmp_path: Path) -> None:
    photos = list_photos(write_tar(tmp_path / "a.tar", {**sample("a", 10), **sample("b", 20)}))
    for _ in range(2):
        assert [red(pickle.loads(pickle.dumps(photo))) for photo in photos.fresh_paths()] == [10, 20]
    assert [photo.name for photo in pickle.loads(pickle.dumps(photos)).paths] == ["a.tar/a.png", "a.tar/b.png"]
    assert [str(photo) for photo in photos.paths[1:]] == ["a.tar/b.png"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_all_tar_formats_with_long_names(tmp_path: Path, form: int) -> None:
    key = "/".join(["a" * 40] * 3)
    photos = list_photos(write_tar(tmp_path / "a.tar", {**sample(key, 10, "owl"), **sample(f"{key}b", 20, "bat")}, form))
    assert [red(photo) for photo in photos.paths] == [10, 20]
    assert photos.labels == ("owl", "bat")
    assert str(photos.paths[0]) == f"a.tar/{key}.png"


@pytest.mark.parametrize(
    ("members", "labels"),
    [
        ({"a.jpg": b"", "a.json": b'{"label": 7}'}, ("7",)),
        ({"a.json": b'{"class": "owl"}', "a.jpg": b""}, ("owl",)),
        ({"a.jpg": b"", "a.json": b'{"label": 7}', "a.cls": b"3"}, ("3",)),
        ({"a.jpg": b"", "a.txt": b"owl"}, ("owl",)),
        ({"a.jpg": b"", "a.txt": b"a photo of an owl", "a.json": b'{"caption": "a photo of an owl"}'}, None),
        ({"a.jpg": b"", "a.json": b"[1]"}, None),
        ({"x/a.jpg": b"", "y/a.jpg": b"", "x/a.cls": b"1", "y/a.cls": b"2"}, ("1", "2")),
        ({"a.b.jpg": b"", "a.cls": b"1"}, ("1",)),
        ({"a.JPEG": b"", "a.webp": b"", "a.gif": b"", "a.mask": b"", "a.cls": b"1"}, ("1", "1")),
        ({"./a.jpg": b"", "./a.cls": b"1"}, ("1",)),
    ],
)
def test_where_the_label_comes_from(tmp_path: Path, members: dict[str, bytes], labels: tuple[str, ...] | None) -> None:
    assert list_photos(write_tar(tmp_path / "a.tar", members)).labels == labels


def test_ranges_of_shards(tmp_path: Path) -> None:
    for k in range(8, 12):
        write_tar(tmp_path / f"shard-{k:03}.tar", sample("a", k))
    source = tmp_path / "shard-{009..011}.tar"
    assert is_photos(source)
    assert [red(photo) for photo in list_photos(source).paths] == [9, 10, 11]
    assert [path.name for path in shards_of(tmp_path / "{8..9}-{1..2}.tar")] == ["8-1.tar", "8-2.tar", "9-1.tar", "9-2.tar"]
    with pytest.raises(DataError, match=r"there is no file .*shard-012\.tar"):
        list_photos(tmp_path / "shard-{009..012}.tar")
    with pytest.raises(DataError, match=r"the range 9\.\.3 must go up"):
        list_photos(tmp_path / "shard-{9..3}.tar")
    with pytest.raises(DataError, match="more than 1,000,000 files"):
        list_photos(tmp_path / "{0..9999}-{0..9999}.tar")


def test_photos_beside_archives_are_read_instead(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", sample("a", 1))
    (tmp_path / "b.png").write_bytes(png(2))
    assert [path.name for path in list_photos(tmp_path).paths] == ["b.png"]


@pytest.mark.parametrize("name", ["features.parquet", "features.npz", "res101.mat"])
def test_an_archive_beside_features_does_not_make_a_folder_one_of_photos(tmp_path: Path, name: str) -> None:
    write_tar(tmp_path / "a.tar", sample("a", 1))
    assert is_photos(tmp_path)
    (tmp_path / name).write_bytes(b"")
    assert not is_photos(tmp_path)


def test_damaged_photos_are_named_and_skipped(tmp_path: Path) -> None:
    members = {**sample("a", 10, "owl"), **sample("b", 20, "owl"), "c.jpg": b"no photo", "c.cls": b"bat"}
    photos, told = list_photos(write_tar(tmp_path / "s.tar", members)), list[str]()
    backbone = CallableBackbone(lambda images: [np.asarray(image).mean(axis=(0, 1)) for image in images], "mean colours")
    [batch] = extract(photos.fresh_paths(), backbone, tell=told.append, cache=False)
    assert batch.features[:, 0].tolist() == [10.0, 20.0]
    assert batch.rows.tolist() == [0, 1]
    assert told == ["s.tar/c.jpg: it is not an image of a supported format, or its header is incomplete"]


def test_shards_with_labels_are_a_data_set(tmp_path: Path) -> None:
    for k in range(2):
        write_tar(tmp_path / f"{k}.tar", {**sample("a", 40 * k, "owl"), **sample("b", 40 * k + 20, "bat")})
    (tmp_path / "classes.csv").write_text("class,legs\nowl,2\nbat,2\ncat,4\n")
    backbone = CallableBackbone(lambda images: [np.asarray(image).mean(axis=(0, 1)) for image in images], "mean colours")
    data = load_photos(tmp_path, backbone)
    assert data.features[:, 0].tolist() == [0.0, 20.0, 40.0, 60.0]
    assert data.labels.tolist() == ["owl", "bat"] * 2
    assert data.image_names is not None
    assert data.image_names.tolist() == ["0.tar/a.png", "0.tar/b.png", "1.tar/a.png", "1.tar/b.png"]


def test_members_that_are_not_regular_files_cannot_be_used(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (("folder", tarfile.DIRTYPE), ("a.jpg", tarfile.SYMTYPE), ("b.jpg", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    for photo in list_photos(tmp_path / "a.tar").paths:
        with pytest.raises(PhotoError, match=r"a\.tar/[ab]\.jpg: it is not a regular file"):
            content_of(photo)


def test_a_photo_of_absurd_size_cannot_be_used(tmp_path: Path) -> None:
    member = tarfile.TarInfo("a.jpg")
    member.size = MOST_BYTES + 1
    with open(tmp_path / "a.tar", "wb") as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
        file.truncate(512 + -(-member.size // 512) * 512 + 1024)
    [photo] = list_photos(tmp_path / "a.tar").paths
    with pytest.raises(PhotoError, match="more than 1 GiB"):
        content_of(photo)


@pytest.mark.parametrize("size", [1, 511, 512, 600, 1500, 2048])
def test_a_truncated_archive_raises(tmp_path: Path, size: int) -> None:
    path = write_tar(tmp_path / "a.tar", {**sample("a", 10), "b.jpg": os.urandom(700)})
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DataError, match=r"a\.tar"):
        list_photos(path)


def test_a_damaged_header_raises(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", {**sample("a", 10), **sample("b", 20), **sample("c", 30)})
    content = bytearray(path.read_bytes())
    content[1024 + 100] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.tar has a damaged header at byte 1,024; photos after it would be lost"):
        list_photos(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.jpg": b"", "b.jpg": b"", "a.cls": b"1"}, r"a\.tar/b\.jpg has no label, but other photos"),
        ({"a.jpg": b"", "a.json": b"{"}, r"a\.tar: a\.json is not valid JSON"),
        ({"a.jpg": b"", "a.json": b'{"label": []}'}, r"a\.json: the label is \[\]; expected a text"),
        ({"a.jpg": b"", "a.json": b" " * (1 << 20) + b"{}"}, r"a\.json has more than 1,048,576 bytes"),
        ({"a.jpg": b"", "a.txt": b"x" * 2000}, "2,000 characters; at most 1,000"),
        ({"a.txt": b"owl"}, "holds no photos"),
        ({}, "holds no photos"),
    ],
)
def test_faults_of_labels_are_named(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        list_photos(write_tar(tmp_path / "a.tar", members))
    assert len(str(error.value)) <= 500


def test_compressed_archives_and_other_files_raise(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a.jpg"))
    (tmp_path / "b.tar").write_text(json.dumps(["no archive"]) * 100)
    for name in ("a.tar", "b.tar"):
        with pytest.raises(DataError, match=rf"{name} cannot be read as an uncompressed tar archive"):
            list_photos(tmp_path / name)


def test_a_header_that_declares_gigabytes_raises(tmp_path: Path) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 1 << 33
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(DataError, match=r"a\.tar cannot be read .*a header declares 8,589,934,592 bytes"):
        list_photos(tmp_path / "a.tar")
