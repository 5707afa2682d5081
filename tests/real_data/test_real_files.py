"""Real benchmark files: sizes, order and leaks, against plain scipy and sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.data.doctor import FAIL, PASS, WARN, Finding, check_files, examine, repair
from sightunseen.data.doctor.description_checks import check_descriptions
from sightunseen.data.gbu import load_gbu, read_gbu
from sightunseen.semantics.class_vectors import AttributeScaling

pytestmark = pytest.mark.real_data

FEATURES = {"CUB": "res50", "AWA1": "bow512"}
FIXED = {"CUB": "att_splits", "AWA1": "att_splits_trainval_fixed"}
LEAKING = [("CUB", "att_splits_v1"), ("CUB", "sent_splits"), ("AWA1", "att_splits")]
# facts/protocol.md: images, attributes, classes to train on, to validate on and unseen, images to train on, to test as
# seen and as unseen.
SIZES = {
    "CUB": (11788, 312, 100, 50, 50, 7057, 1764, 2967),
    "AWA1": (30475, 85, 27, 13, 10, 19832, 4958, 5685),
}


@pytest.fixture(scope="module", params=["CUB", "AWA1"])
def fixed(request: pytest.FixtureRequest, benchmark_folder: Path) -> ZeroShotDataset:
    return load_gbu(benchmark_folder / request.param, FEATURES[request.param], FIXED[request.param])


@pytest.fixture(scope="module")
def cub(benchmark_folder: Path) -> ZeroShotDataset:
    return load_gbu(benchmark_folder / "CUB", "res50")


@pytest.fixture(scope="module")
def bird_features(benchmark_folder: Path) -> dict[str, Any]:
    return loadmat(benchmark_folder / "CUB" / "res50.mat")


def finding(findings: list[Finding], check: str) -> Finding:
    return next(found for found in findings if found.check == check)


def listed(path: Path) -> dict[str, set[int]]:
    """Image numbers of each part of a split file, counted from one."""
    return {key.removesuffix("_loc"): set(value.ravel().tolist()) for key, value in loadmat(path).items() if "_loc" in key}


def texts(cells: Any) -> list[str]:
    return [str(cell[0][0]) for cell in cells]


def test_sizes_are_the_published_ones(fixed: ZeroShotDataset) -> None:
    (pair, *_) = fixed.validation
    found = (
        len(fixed.features),
        fixed.classes.vectors.shape[1],
        len(pair[0]),
        len(pair[1]),
        len(fixed.unseen),
        len(fixed.train),
        len(fixed.test_seen),
        len(fixed.test_unseen),
    )
    assert found == SIZES[fixed.name]
    assert len(fixed.seen) == len(pair[0]) + len(pair[1])


def test_published_class_lists_give_three_validation_folds(fixed: ZeroShotDataset, benchmark_folder: Path) -> None:
    lists = [benchmark_folder / fixed.name / f"valclasses{k}.txt" for k in (1, 2, 3)]
    expected = {frozenset(path.read_text("utf-8").split()) for path in lists}
    assert {frozenset(held.tolist()) for _, held in fixed.validation} >= expected


def test_fixed_split_files_pass_the_split_doctor(fixed: ZeroShotDataset, benchmark_folder: Path) -> None:
    files = read_gbu(benchmark_folder / fixed.name, FEATURES[fixed.name], FIXED[fixed.name])
    findings = [*check_files(files), *examine(fixed)]
    assert [found for found in findings if found.level == FAIL] == []
    assert finding(findings, "validation-leak").level == PASS
    assert finding(findings, "sizes").level == PASS


def test_fixed_split_files_validate_on_training_images_alone(fixed: ZeroShotDataset) -> None:
    assert {*fixed.listed_train.tolist(), *fixed.listed_validation.tolist()} == set(fixed.train_rows.tolist())


@pytest.mark.parametrize(("name", "splits"), LEAKING)
def test_leak_of_older_files_is_detected_and_repaired(benchmark_folder: Path, name: str, splits: str) -> None:
    parts = listed(benchmark_folder / name / f"{splits}.mat")
    test = parts["test_seen"] | parts["test_unseen"]
    in_train, in_validation = len(parts["train"] & test), len(parts["val"] & test)
    assert in_train > 0
    assert in_validation > 0

    data = load_gbu(benchmark_folder / name, FEATURES[name], splits)
    findings = examine(data)
    assert [found.check for found in findings if found.level == FAIL] == ["validation-leak"]
    what = finding(findings, "validation-leak").what
    assert f"train_loc holds {in_train} test images" in what
    assert f"val_loc holds {in_validation} test images" in what

    mended, _ = repair(data, findings)
    assert {int(row) + 1 for row in mended.listed_train} == parts["train"] - test
    assert {int(row) + 1 for row in mended.listed_validation} == parts["val"] - test
    assert finding(examine(mended), "validation-leak").level == PASS
    (fold,) = mended.validation_folds(1)
    rows = np.concatenate([fold.train.rows, fold.test_seen.rows, fold.test_unseen.rows]) + 1
    assert set(rows.tolist()) == parts["trainval"]


def test_leak_of_awa1_has_the_published_size(benchmark_folder: Path) -> None:
    what = finding(examine(load_gbu(benchmark_folder / "AWA1", "bow512")), "validation-leak").what
    assert "train_loc holds 3404 test images" in what  # facts/protocol.md, trap 1


@pytest.mark.parametrize("name", ["AWA2", "SUN", "APY"])
def test_missing_feature_file_is_named(benchmark_folder: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"the feature file res101\.mat is missing in .*{name}\. It has none of that kind"):
        load_gbu(benchmark_folder / name)


def test_available_feature_files_are_named(benchmark_folder: Path) -> None:
    with pytest.raises(DataError, match=r"res101\.mat is missing in .*CUB\. It has res50: choose with --features"):
        load_gbu(benchmark_folder / "CUB")


def test_labels_match_the_folders_of_the_images(cub: ZeroShotDataset, bird_features: dict[str, Any]) -> None:
    images = texts(bird_features["image_files"])
    assert len(images) == 11788
    assert cub.labels.tolist() == [image.split("/")[0] for image in images]
    assert cub.image_names.tolist() == images


def test_features_keep_their_rows(cub: ZeroShotDataset, bird_features: dict[str, Any]) -> None:
    np.testing.assert_array_equal(cub.features, bird_features["features"].T)


@pytest.mark.parametrize(("semantics", "file", "size"), [("att", "att_splits", 312), ("sent_splits:att", "sent_splits", 1024)])
def test_class_vectors_match_their_labels(benchmark_folder: Path, semantics: str, file: str, size: int) -> None:
    content = loadmat(benchmark_folder / "CUB" / f"{file}.mat")
    classes = load_gbu(benchmark_folder / "CUB", "res50", semantics=semantics).classes
    names = texts(content["allclasses_names"])
    assert sorted(classes.labels.tolist()) == sorted(names)
    assert content["att"].shape == (size, 200)
    np.testing.assert_array_equal(classes.vectors_of(names), content["att"].T)


def test_attribute_names_match_the_files(fixed: ZeroShotDataset, benchmark_folder: Path) -> None:
    file = {"CUB": "attributes.txt", "AWA1": "predicates.txt"}[fixed.name]
    lines = (benchmark_folder / fixed.name / file).read_text("utf-8").splitlines()
    assert fixed.classes.attribute_names == tuple(line.split(maxsplit=1)[1].strip() for line in lines)


def test_missing_attributes_are_counted(benchmark_folder: Path) -> None:
    content = loadmat(benchmark_folder / "AWA1" / "att_splits_trainval_fixed.mat")
    missing = content["original_att"] == -1
    names = np.array(texts(content["allclasses_names"]))[missing.any(axis=0)]
    assert missing.sum() > 0

    data = load_gbu(benchmark_folder / "AWA1", "bow512", "att_splits_trainval_fixed", "original_att")
    found = finding(examine(data), "missing-attributes")
    assert found.level == WARN
    assert found.what.startswith(f"{missing.sum()} attribute values are -1")
    assert names[0] in found.what


@pytest.mark.parametrize(("name", "semantics", "pairs"), [("CUB", "att", 2), ("CUB", "sent_splits:att", 0), ("AWA1", "att", 0)])
def test_class_vectors_of_benchmarks_get_few_warnings(benchmark_folder: Path, name: str, semantics: str, pairs: int) -> None:
    found = check_descriptions(load_gbu(benchmark_folder / name, FEATURES[name], FIXED[name], semantics))
    assert [finding.check for finding in found if finding.level == WARN] == ["similar-classes"] * bool(pairs)
    if pairs:
        assert finding(found, "similar-classes").what.startswith(
            f"pairs of seen classes with nearly the same vector: {pairs} ("
        )
        assert "Fish_Crow" in finding(found, "similar-classes").what


def test_class_vectors_of_benchmarks_are_not_rescaled(benchmark_folder: Path) -> None:
    """Attributes in percent with rare ones, and sentence vectors with unused dimensions; of all classes or of a few."""
    tables = [loadmat(path) for path in sorted(benchmark_folder.glob("*/*_splits*.mat"))]
    vectors = [table[kind].T for table in tables for kind in ("att", "original_att") if kind in table]
    assert len(vectors) >= 8
    rng = np.random.default_rng(0)
    for array in vectors:
        for size in (len(array), len(array) // 2, 12):
            some = array[rng.permutation(len(array))[:size]]
            assert AttributeScaling.of_attributes(some)(some) is some
