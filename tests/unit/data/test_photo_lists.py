"""Lists of photos from folders and tables: order, labels and splits are reproducible."""

from pathlib import Path

import pytest

from sightunseen.core.errors import DataError
from sightunseen.data.photo_lists import is_photos, list_photos


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_folder_names_are_labels(tmp_path: Path) -> None:
    touch(tmp_path, "zebra/2.JPG", "zebra/1.png", "okapi/deep/er/3.webp", "okapi/notes.txt", ".git/x.jpg", "okapi/.hidden.jpg")
    photos = list_photos(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in photos.paths] == [
        "okapi/deep/er/3.webp",
        "zebra/1.png",
        "zebra/2.JPG",
    ]
    assert photos.labels == ("okapi", "zebra", "zebra")
    assert photos.splits is None


def test_a_flat_folder_and_one_photo_have_no_labels(tmp_path: Path) -> None:
    touch(tmp_path, "b.jpg", "a.jpg", "classes.csv", "c.heic")
    photos = list_photos(tmp_path)
    assert [path.name for path in photos.paths] == ["a.jpg", "b.jpg"]
    assert photos.labels is None
    assert [path.name for path in photos.left_out] == ["c.heic"]
    assert list_photos(tmp_path / "a.jpg").paths == (tmp_path / "a.jpg",)


def test_seen_and_unseen_folders_define_the_splits(tmp_path: Path) -> None:
    for folder in (tmp_path / "here", tmp_path / "elsewhere"):
        touch(folder, *(f"seen/{name}/{k}.jpg" for name in ("cat", "dog") for k in range(20)), "unseen/okapi/1.jpg")
        touch(folder, "seen/single/1.jpg", "classes.csv")
    photos = list_photos(tmp_path / "here")
    counts = dict.fromkeys(zip(photos.labels or (), photos.splits or (), strict=True), 0)
    for pair in zip(photos.labels or (), photos.splits or (), strict=True):
        counts[pair] += 1
    assert counts == {
        ("cat", "train"): 16,
        ("cat", "test_seen"): 4,
        ("dog", "train"): 16,
        ("dog", "test_seen"): 4,
        ("single", "train"): 1,  # a class keeps at least one training photo
        ("okapi", "test_unseen"): 1,
    }
    assert list_photos(tmp_path / "elsewhere").splits == photos.splits
    held = [path.name for path, split in zip(photos.paths, photos.splits or (), strict=True) if split == "test_seen"]
    assert held[:4] != held[4:]  # selected by a hash, not by position


def test_a_class_in_both_seen_and_unseen_raises(tmp_path: Path) -> None:
    touch(tmp_path, "seen/cat/1.jpg", "unseen/cat/2.jpg")
    with pytest.raises(DataError, match="'cat' is in both seen and unseen"):
        list_photos(tmp_path)


