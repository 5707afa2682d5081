"""Ranked predictions with open-set rejection, and their file formats."""

import csv
import errno
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from sightunseen import prediction
from sightunseen.core import blocks
from sightunseen.core.blocks import named_blocks
from sightunseen.core.calibration import NONE, Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import DataError, SettingsError, StorageError
from sightunseen.methods import ZeroShotClassifier
from sightunseen.prediction import Batch, check_ending, ranked, write_predictions

LABELS = ["cat", 'dog, "big"', "zèbre", "okapi\nnew line", "tapir"]
SEEN = ["cat", "zèbre"]
N_IMAGES = 7
NAMES = np.array([f"folder, 1/imäge {k}.jpg" for k in range(N_IMAGES)])


class FeaturesAsScores(ZeroShotClassifier):
    """The score of the k-th class is the k-th feature."""

    def fit(self, X: Any, y: Any, classes: Any = None) -> "FeaturesAsScores":
        self._begin_fit(X, y, classes)
        return self

    def _scorer(self, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        return lambda X: X[:, self.table_.rows_of(labels)]

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _take_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        del arrays


@pytest.fixture
def model() -> FeaturesAsScores:
    return FeaturesAsScores().fit(np.eye(2, 5), SEEN, ClassTable(LABELS, np.eye(5)))


@pytest.fixture
def scores() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N_IMAGES, 5)).astype(np.float32)


def together(batches: Iterator[Batch]) -> Batch:
    listed = list(batches)
    return {name: np.concatenate([batch[name] for batch in listed]) for name in listed[0]}


@pytest.mark.parametrize("block", [4096, 3, 1])
@pytest.mark.parametrize("top", [1, 3, 5])
def test_classes_are_ranked_with_softmax_confidence(
    model: FeaturesAsScores, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch, block: int, top: int
) -> None:
    monkeypatch.setattr(blocks, "ROWS", block)
    found = together(ranked(model, named_blocks(scores, NAMES), top))
    expected = []
    for name, row in zip(NAMES, scores.astype(float), strict=True):
        share = np.exp(row) / np.exp(row).sum()
        best = sorted(range(5), key=lambda k: -row[k])[:top]
        expected += [(name, rank, LABELS[k], share[k], LABELS[k] in SEEN) for rank, k in enumerate(best, start=1)]
    paths, ranks, classes, confidences, seen = zip(*expected, strict=True)
    for column, wanted in (("path", paths), ("rank", ranks), ("class", classes), ("seen", seen)):
        assert found[column].tolist() == list(wanted)
    np.testing.assert_allclose(found["confidence"], confidences, rtol=1e-5)


@pytest.mark.parametrize("block", [4096, 3, 1])
def test_images_without_names_are_numbered(
    model: FeaturesAsScores, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(blocks, "ROWS", block)
    found = together(ranked(model, named_blocks(scores), top=2))
    assert found["path"].tolist() == ["0", "0", "1", "1", "2", "2", "3", "3", "4", "4", "5", "5", "6", "6"]


@pytest.mark.parametrize("top", [5, 6, 1000])
def test_large_top_gives_all_classes(model: FeaturesAsScores, scores: np.ndarray, top: int) -> None:
    found = together(ranked(model, named_blocks(scores, NAMES), top))
    assert found["rank"].tolist() == [1, 2, 3, 4, 5] * N_IMAGES
    for classes, confidence in zip(found["class"].reshape(-1, 5), found["confidence"].reshape(-1, 5), strict=True):
        assert set(classes) == set(LABELS)
        assert confidence.sum() == pytest.approx(1, abs=1e-5)
        assert (np.diff(confidence) <= 0).all()


@pytest.mark.parametrize(
    ("candidates", "labels"),
    [("unseen", {'dog, "big"', "okapi\nnew line", "tapir"}), ("seen", set(SEEN)), (["tapir", "cat"], {"tapir", "cat"})],
    ids=["unseen", "seen", "listed"],
)
def test_confidence_is_normalised_over_the_candidates(
    model: FeaturesAsScores, scores: np.ndarray, candidates: Any, labels: set[str]
) -> None:
    found = together(ranked(model, named_blocks(scores, NAMES), len(LABELS), candidates))
    assert set(found["class"]) == labels
    np.testing.assert_allclose(found["confidence"].reshape(N_IMAGES, len(labels)).sum(axis=1), 1, rtol=1e-5)
    assert (found["seen"] == np.isin(found["class"], SEEN)).all()


@pytest.mark.parametrize("top", [0, -3])
def test_top_below_one_raises_an_error(model: FeaturesAsScores, scores: np.ndarray, top: int) -> None:
    with pytest.raises(SettingsError, match=f"top must be at least 1; got {top}"):
        list(ranked(model, named_blocks(scores, NAMES), top))


def test_unknown_candidate_is_named(model: FeaturesAsScores, scores: np.ndarray) -> None:
    with pytest.raises(DataError, match="'otter' has no semantic vector"):
        list(ranked(model, named_blocks(scores, NAMES), 1, ["cat", "otter"]))


def read_csv(path: Path) -> list[tuple[Any, ...]]:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["path", "rank", "class", "confidence", "seen"]
    return [(p, int(r), c, np.float32(f), {"true": True, "false": False}[s]) for p, r, c, f, s in rows]


def read_json(path: Path) -> list[tuple[Any, ...]]:
    rows = json.loads(path.read_text("utf-8"))
    return [(row["path"], row["rank"], row["class"], np.float32(row["confidence"]), row["seen"]) for row in rows]


def read_json_lines(path: Path) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(row["path"], row["rank"], row["class"], np.float32(row["confidence"]), row["seen"]) for row in rows]


