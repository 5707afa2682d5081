"""Folders of Hugging Face data sets: tables, class names, splits and photos are read without the package."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import feather

from sightunseen.core.errors import DataError
from sightunseen.data.photo_files import content_of, read_photo
from sightunseen.data.photo_lists import is_photos, list_photos
from sightunseen.data.table_files import load_tables
from sightunseen.data.tables import open_table

from .table_writers import fixed_lists, write_hugging_face

X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
ANIMALS = {"label": {"names": ["owl", "bat", "cat"], "_type": "ClassLabel"}}


def columns(start: int, stop: int, **others: Any) -> dict[str, Any]:
    return {"features": fixed_lists(X[start:stop]), "label": [row % 3 for row in range(start, stop)], **others}


def png(value: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (2, 2), (value, 0, 0)).save(content, "PNG")
    return content.getvalue()


def images(*values: int | None) -> dict[str, Any]:
    stored = [{"bytes": None if value is None else png(value), "path": None} for value in values]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return {"image": pa.array(stored, kind), "label": [k % 3 for k in range(len(values))]}


# Tables


def test_numbers_of_classes_become_their_names(tmp_path: Path) -> None:
    table = open_table(write_hugging_face(tmp_path, [columns(0, 20), columns(20, 30)], ANIMALS))
    assert table.labels is not None
    assert table.labels.tolist() == [("owl", "bat", "cat")[row % 3] for row in range(30)]
    np.testing.assert_array_equal(table.features[0:30], X)


def test_class_names_in_the_metadata_of_a_file_are_used(tmp_path: Path) -> None:
    described = {"huggingface": json.dumps({"info": {"features": ANIMALS}})}
    feather.write_feather(pa.table(columns(0, 3)).replace_schema_metadata(described), str(tmp_path / "t.feather"))
    labels = open_table(tmp_path / "t.feather").labels
    assert labels is not None
    assert labels.tolist() == ["owl", "bat", "cat"]


@pytest.mark.parametrize("label", [-1, 3])
def test_a_number_without_a_class_is_named(tmp_path: Path, label: int) -> None:
    parts = [columns(0, 20), columns(20, 30, label=[0] * 6 + [label] + [1] * 3)]
    message = rf"data-00001-of-00002\.arrow, row 7, the label is {label}; expected 0 to 2"
    with pytest.raises(DataError, match=message):
        open_table(write_hugging_face(tmp_path, parts, ANIMALS))


def test_folders_of_splits_are_splits(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test_unseen"]}')
    write_hugging_face(tmp_path / "train", [columns(0, 20, label=[0, 1] * 10)], ANIMALS)
    write_hugging_face(tmp_path / "test_unseen", [columns(20, 30, label=[2] * 10)], ANIMALS)
    (tmp_path / "classes.json").write_text('{"owl": [1, 0], "bat": [0, 1], "cat": [1, 1]}')
    data = load_tables(tmp_path, tmp_path / "classes.json")
    assert data.train_rows.tolist() == list(range(20))
    assert data.test_unseen_rows.tolist() == list(range(20, 30))
    assert data.unseen.tolist() == ["cat"]


def test_other_splits_raise(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    write_hugging_face(tmp_path / "train", [columns(0, 20)], ANIMALS)
    write_hugging_face(tmp_path / "validation", [columns(20, 30)], ANIMALS)
    (tmp_path / "classes.json").write_text('{"owl": [1, 0], "bat": [0, 1], "cat": [1, 1]}')
    with pytest.raises(DataError, match=r"split must be train, test_seen or test_unseen for each image; found.*validation"):
        load_tables(tmp_path, tmp_path / "classes.json")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", "[]", "must hold a JSON object"),
        ("state.json", "{", "cannot be read"),
        ("state.json", '{"_data_files": 3}', "must name the Arrow files"),
        ("state.json", '{"_data_files": [{"filename": "../t.arrow"}]}', "must name the Arrow files"),
        ("state.json", '{"_data_files": [{"filename": "other.arrow"}]}', r"lacks 1 of its 1 files: other\.arrow"),
        ("dataset_info.json", '{"features": {"label": {"_type": "ClassLabel", "names": 3}}}', "must be a list; got 3"),
        ("dataset_info.json", '{"features": {"label": {"_type": "ClassLabel", "names": [[]]}}}', "names of the classes"),
        ("dataset_dict.json", '{"splits": [".."]}', "must list the folders of the splits"),
    ],
)
def test_damaged_descriptions_raise(tmp_path: Path, name: str, content: str, message: str) -> None:
    write_hugging_face(tmp_path, [columns(0, 30)], ANIMALS)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message) as error:
        open_table(tmp_path)
    assert len(str(error.value)) <= 500


# Photos


def test_a_column_of_images_is_a_list_of_photos(tmp_path: Path) -> None:
    write_hugging_face(tmp_path, [images(10, 20, 30), images(40)], ANIMALS)
    assert is_photos(tmp_path)
    photos = list_photos(tmp_path)
    assert photos.labels == ("owl", "bat", "cat", "owl")
    assert [str(photo) for photo in photos.paths][2:] == ["data-00000-of-00002.arrow/2", "data-00001-of-00002.arrow/0"]
    reds = [read_photo(content_of(photo)).getpixel((0, 0)) for photo in photos.paths]
    assert reds == [(10, 0, 0), (20, 0, 0), (30, 0, 0), (40, 0, 0)]


def test_an_image_without_content_cannot_be_used(tmp_path: Path) -> None:
    photos = list_photos(write_hugging_face(tmp_path, [images(10, None, 30)], ANIMALS))
    with pytest.raises(DataError, match=r"arrow/1: it is not a regular file"):
        content_of(photos.paths[1])
    assert content_of(photos.paths[2]) == png(30)


def test_a_folder_with_features_is_a_table(tmp_path: Path) -> None:
    both = {**images(1, 2, 3), "features": fixed_lists(X[:3])}
    write_hugging_face(tmp_path, [both], ANIMALS)
    assert not is_photos(tmp_path)
    np.testing.assert_array_equal(open_table(tmp_path).features[0:3], X[:3])


def test_splits_of_photos_must_be_known(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write_hugging_face(tmp_path / name, [images(1, 2)], ANIMALS)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match="the split must be train, test_seen, test_unseen; found 'test'"):
        list_photos(tmp_path)
    assert len(list_photos(tmp_path / "test")) == 2


def test_compressed_images_raise(tmp_path: Path) -> None:
    write_hugging_face(tmp_path, [images(1, 2)])
    table = pa.table(images(*range(50)))
    path = tmp_path / "data-00000-of-00001.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"is compressed\. Save it again without compression"):
        list_photos(tmp_path)