def test_paths_in_a_csv_are_relative_to_it(tmp_path: Path) -> None:
    table = tmp_path / "photos.csv"
    table.write_text("﻿path,class,split\nb.jpg,007,train\nsub/a.jpg,okapi,test_unseen\n/x/c.png,007,test_seen\n", "utf-8")
    photos = list_photos(table)
    assert photos.paths == (tmp_path / "b.jpg", tmp_path / "sub/a.jpg", Path("/x/c.png"))
    assert photos.labels == ("007", "okapi", "007")
    assert photos.splits == ("train", "test_unseen", "test_seen")
    table.write_text("path\nb.jpg\n")
    assert list_photos(table).labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\na.jpg,cat\n", "no column 'path'.*file, label"),
        ("path,label\na.jpg,cat\nb.jpg,\n", "line 3: 'label' is empty"),
        ("path,split\na.jpg,test\n", "train, test_seen, test_unseen; found 'test'"),
        ("path,label\n", "no rows below the header"),
        ("", "it is empty"),
        ("path,path\na.jpg,b.jpg\n", "two columns called 'path'"),
        ("path,label\na.jpg\n", "line 2: 'label' is empty"),
    ],
)
def test_an_invalid_csv_raises(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "photos.csv"
    table.write_text(text)
    with pytest.raises(DataError, match=message):
        list_photos(table)


def test_cyclic_links_terminate(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.jpg", "cat/more/2.jpg", "dog/3.jpg")
    (tmp_path / "cat/more/up").symlink_to(tmp_path / "cat")
    (tmp_path / "cat/top").symlink_to(tmp_path)
    (tmp_path / "cat/self").symlink_to("self")
    photos = list_photos(tmp_path)
    assert [path.name for path in photos.paths] == ["1.jpg", "2.jpg", "3.jpg"]
    assert photos.labels == ("cat", "cat", "dog")


def test_error_without_photos_names_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        list_photos(tmp_path / "nowhere")
    with pytest.raises(DataError, match="found nothing"):
        list_photos(tmp_path)
    touch(tmp_path, "notes.txt")
    with pytest.raises(DataError, match=r"1 other files and folders \(notes\.txt"):
        list_photos(tmp_path)
    with pytest.raises(DataError, match=r"got 'notes\.txt'"):
        list_photos(tmp_path / "notes.txt")
    touch(tmp_path, "a.HEIC")
    with pytest.raises(DataError, match=r"found 1 image of formats that cannot be read \(\.heic; convert to JPEG or PNG\)"):
        list_photos(tmp_path)


def test_images_of_other_formats_are_photos_that_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.heic", "cat/2.avif")
    assert is_photos(tmp_path)
    assert is_photos(tmp_path / "cat" / "1.heic")
    touch(tmp_path, "cat/3.jpg")
    assert list_photos(tmp_path).remark.startswith("note: left out 2 images of formats that cannot be read (.avif, .heic;")
    assert list_photos(tmp_path / "cat" / "3.jpg").remark == ""
    touch(tmp_path / "features", "features.npz", "scan.raw")
    assert not is_photos(tmp_path / "features")
    touch(tmp_path / "tables", "birds.parquet", "tsne.svg")
    assert not is_photos(tmp_path / "tables")


def test_class_folders_of_other_formats_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "lion/a.heic", "tiger/b.heic", "classes.csv")
    with pytest.raises(DataError, match=r"holds no photos .*; found 2 images of formats that cannot be read \(\.heic;"):
        list_photos(tmp_path)
    touch(tmp_path, "lion/c.jpg", "d.heic")
    assert [path.name for path in list_photos(tmp_path).left_out] == ["d.heic", "a.heic", "b.heic"]


def test_photos_beside_seen_and_unseen_raise(tmp_path: Path) -> None:
    touch(tmp_path, "seen/cat/1.jpg", "unseen/dog/1.jpg", "notes/a.txt")
    assert len(list_photos(tmp_path)) == 2
    touch(tmp_path, "photos.tar", "overview.svg", "notes/scan.heic")  # archives and images of other formats do not count
    assert len(list_photos(tmp_path)) == 2
    (tmp_path / "notes" / "again").symlink_to(tmp_path)
    assert len(list_photos(tmp_path)) == 2
    touch(tmp_path, "validation/owl/1.jpg")
    with pytest.raises(DataError, match=r"the photo 'validation/owl/1\.jpg' is beside seen and unseen\. Move it"):
        list_photos(tmp_path)
    photos = list_photos(tmp_path, labelled=False)
    assert ([path.parent.name for path in photos.paths], photos.labels) == (["cat", "dog", "owl"], None)


def test_photos_beside_class_folders_raise(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.jpg", "stray.jpg")
    with pytest.raises(DataError, match=r"photos \(such as 'stray\.jpg'\) beside folders of classes \(such as 'cat'\)"):
        list_photos(tmp_path)
    photos = list_photos(tmp_path, labelled=False)
    assert ([path.name for path in photos.paths], photos.labels) == (["stray.jpg", "1.jpg"], None)