def read_parquet(path: Path) -> list[tuple[Any, ...]]:
    rows = parquet.read_table(path).to_pylist()
    return [(row["path"], row["rank"], row["class"], np.float32(row["confidence"]), row["seen"]) for row in rows]


ENDINGS = [(".csv", read_csv), (".json", read_json), (".jsonl", read_json_lines), (".parquet", read_parquet)]


@pytest.mark.parametrize(("ending", "read"), ENDINGS)
@pytest.mark.parametrize("labels", [LABELS, [30, 10, 20, 50, 40]], ids=["text labels", "numbers as labels"])
def test_all_file_formats_have_the_same_content(tmp_path: Path, monkeypatch, scores, ending, read, labels) -> None:
    monkeypatch.setattr(blocks, "ROWS", 3)
    model = FeaturesAsScores().fit(np.eye(2, 5), [labels[0], labels[2]], ClassTable(labels, np.eye(5)))
    answers = together(ranked(model, named_blocks(scores, NAMES), 2))
    rows = write_predictions(tmp_path / f"answers{ending}", ranked(model, named_blocks(scores, NAMES), 2))
    assert rows == 2 * N_IMAGES
    answers["class"] = answers["class"].astype(str)
    expected = list(zip(*(answers[name].tolist() for name in ("path", "rank", "class", "confidence", "seen")), strict=True))
    assert read(tmp_path / f"answers{ending}") == [(p, r, c, np.float32(f), s) for p, r, c, f, s in expected]


@pytest.mark.parametrize("block", [4096, 3])
@pytest.mark.parametrize("top", [1, 2])
def test_explanations_are_in_the_row_of_the_best_class(
    tmp_path: Path, model, scores, monkeypatch, block: int, top: int
) -> None:
    monkeypatch.setattr(blocks, "ROWS", block)

    def explain(X: np.ndarray, labels: np.ndarray, leads: np.ndarray) -> Batch:
        order = np.argsort(-X, axis=1, kind="stable")[:, :2]
        np.testing.assert_array_equal(order, [[LABELS.index(label) for label in pair] for pair in labels])
        best, second = np.take_along_axis(X, order, axis=1).T
        np.testing.assert_allclose(leads, best - second, atol=1e-6)
        texts = [f"{label}, {x.max():.3f}" for (label, _), x in zip(labels, X, strict=True)]
        return {"speaks_for": np.array(texts, dtype=object)}

    columns = (*prediction.COLUMNS, "speaks_for")
    for ending in (".csv", ".json", ".jsonl", ".parquet"):
        write_predictions(tmp_path / f"a{ending}", ranked(model, named_blocks(scores, NAMES), top, explain=explain), columns)
    found = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    expected = [[f"{LABELS[row.argmax()]}, {row.max():.3f}", ""][:top] for row in scores]
    assert [row["speaks_for"] for row in found] == [text for texts in expected for text in texts]
    listed = json.loads((tmp_path / "a.json").read_text("utf-8"))
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    for rows in (listed, lines, read):
        assert [row["speaks_for"] for row in rows] == [row["speaks_for"] for row in found]
        assert [row["class"] for row in rows] == [row["class"] for row in found]


def test_a_single_candidate_has_no_explanation(model, scores) -> None:
    def never(*_: object) -> Batch:
        pytest.fail("there is no second-best class")

    (batch,) = ranked(model, named_blocks(scores, NAMES), 3, LABELS[:1], explain=never)
    assert set(batch["class"]) <= {LABELS[0], NONE}
    assert [set(batch[name]) for name in prediction.REASONS] == [{""}] * 3


