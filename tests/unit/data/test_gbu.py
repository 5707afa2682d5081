"""Loading benchmark folders: values, names, indices and class vectors are right, and errors name what is missing."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.errors import DataError, MissingDependencyError
from sightunseen.data.gbu import is_gbu_folder, load_gbu


@pytest.fixture(params=["v7", "v7.3"])
def either_version(request: pytest.FixtureRequest, birds: Any) -> Any:
    if request.param == "v7.3":
        birds.v7_3 = {"res101", "att_splits"}
    return birds


def named(pair: tuple[Any, Any]) -> tuple[set[str], set[str]]:
    return set(pair[0].tolist()), set(pair[1].tolist())


def test_images_are_rows_and_labels_are_class_names(either_version: Any, tmp_path: Path) -> None:
    data = load_gbu(either_version.write(tmp_path / "BIRDS"))
    np.testing.assert_array_equal(data.features, either_version.X)
    assert data.labels.tolist() == either_version.labels
    assert data.image_names.tolist() == [f"{label}/{row}.jpg" for row, label in enumerate(either_version.labels)]
    assert data.name == "BIRDS"


def test_split_indices_are_converted_to_count_from_zero(either_version: Any, tmp_path: Path) -> None:
    data, parts = load_gbu(either_version.write(tmp_path / "BIRDS")), either_version.parts
    assert data.train_rows.tolist() == parts["trainval"]
    assert data.test_seen_rows.tolist() == parts["test_seen"]
    assert data.test_unseen_rows.tolist() == parts["test_unseen"]
    assert data.listed_train.tolist() == parts["train"]
    assert data.listed_validation.tolist() == parts["val"]
    np.testing.assert_array_equal(data.test_unseen.X, either_version.X[parts["test_unseen"]])


def test_seen_and_unseen_classes_are_derived_from_the_splits(either_version: Any, tmp_path: Path) -> None:
    data = load_gbu(either_version.write(tmp_path / "BIRDS"))
    assert data.seen.tolist() == ["001.Crow", "002.Auk", "004.Gull", "005.Owl", "007.Kite", "009.Wren+tit"]
    assert data.unseen.tolist() == ["003.Würger", "008.Swift"]


@pytest.mark.parametrize("semantics", ["att", "original_att"])
def test_class_vectors_are_found_by_name(either_version: Any, tmp_path: Path, semantics: str) -> None:
    data = load_gbu(either_version.write(tmp_path / "BIRDS"), semantics=semantics)
    by_name = dict(zip(either_version.texts["allclasses"], either_version.vectors[semantics], strict=True))
    for label, vector in by_name.items():
        np.testing.assert_array_equal(data.classes.vectors_of([label])[0], vector)
    assert len(data.classes.labels) == len(by_name)
    assert data.classes.use == semantics


def test_all_class_vectors_are_loaded(birds: Any, tmp_path: Path) -> None:
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    np.testing.assert_array_equal(data.using("original_att").classes.vectors, birds.vectors["original_att"])


def test_class_vectors_of_another_file_are_matched_by_label(birds: Any, cell_array: Callable[..., Any], tmp_path: Path) -> None:
    names = birds.texts["allclasses"]
    sentences = np.arange(3.0 * len(names)).reshape(len(names), 3)
    order = np.argsort(names)
    birds.mats["sent_splits"] = {"att": sentences[order].T, "allclasses_names": cell_array(names[k] for k in order)}
    data = load_gbu(birds.write(tmp_path / "BIRDS"), semantics="sent_splits:att")
    np.testing.assert_array_equal(data.classes.vectors_of(names), sentences)
    assert data.classes.use == "sent_splits:att"
    assert set(data.sources) == {"res101.mat", "att_splits.mat", "sent_splits.mat"}


def test_class_vectors_of_another_file_without_names_are_matched_by_order(birds: Any, tmp_path: Path) -> None:
    sentences = np.arange(24.0).reshape(8, 3)
    birds.mats["sent_splits"] = {"att": sentences.T}
    data = load_gbu(birds.write(tmp_path / "BIRDS"), semantics="sent_splits:att")
    np.testing.assert_array_equal(data.classes.vectors_of(birds.texts["allclasses"]), sentences)


def test_another_file_without_a_class_raises(birds: Any, cell_array: Callable[..., Any], tmp_path: Path) -> None:
    names = [*birds.texts["allclasses"][:-1], "Dodo"]
    birds.mats["sent_splits"] = {"att": np.ones((3, 8)), "allclasses_names": cell_array(names)}
    with pytest.raises(DataError, match=r"sent_splits.*no vector for 1 classes.*008\.Swift"):
        load_gbu(birds.write(tmp_path / "BIRDS"), semantics="sent_splits:att")


def test_concatenated_class_vectors_have_the_spread_of_their_weights(birds: Any, tmp_path: Path) -> None:
    birds.mats["sent_splits"] = {"att": np.random.default_rng(0).normal(5, 3, (3, 8))}
    folder, joined = birds.write(tmp_path / "BIRDS"), "att*0.5 + sent_splits:att"
    vectors = load_gbu(folder, semantics=joined).classes.vectors
    kinds = [load_gbu(folder, semantics=kind).classes.vectors for kind in ("att", "sent_splits:att")]
    blocks = [slice(None, kinds[0].shape[1]), slice(kinds[0].shape[1], None)]
    for kind, columns, weight in zip(kinds, blocks, (0.5, 1.0), strict=True):
        block = vectors[:, columns]
        spread = np.mean([np.sum((row - block.mean(axis=0)) ** 2) for row in block])
        assert spread == pytest.approx(weight**2)
        np.testing.assert_allclose(block / block[0, 0], kind / kind[0, 0])


@pytest.mark.parametrize(
    ("joined", "message"), [("att*much+att", "NAME[*]WEIGHT"), ("att+no_such", "no_such"), ("att*0+att", "positive")]
)
def test_invalid_combinations_of_class_vectors_raise(birds: Any, tmp_path: Path, joined: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_gbu(birds.write(tmp_path / "BIRDS"), semantics=joined)


def test_line_numbers_are_removed_from_attribute_names(birds: Any, tmp_path: Path) -> None:
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    expected = ("has_bill::long", "has_wing::broad", "eats::fish", "is::loud")
    assert data.classes.attribute_names == expected
    assert data.using("original_att").classes.attribute_names == expected


def test_attribute_names_are_read_from_predicates_txt(birds: Any, tmp_path: Path) -> None:
    del birds.texts["attributes"]
    birds.texts["predicates"] = ["     1\tblack", "     2\tfurry", "     3\tbig", "     4\tnew world"]
    data = load_gbu(birds.write(tmp_path / "ANIMALS"))
    assert data.classes.attribute_names == ("black", "furry", "big", "new world")


@pytest.mark.parametrize("lines", [None, ["1 only", "2 three", "3 names"]])
def test_attribute_names_of_another_number_are_ignored(birds: Any, tmp_path: Path, lines: list[str] | None) -> None:
    del birds.texts["attributes"]
    if lines is not None:
        birds.texts["attributes"] = lines
    assert load_gbu(birds.write(tmp_path / "BIRDS")).classes.attribute_names is None


def test_sources_and_options_are_recorded(birds: Any, tmp_path: Path) -> None:
    folder = birds.write(tmp_path / "BIRDS")
    data = load_gbu(folder, semantics="original_att")
    for name in ("res101.mat", "att_splits.mat"):
        assert data.sources[name] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert data.options == {"features": "res101", "splits": "att_splits", "semantics": "original_att"}


def test_file_names_may_include_the_ending(birds: Any, tmp_path: Path) -> None:
    folder = birds.write(tmp_path / "BIRDS")
    plain, ended = load_gbu(folder), load_gbu(folder, features="res101.mat", splits="att_splits.mat")
    np.testing.assert_array_equal(ended.features, plain.features)
    assert ended.options == plain.options


def test_feature_and_split_files_can_be_selected(birds: Any, indices: Callable[..., Any], tmp_path: Path) -> None:
    birds.mats["mine"] = {"features": birds.X.T + 1, "labels": birds.features["labels"]}
    fewer = birds.parts["trainval"][:-1]
    birds.mats["my_splits"] = birds.splits | {"trainval_loc": indices(fewer)}
    data = load_gbu(birds.write(tmp_path / "BIRDS"), "mine", "my_splits")
    np.testing.assert_array_equal(data.features, birds.X + 1)
    assert data.train_rows.tolist() == fewer
    assert data.image_names is None


# Missing files and variables


def test_a_missing_feature_file_is_named_with_the_available_ones(birds: Any, tmp_path: Path) -> None:
    birds.mats["res50"] = birds.mats.pop("res101")
    birds.mats["vgg"] = birds.mats["res50"]
    folder = birds.write(tmp_path / "BIRDS")
    with pytest.raises(DataError, match=r"res101\.mat is missing in .*BIRDS.*It has res50, vgg: choose with --features"):
        load_gbu(folder)


def test_a_folder_without_feature_files_raises(birds: Any, tmp_path: Path) -> None:
    del birds.mats["res101"]
    with pytest.raises(DataError, match=r"res101\.mat is missing in .*BIRDS.*none of that kind"):
        load_gbu(birds.write(tmp_path / "BIRDS"))


def test_a_missing_split_file_is_named_with_the_available_ones(birds: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"my_splits\.mat is missing.*It has att_splits: choose with --splits"):
        load_gbu(birds.write(tmp_path / "BIRDS"), splits="my_splits")


def test_error_for_a_missing_semantics_file_names_the_option(birds: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sent_splits\.mat is missing.*It has att_splits: choose with --semantics"):
        load_gbu(birds.write(tmp_path / "BIRDS"), semantics="sent_splits:att")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no folder .*NOWHERE.*xlsa17"):
        load_gbu(tmp_path / "NOWHERE")


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("res101", "features"),
        ("res101", "labels"),
        ("att_splits", "att"),
        ("att_splits", "trainval_loc"),
        ("att_splits", "test_seen_loc"),
        ("att_splits", "test_unseen_loc"),
    ],
)
def test_a_missing_variable_is_named_with_its_file(either_version: Any, tmp_path: Path, file: str, key: str) -> None:
    del either_version.mats[file][key]
    other = "image_files" if file == "res101" else "original_att"
    with pytest.raises(DataError, match=f"{file}.mat has no '{key}'; it has .*{other}"):
        load_gbu(either_version.write(tmp_path / "BIRDS"))


@pytest.mark.parametrize("semantics", ["original_att", "att_splits:original_att"])
def test_unknown_semantics_are_named(birds: Any, tmp_path: Path, semantics: str) -> None:
    del birds.splits["original_att"]
    with pytest.raises(DataError, match=r"att_splits\.mat has no class vectors called 'original_att'; it has att\."):
        load_gbu(birds.write(tmp_path / "BIRDS"), semantics=semantics)


def test_original_attributes_may_be_missing(birds: Any, tmp_path: Path) -> None:
    del birds.splits["original_att"]
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    assert list(data.classes.semantics) == ["att"]
    np.testing.assert_array_equal(data.classes.vectors, birds.vectors["att"])


def test_class_names_are_read_from_allclasses_txt(birds: Any, tmp_path: Path) -> None:
    del birds.splits["allclasses_names"]
    assert load_gbu(birds.write(tmp_path / "BIRDS")).labels.tolist() == birds.labels


def test_a_folder_without_class_names_and_lists(birds: Any, tmp_path: Path) -> None:
    for key in ("original_att", "allclasses_names", "train_loc", "val_loc"):
        del birds.splits[key]
    del birds.features["image_files"]
    names = list(birds.texts["allclasses"])
    birds.texts.clear()
    data = load_gbu(birds.write(tmp_path / "FLO"))
    assert data.labels.tolist() == [f"class {names.index(label) + 1}" for label in birds.labels]
    np.testing.assert_array_equal(data.classes.vectors_of(["class 3"])[0], birds.vectors["att"][2])
    assert data.unseen.tolist() == ["class 7", "class 8"]
    assert data.image_names is None
    assert data.classes.attribute_names is None
    assert data.validation == ()


def test_a_class_list_that_is_not_utf8_is_named(birds: Any, tmp_path: Path) -> None:
    folder = birds.write(tmp_path / "BIRDS")
    (folder / "allclasses.txt").write_text("\n".join(birds.texts["allclasses"]), "latin-1")
    with pytest.raises(DataError, match=r"allclasses\.txt"):
        load_gbu(folder)


# Damaged and inconsistent files


@pytest.mark.parametrize("part_kept", [0.0, 0.02, 0.5, 0.99])
@pytest.mark.parametrize("file", ["res101", "att_splits"])
def test_a_truncated_file_is_named_with_a_remedy(either_version: Any, tmp_path: Path, file: str, part_kept: float) -> None:
    path = either_version.write(tmp_path / "BIRDS") / f"{file}.mat"
    content = path.read_bytes()
    path.write_bytes(content[: int(part_kept * len(content))])
    with pytest.raises(DataError, match=rf"{file}\.mat cannot be read.*[Dd]ownload it again"):
        load_gbu(path.parent)


def test_a_file_that_is_not_matlab_is_named(birds: Any, tmp_path: Path) -> None:
    folder = birds.write(tmp_path / "BIRDS")
    (folder / "res101.mat").write_text("<html>404: not found, says the server instead of the file</html>" * 9)
    with pytest.raises(DataError, match=r"res101\.mat cannot be read as a MATLAB file"):
        load_gbu(folder)


def test_a_replaced_file_is_read_again(birds: Any, tmp_path: Path) -> None:
    path = birds.write(tmp_path / "BIRDS") / "res101.mat"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError):
        load_gbu(path.parent)
    path.write_bytes(content)
    np.testing.assert_array_equal(load_gbu(path.parent).features, birds.X)


def test_v7_3_without_h5py_names_the_package(
    birds: Any, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    birds.v7_3 = {"res101"}
    folder = birds.write(tmp_path / "BIRDS")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependencyError, match=r"res101\.mat is a MATLAB v7\.3 file.*sightunseen\[hdf5\]"):
        load_gbu(folder)


def test_v7_3_strings_are_utf_16(birds: Any, cell_array: Callable[..., Any], tmp_path: Path) -> None:
    names = ["Owl \N{OWL}", *birds.texts["allclasses"][1:]]
    birds.v7_3 = {"att_splits"}
    birds.splits["allclasses_names"] = cell_array(names)
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    assert data.classes.labels.tolist() == names


@pytest.mark.parametrize(("wrong", "found"), [(0, "0 to 8"), (9, "1 to 9")])
def test_labels_out_of_range_raise(birds: Any, tmp_path: Path, wrong: int, found: str) -> None:
    birds.features["labels"][birds.labels.index("009.Wren+tit")] = wrong
    with pytest.raises(DataError, match=rf"res101\.mat: labels must run from 1 to 8.*found {found}"):
        load_gbu(birds.write(tmp_path / "BIRDS"))


@pytest.mark.parametrize("wrong", [1.5, np.nan])
def test_fractional_labels_raise(birds: Any, tmp_path: Path, wrong: float) -> None:
    birds.features["labels"][3] = wrong
    with pytest.raises(DataError, match=r"res101\.mat: labels"):
        load_gbu(birds.write(tmp_path / "BIRDS"))


@pytest.mark.parametrize(("wrong", "found"), [(0, "found 0 to"), (49, "to 49")])
@pytest.mark.parametrize("part", ["trainval_loc", "test_seen_loc", "test_unseen_loc", "train_loc", "val_loc"])
def test_split_indices_out_of_range_raise(birds: Any, tmp_path: Path, part: str, wrong: int, found: str) -> None:
    birds.splits[part][1] = wrong
    with pytest.raises(DataError, match=rf"att_splits\.mat: {part} must hold indices from 1 to 48.*{found}"):
        load_gbu(birds.write(tmp_path / "BIRDS"))


def test_different_numbers_of_features_and_labels_raise(birds: Any, tmp_path: Path) -> None:
    birds.features["features"] = birds.X[:-1].T
    with pytest.raises(DataError, match="47 feature rows but 48 labels"):
        load_gbu(birds.write(tmp_path / "BIRDS"))


def test_different_numbers_of_vectors_and_class_names_raise(birds: Any, tmp_path: Path) -> None:
    birds.splits["att"] = birds.splits["att"][:, :-1]
    with pytest.raises(DataError, match="'att' must have one row for each of the 8 labels"):
        load_gbu(birds.write(tmp_path / "BIRDS"))


# Validation classes


def test_validation_classes_come_from_the_split_file_and_the_class_lists(birds: Any, tmp_path: Path) -> None:
    splits = birds.splits
    splits["train_loc"], splits["val_loc"] = splits["val_loc"], splits["train_loc"]
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    texts = birds.texts
    assert [named(pair) for pair in data.validation] == [
        (set(texts["valclasses1"]), set(texts["trainclasses1"])),
        (set(texts["trainclasses1"]), set(texts["valclasses1"])),
        (set(texts["trainclasses2"]), set(texts["valclasses2"])),
    ]


def test_duplicate_validation_classes_are_dropped(birds: Any, tmp_path: Path) -> None:
    data = load_gbu(birds.write(tmp_path / "BIRDS"))  # train_loc and val_loc have the classes of list 1
    assert [named(pair)[1] for pair in data.validation] == [{"002.Auk", "004.Gull"}, {"009.Wren+tit", "001.Crow"}]


@pytest.mark.parametrize("missing", [["train_loc"], ["val_loc"], ["train_loc", "val_loc"]])
def test_validation_classes_come_from_the_class_lists(birds: Any, tmp_path: Path, missing: list[str]) -> None:
    birds.texts |= {"trainclasses1": birds.texts["trainclasses2"], "valclasses1": birds.texts["valclasses2"]}
    for key in missing:
        del birds.splits[key]
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    assert [named(pair) for pair in data.validation] == [
        ({"002.Auk", "004.Gull", "005.Owl", "007.Kite"}, {"009.Wren+tit", "001.Crow"})
    ]
    assert (data.listed_train is None) == ("train_loc" in missing)
    assert (data.listed_validation is None) == ("val_loc" in missing)


@pytest.mark.parametrize(
    ("list_name", "line"),
    [("trainclasses2", "008.Swift"), ("valclasses2", "008.Swift"), ("valclasses2", "Dodo"), ("valclasses2", "005.Owl")],
    ids=["unseen in training", "unseen in validation", "unknown", "on both sides"],
)
def test_invalid_class_lists_are_ignored(birds: Any, tmp_path: Path, list_name: str, line: str) -> None:
    birds.texts[list_name].append(line)
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    assert [named(pair)[1] for pair in data.validation] == [{"002.Auk", "004.Gull"}]


def test_folds_use_the_listed_classes_and_training_images_only(birds: Any, tmp_path: Path) -> None:
    data = load_gbu(birds.write(tmp_path / "BIRDS"))
    fold = data.validation_folds(1)[0]
    assert set(fold.seen) == set(birds.texts["trainclasses1"])
    assert set(fold.unseen) == set(birds.texts["valclasses1"])
    rows = [*fold.train.rows, *fold.test_seen.rows, *fold.test_unseen.rows]
    assert sorted(rows) == sorted(birds.parts["trainval"])


def test_is_gbu_folder_looks_for_a_split_file(birds: Any, tmp_path: Path) -> None:
    assert is_gbu_folder(birds.write(tmp_path / "BIRDS"))
    assert not is_gbu_folder(tmp_path)
    assert not is_gbu_folder(tmp_path / "BIRDS" / "att_splits.mat")
