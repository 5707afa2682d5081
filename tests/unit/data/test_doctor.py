"""The split doctor: valid data pass, and every fault gives its finding, with the right count and a remedy."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.data.doctor import (
    FAIL,
    NEVER_ALLOWED,
    PASS,
    WARN,
    Finding,
    check_files,
    examine,
    feature_checks,
    repair,
    stop_on_failures,
)
from sightunseen.data.gbu import load_gbu, read_gbu

CLASSES = ("ibex", "gnu", "elk", "yak", "ox", "pig", "ant", "bee", "cod", "eel", "owl", "hen")  # the last four are unseen
N_SEEN, IMAGES, HELD_OUT, N_FEATURES, N_ATTRIBUTES = 8, 40, 10, 16, 6


@dataclass(frozen=True)
class Fault:
    """A fault and its expected findings: check -> level and the leading numbers of the text."""

    name: str
    apply: Callable[[Any], Any]
    expected: dict[str, tuple[str, tuple[int, ...]]]
    remedy: str = ""

    def __str__(self) -> str:
        return self.name


def clean_data() -> ZeroShotDataset:
    """8 seen classes with 30 training and 10 test images each, 4 unseen classes with 40 images each; valid."""
    rng = np.random.default_rng(3)
    y = np.repeat(CLASSES, IMAGES)
    index = np.tile(np.arange(IMAGES), len(CLASSES))
    seen = np.isin(y, CLASSES[:N_SEEN])
    split = np.where(~seen, "test_unseen", np.where(index < HELD_OUT, "test_seen", "train"))
    train = np.flatnonzero(split == "train")
    validation = np.isin(y[train], CLASSES[:2])
    return ZeroShotDataset.from_arrays(
        rng.random((len(y), N_FEATURES)),
        y,
        ClassTable(CLASSES, rng.random((len(CLASSES), N_ATTRIBUTES))),
        split,
        listed_train=train[~validation],
        listed_validation=train[validation],
        listed_classes=CLASSES,
        validation=((np.sort(CLASSES[2:N_SEEN]), np.sort(CLASSES[:2])),),
    )


def rows_of(data: ZeroShotDataset, label: str) -> NDArray[np.intp]:
    return np.flatnonzero(data.labels == label)


def with_features(data: ZeroShotDataset, rows: Any, values: Any, columns: Any = slice(None)) -> ZeroShotDataset:
    changed = data.features.copy()
    changed[np.ix_(rows, np.arange(N_FEATURES)[columns])] = values
    return replace(data, features=changed)


def with_vectors(data: ZeroShotDataset, *changes: tuple[Any, Any, Any]) -> ZeroShotDataset:
    vectors = data.classes.vectors.copy()
    for row, column, value in changes:
        vectors[row, column] = value
    return replace(data, classes=ClassTable(CLASSES, vectors))


def train_on_test_seen(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, train_rows=np.append(data.train_rows, data.test_seen_rows[:3]))


def train_on_test_unseen(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, train_rows=np.append(data.train_rows, data.test_unseen_rows[:2]))


def validate_on_test_seen(data: ZeroShotDataset) -> ZeroShotDataset:
    """As in the older benchmark files: train_loc and val_loc together contain the training and the test-seen images."""
    test = data.test_seen_rows
    held = np.isin(data.labels[test], CLASSES[:2])
    return replace(
        data,
        listed_train=np.append(data.listed_train, test[~held]),
        listed_validation=np.append(data.listed_validation, test[held]),
    )


def validate_on_test_unseen(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, listed_validation=np.append(data.listed_validation, data.test_unseen_rows[:7]))


def train_on_half_an_unseen_class(data: ZeroShotDataset) -> ZeroShotDataset:
    moved = rows_of(data, "cod")[:20]
    return replace(
        data, train_rows=np.append(data.train_rows, moved), test_unseen_rows=np.setdiff1d(data.test_unseen_rows, moved)
    )


def classes_never_trained_on(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, train_rows=data.train_rows[~np.isin(data.labels[data.train_rows], ["elk", "yak"])])


def no_training_images(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, train_rows=data.train_rows[:0], test_seen_rows=data.test_seen_rows[:0])


def a_single_training_image(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, train_rows=np.setdiff1d(data.train_rows, rows_of(data, "elk")[HELD_OUT + 1 :]))


def copies(data: ZeroShotDataset, n: int) -> ZeroShotDataset:
    test = np.concatenate([data.test_seen_rows, data.test_unseen_rows])[-n:]
    return with_features(data, test, data.features[data.train_rows[:n]])


def classes_without_vectors(data: ZeroShotDataset) -> ZeroShotDataset:
    return replace(data, classes=data.classes.only(CLASSES[2:]), listed_classes=CLASSES[2:])


def classes_without_images(data: ZeroShotDataset) -> ZeroShotDataset:
    more = ClassTable(["dodo", "moa", "auk"], np.random.default_rng(4).random((3, N_ATTRIBUTES)))
    return replace(data, classes=data.classes.extended(more), listed_classes=(*CLASSES, "dodo", "moa", "auk"))


def with_a_hub(data: ZeroShotDataset) -> ZeroShotDataset:
    """Row 10 is the centre of all others, which lie in the directions of the axes around it."""
    around = 0.2 * np.vstack([np.eye(N_ATTRIBUTES), -np.eye(N_ATTRIBUTES)])
    around[10] = 0
    return with_vectors(data, (slice(None), slice(None), 1 + around))


SPLIT_FAULTS = [
    Fault("train on test_seen", train_on_test_seen, {"split-overlap": (FAIL, (3,))}),
    Fault(
        "train on test_unseen",
        train_on_test_unseen,
        {"split-overlap": (FAIL, (2,)), "seen-and-unseen": (FAIL, (1,))},
    ),
    Fault("validate on test_seen", validate_on_test_seen, {"validation-leak": (FAIL, (60, 20))}),
    Fault("validate on test_unseen", validate_on_test_unseen, {"validation-leak": (FAIL, (7,))}),
    Fault("a class on both sides", train_on_half_an_unseen_class, {"seen-and-unseen": (FAIL, (1,))}),
    Fault("classes never trained on", classes_never_trained_on, {"test-seen-classes": (FAIL, (2,))}),
    Fault("no training images", no_training_images, {"training-images": (FAIL, ())}),
    Fault("a single training image", a_single_training_image, {"training-images": (WARN, (211, 1, 30))}),
]
FEATURE_FAULTS = [
    *(
        Fault(str(value), lambda d, v=value: with_features(d, [5, 70, 471], v, [2]), {"finite-features": (FAIL, (3, 5))})
        for value in (np.nan, np.inf, -np.inf)
    ),
    Fault("images of NaN", lambda d: with_features(d, [11, 12], np.nan), {"finite-features": (FAIL, (2, 11))}),
    Fault("images of zeros", lambda d: with_features(d, [35, 36], 0), {"empty-images": (WARN, (2, 35))}),
    Fault(
        "constant features",
        lambda d: with_features(d, np.arange(len(d.labels)), [0.0, 1.0, -7.5], [1, 4, 9]),
        {"constant-features": (WARN, (3, N_FEATURES))},
    ),
    Fault("a copy", lambda d: copies(d, 1), {"identical-images": (WARN, (1, 479))}),
    Fault("many copies", lambda d: copies(d, 60), {"identical-images": (FAIL, (60, 420))}),
    Fault(
        "a near-copy",
        lambda d: with_features(d, [479], d.features[d.train_rows[0]] + 0.001),
        {"near-duplicates": (WARN, (1, 479, 10))},
    ),
]
CLASS_FAULTS = [
    Fault("classes without vectors", classes_without_vectors, {"class-vectors": (FAIL, (2,))}),
    Fault("NaN vectors", lambda d: with_vectors(d, (3, 1, np.nan), (4, 0, np.nan)), {"class-vectors": (FAIL, (2,))}),
    Fault("infinite vectors", lambda d: with_vectors(d, (3, 1, np.inf)), {"class-vectors": (FAIL, (1,))}),
    Fault(
        "missing attributes",
        lambda d: with_vectors(d, (3, 1, -1), (3, 2, -1), (9, 0, -1), (0, 0, 0)),
        {"missing-attributes": (WARN, (3, 1, 2))},
        remedy="Imputed",
    ),
    Fault(
        "attributes in different units",
        lambda d: with_vectors(d, (slice(None), 2, 1000 * d.classes.vectors[:, 2]), (4, 2, 5000)),
        {"attribute-units": (WARN, (3, 5000))},
        remedy="keeps your units",
    ),
    Fault("zero vectors", lambda d: with_vectors(d, ([1, 5], slice(None), 0)), {"distinct-vectors": (FAIL, (2,))}),
    Fault(
        "repeated vectors",
        lambda d: with_vectors(d, ([1, 5, 7], slice(None), d.classes.vectors[2])),
        {"distinct-vectors": (WARN, (12, 9))},
    ),
    Fault(
        "similar vectors",
        lambda d: with_vectors(d, (9, slice(None), d.classes.vectors[2] + 0.001 * d.classes.vectors[4])),
        {"similar-classes": (WARN, (1, 1))},
        remedy="elk and eel differ most in 'attribute ",
    ),
    Fault(
        "attributes that are the same for all seen classes",
        lambda d: with_vectors(d, (slice(0, N_SEEN), [1, 4], 0.5)),
        {"uninformative-attributes": (WARN, (6, 2, 2, 5))},
    ),
    Fault("a hub", with_a_hub, {"hub-classes": (WARN, (2, 1, 11, 11))}, remedy="specific to owl"),
    Fault("classes without images", classes_without_images, {"classes-without-images": (WARN, (3,))}),
    Fault(
        "class names in another order",
        lambda d: replace(d, listed_classes=(CLASSES[1], CLASSES[0], *CLASSES[2:])),
        {"class-order": (FAIL, (2, 12, 12))},
        remedy="class list that came with the feature file",
    ),
    Fault(
        "another class name",
        lambda d: replace(d, listed_classes=(*CLASSES[:-1], "dodo")),
        {"class-order": (FAIL, (1, 12, 12))},
        remedy="files of one data set",
    ),
    Fault(
        "a class list cut short",
        lambda d: replace(d, listed_classes=CLASSES[:-3]),
        {"class-order": (FAIL, (3, 9, 12))},
        remedy="files of one data set",
    ),
]
DATA_FAULTS = [*SPLIT_FAULTS, *FEATURE_FAULTS, *CLASS_FAULTS]


def labels_from_zero(birds: Any) -> None:
    birds.features["labels"] -= 1


def labels_of_another_data_set(birds: Any) -> None:
    birds.features["labels"][[2, 3, 5]] = 11


def a_label_of_zero(birds: Any) -> None:
    birds.features["labels"][7] = 0


def labels_of_fractions(birds: Any) -> None:
    birds.features["labels"][3] = 1.5


def indices_from_zero(birds: Any) -> None:
    for name, indices in birds.splits.items():
        if name.endswith("_loc"):
            birds.splits[name] = indices - 1


def indices_beyond_the_images(birds: Any) -> None:
    birds.splits["test_seen_loc"][:2] = [[49], [60]]


def list_beyond_the_images(birds: Any) -> None:
    birds.splits["val_loc"][:2] = [[49], [60]]


def more_features_than_labels(birds: Any) -> None:
    birds.features["features"] = np.hstack([birds.X.T, birds.X[:3].T + 1])


def fewer_features_than_labels(birds: Any) -> None:
    birds.features["features"] = birds.X[:-3].T


def images_in_no_split(birds: Any) -> None:
    birds.splits["trainval_loc"] = birds.splits["trainval_loc"][:-4]


# 48 images of 8 classes, 6 per class; all are in the splits.
FILE_FAULTS = [
    Fault("labels from zero", labels_from_zero, {"labels-in-range": (FAIL, (6, 1, 8, 0, 7))}, remedy="add one"),
    Fault(
        "labels of another data set",
        labels_of_another_data_set,
        {"labels-in-range": (FAIL, (3, 1, 8, 1, 11))},
        remedy="feature file of this data set",
    ),
    Fault(
        "a label of zero",
        a_label_of_zero,
        {"labels-in-range": (FAIL, (1, 1, 8, 0, 8))},
        remedy="feature file of this data set",
    ),
    Fault("labels of fractions", labels_of_fractions, {"labels-in-range": (FAIL, ())}),
    Fault("indices beyond a list", list_beyond_the_images, {"indices-in-range": (FAIL, (2, 1, 48))}),
    Fault(
        "indices beyond the images",
        indices_beyond_the_images,
        {"sizes": (FAIL, (48, 48, 48, 60)), "indices-in-range": (FAIL, (2, 1, 48))},
    ),
    Fault("more features than labels", more_features_than_labels, {"sizes": (FAIL, (51, 48, 48, 48))}),
    Fault("fewer features than labels", fewer_features_than_labels, {"sizes": (FAIL, (45, 48, 48, 48))}),
    Fault("images in no split", images_in_no_split, {"sizes": (WARN, (48, 5, 44))}),
]


def problems(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings if finding.level != PASS}


def assert_finds_exactly(findings: list[Finding], fault: Fault) -> None:
    found = problems(findings)
    assert {check: finding.level for check, finding in found.items()} == {c: level for c, (level, _) in fault.expected.items()}
    for check, (_, numbers) in fault.expected.items():
        counts = [int(number) for number in re.findall(r"\d+", found[check].what)]
        assert tuple(counts[: len(numbers)]) == numbers, found[check].what
        assert found[check].remedy
        assert fault.remedy in found[check].remedy


# Findings


def test_valid_data_pass_every_check() -> None:
    assert problems(examine(clean_data())) == {}


def test_valid_files_pass_every_check(birds: Any, tmp_path: Path) -> None:
    folder = birds.write(tmp_path / "BIRDS")
    assert problems(check_files(read_gbu(folder))) == {}
    assert problems(examine(load_gbu(folder))) == {}


def test_synthetic_data_pass_every_check(small_world: ZeroShotDataset) -> None:
    assert problems(examine(small_world)) == {}


@pytest.mark.parametrize("fault", DATA_FAULTS, ids=str)
def test_each_fault_of_the_data_gives_its_finding(fault: Fault) -> None:
    assert_finds_exactly(examine(fault.apply(clean_data())), fault)


@pytest.mark.parametrize("fault", FILE_FAULTS, ids=str)
def test_each_fault_of_the_files_gives_its_finding(fault: Fault, birds: Any, tmp_path: Path) -> None:
    fault.apply(birds)
    assert_finds_exactly(check_files(read_gbu(birds.write(tmp_path / "BIRDS"))), fault)


def test_indices_from_zero_are_reported_for_the_split_of_the_first_image(birds: Any, tmp_path: Path) -> None:
    wrong = [f"{part}_loc" for part, rows in birds.parts.items() if 0 in rows]
    indices_from_zero(birds)
    finding = problems(check_files(read_gbu(birds.write(tmp_path / "BIRDS"))))["indices-in-range"]
    assert finding.level == FAIL
    assert all(f"{part}: 1 indices outside 1 to 48" in finding.what for part in wrong)
    assert finding.what.count("outside") == len(wrong)
    assert "add one" in finding.remedy


def test_every_check_is_covered_by_a_fault(birds: Any, tmp_path: Path) -> None:
    checks = [*check_files(read_gbu(birds.write(tmp_path / "BIRDS"))), *examine(clean_data())]
    tested = {check for fault in (*DATA_FAULTS, *FILE_FAULTS) for check in fault.expected}
    assert tested == {finding.check for finding in checks}
    assert len(checks) == len(tested)


def test_images_in_no_split_are_counted(birds: Any, tmp_path: Path) -> None:
    images_in_no_split(birds)
    finding = problems(check_files(read_gbu(birds.write(tmp_path / "BIRDS"))))["sizes"]
    assert "4 images" in finding.why


def test_several_faults_give_several_findings() -> None:
    data = classes_without_images(copies(validate_on_test_unseen(clean_data()), 60))
    assert set(problems(examine(data))) == {"validation-leak", "identical-images", "classes-without-images"}


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("a class on both sides", {"cod"}),
        ("classes never trained on", {"elk", "yak"}),
        ("classes without vectors", {"ibex", "gnu"}),
        ("NaN vectors", {"yak", "ox"}),
        ("missing attributes", {"yak", "eel"}),
        ("zero vectors", {"gnu", "pig"}),
        ("repeated vectors", {"gnu", "elk", "pig"}),
        ("similar vectors", {"elk", "eel"}),
        ("a hub", {"owl"}),
        ("classes without images", {"dodo", "moa", "auk"}),
    ],
)
def test_classes_with_a_fault_are_named(name: str, named: set[str]) -> None:
    (fault,) = [fault for fault in DATA_FAULTS if fault.name == name]
    ((_, finding),) = problems(examine(fault.apply(clean_data()))).items()
    assert {*CLASSES, "dodo", "moa", "auk"} & set(re.findall(r"\w+", finding.what)) == named


def test_long_class_lists_are_abbreviated() -> None:
    finding = problems(examine(with_vectors(clean_data(), (slice(0, 10), 1, np.nan))))["class-vectors"]
    shown = set(CLASSES) & set(re.findall(r"\w+", finding.what))
    assert f"and {10 - len(shown)} more" in finding.what


def test_minus_one_is_not_missing_among_other_negative_values() -> None:
    data = with_vectors(clean_data(), (3, 1, -1), (3, 2, -0.5))
    assert problems(examine(data)) == {}


@pytest.mark.parametrize("missing", [["listed_train"], ["listed_validation"], ["listed_train", "listed_validation"]])
def test_absent_validation_lists_pass(missing: list[str]) -> None:
    assert problems(examine(replace(clean_data(), **dict.fromkeys(missing)))) == {}


@pytest.mark.parametrize(
    ("apply", "parts"), [(train_on_test_seen, "train and test_seen"), (train_on_test_unseen, "train and test_unseen")]
)
def test_overlapping_splits_are_named(apply: Callable[[ZeroShotDataset], ZeroShotDataset], parts: str) -> None:
    assert problems(examine(apply(clean_data())))["split-overlap"].what.startswith(f"images in both {parts}: ")


def test_classes_without_images_pass_without_unseen_test_images() -> None:
    data = clean_data()
    alone = replace(data, features=data.features[:320], labels=data.labels[:320], test_unseen_rows=np.empty(0, dtype=np.intp))
    assert problems(examine(alone)) == {}


@pytest.mark.parametrize("fault", FEATURE_FAULTS, ids=str)
def test_findings_do_not_depend_on_the_block_size(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_checks, "block_rows", lambda shape: 7)
    assert_finds_exactly(examine(fault.apply(clean_data())), fault)


def test_a_varying_feature_with_nan_is_not_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_checks, "block_rows", lambda shape: 7)
    data = with_features(clean_data(), np.arange(7, 480), 0.5, [2])  # varies in the first block only
    assert set(problems(examine(with_features(data, [0], np.nan, [2])))) == {"finite-features"}


def test_leak_and_class_order_are_found_in_benchmark_files(birds: Any, indices: Callable[..., Any], tmp_path: Path) -> None:
    seen_of_train = [row for row in birds.parts["test_seen"] if birds.labels[row] in birds.texts["trainclasses1"]]
    birds.splits["train_loc"] = indices(birds.parts["train"] + seen_of_train)
    birds.texts["allclasses"] = sorted(birds.texts["allclasses"])
    found = problems(examine(load_gbu(birds.write(tmp_path / "BIRDS"))))
    assert set(found) == {"validation-leak", "class-order"}
    assert f"train_loc holds {len(seen_of_train)} test images" in found["validation-leak"].what
    assert "val_loc" not in found["validation-leak"].what


# Repair


@pytest.mark.parametrize("leak", [validate_on_test_seen, validate_on_test_unseen])
def test_repair_only_removes_test_images_from_the_validation_lists(
    leak: Callable[[ZeroShotDataset], ZeroShotDataset],
) -> None:
    clean = clean_data()
    mended, findings = repair(leak(clean), examine(leak(clean)))
    assert mended.listed_train.tolist() == clean.listed_train.tolist()
    assert mended.listed_validation.tolist() == clean.listed_validation.tolist()
    for part in ("features", "labels", "train_rows", "test_seen_rows", "test_unseen_rows"):
        np.testing.assert_array_equal(getattr(mended, part), getattr(clean, part))
    assert problems(examine(mended)) == {}
    assert [finding.check for finding in findings if finding.repaired] == ["validation-leak"]


def test_a_repaired_finding_keeps_its_text_and_is_marked() -> None:
    data = validate_on_test_seen(clean_data())
    before = problems(examine(data))["validation-leak"]
    after = problems(repair(data, examine(data))[1])["validation-leak"]
    assert after.what == before.what
    assert "Repaired" in after.remedy
    assert after.as_dict()["repaired"] is True
    assert before.as_dict()["repaired"] is False


def test_validation_folds_have_no_test_image_after_repair() -> None:
    data = validate_on_test_seen(clean_data())
    data, _ = repair(data, examine(data))
    test = {*data.test_seen_rows.tolist(), *data.test_unseen_rows.tolist()}
    folds = data.validation_folds(3)
    assert set(folds[0].unseen) == set(CLASSES[:2])  # the listed pair comes first
    for fold in folds:
        rows = np.concatenate([fold.train.rows, fold.test_seen.rows, fold.test_unseen.rows]).tolist()
        assert len(set(rows)) == len(rows) == 240
        assert not test & set(rows)


@pytest.mark.parametrize("fault", [f for f in DATA_FAULTS if "validation-leak" not in f.expected], ids=str)
def test_other_findings_are_not_repaired(fault: Fault) -> None:
    data = fault.apply(clean_data())
    findings = examine(data)
    after, repaired = repair(data, findings)
    assert after is data
    assert repaired == findings


# Failures that stop a run


@pytest.mark.parametrize("fault", DATA_FAULTS, ids=str)
def test_failures_raise_and_warnings_do_not(fault: Fault) -> None:
    findings = examine(fault.apply(clean_data()))
    failures = [finding for finding in findings if finding.level == FAIL]
    if not failures:
        stop_on_failures(findings)
        return
    with pytest.raises(DataError) as raised:
        stop_on_failures(findings)
    for finding in failures:
        assert finding.what in str(raised.value)
        assert finding.remedy in str(raised.value)
    names = [finding.check for finding in failures]
    if set(names) & set(NEVER_ALLOWED):
        assert "--allow" not in str(raised.value)
        with pytest.raises(SettingsError, match=r"no check .* that could be allowed"):
            stop_on_failures(findings, allowed=names)
        return
    assert all(f"--allow {name}" in str(raised.value) for name in names)
    stop_on_failures(findings, allowed=names)


def test_repaired_findings_do_not_raise() -> None:
    data = validate_on_test_seen(clean_data())
    stop_on_failures(repair(data, examine(data))[1])


def test_allowing_one_failure_keeps_the_others() -> None:
    findings = examine(copies(train_on_half_an_unseen_class(clean_data()), 60))
    with pytest.raises(DataError) as raised:
        stop_on_failures(findings, allowed=["identical-images"])
    assert "seen-and-unseen" in str(raised.value)
    assert "identical-images" not in str(raised.value)