@pytest.mark.parametrize("name", ["answers.txt", "answers", "answers.csv.gz"])
def test_unknown_file_format_raises_an_error_before_prediction(tmp_path: Path, name: str) -> None:
    def never() -> Iterator[Batch]:
        pytest.fail("predicted before the ending of the file was checked")
        yield {}

    with pytest.raises(SettingsError, match=r"must end in \.csv, \.json, \.jsonl, \.parquet"):
        write_predictions(tmp_path / name, never())
    with pytest.raises(SettingsError):
        check_ending(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".csv", ".json", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [(DataError("bad features"), DataError), (OSError(errno.ENOSPC, "full"), StorageError)],
    ids=["data", "disk"],
)
def test_failed_prediction_keeps_the_earlier_file(tmp_path: Path, model, scores, ending, error, raised) -> None:
    def half() -> Iterator[Batch]:
        yield next(ranked(model, named_blocks(scores, NAMES)))
        raise error

    path = tmp_path / f"answers{ending}"
    path.write_text("earlier answers")
    with pytest.raises(raised):
        write_predictions(path, half())
    assert path.read_text() == "earlier answers"
    assert list(tmp_path.iterdir()) == [path]


# -- open-set rejection --------------------------------------------------------------------------------------------------


def calibrated(model: FeaturesAsScores, none_below: float | None) -> FeaturesAsScores:
    model.calibration_ = Calibration(none_below=none_below, temperature=0.5, ECE=1.0, ECE_before=2.0)
    return model


@pytest.mark.parametrize("block", [4096, 3])
@pytest.mark.parametrize("top", [1, 2, 5, 6, 100])
def test_rejected_images_are_none_of_these_followed_by_the_best_classes(
    model: FeaturesAsScores, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch, block: int, top: int
) -> None:
    monkeypatch.setattr(blocks, "ROWS", block)
    threshold = float(np.sort(scores.max(axis=1))[3])  # three images are below it, one is equal to it
    found = together(ranked(calibrated(model, threshold), named_blocks(scores, NAMES), top))
    expected = []
    for name, row in zip(NAMES, scores.astype(float), strict=True):
        share = np.exp(row / 0.5) / np.exp(row / 0.5).sum()
        best = sorted(range(5), key=lambda k: -row[k])
        answers = [(LABELS[k], share[k], LABELS[k] in SEEN) for k in best]
        if row.max() < threshold:
            answers.insert(0, (NONE, 1 - share.max(), False))
        expected += [(name, rank, *answer) for rank, answer in enumerate(answers[:top], start=1)]
    paths, ranks, classes, confidences, seen = zip(*expected, strict=True)
    assert [label for label, rank in zip(classes, ranks, strict=True) if rank == 1].count(NONE) == 3
    for column, wanted in (("path", paths), ("rank", ranks), ("class", classes), ("seen", seen)):
        assert found[column].tolist() == list(wanted)
    np.testing.assert_allclose(found["confidence"], confidences, rtol=1e-5)


@pytest.mark.parametrize(("none_below", "none"), [(None, True), (99.0, False)], ids=["no threshold", "not wanted"])
def test_no_image_is_rejected_without_threshold_or_with_none_false(model, scores, none_below, none) -> None:
    found = together(ranked(calibrated(model, none_below), named_blocks(scores, NAMES), none=none))
    assert found["class"].tolist() == model.predict(scores).tolist()


def test_images_can_be_rejected_with_a_single_candidate(model: FeaturesAsScores, scores: np.ndarray) -> None:
    found = together(ranked(calibrated(model, 0.0), named_blocks(scores, NAMES), 3, ["tapir"]))
    expected = [answer for row in scores for answer in ([NONE, "tapir"] if row[4] < 0 else ["tapir"])]
    assert found["class"].tolist() == expected
    assert set(found["confidence"][found["class"] == "tapir"]) == {1.0}


def test_numeric_labels_stay_numbers_beside_none() -> None:
    model = FeaturesAsScores().fit(np.eye(2, 3), [7, 8], ClassTable([7, 8, 9], np.eye(3)))
    found = together(ranked(calibrated(model, 0.5), named_blocks(np.diag([1.0, 0.1, 2.0])), top=2))
    assert found["class"].tolist() == [7, 8, NONE, 8, 9, 7]


def test_file_without_images_is_valid(tmp_path: Path) -> None:
    for ending, read in ENDINGS:
        assert write_predictions(tmp_path / f"none{ending}", iter([])) == 0
        assert read(tmp_path / f"none{ending}") == []
