"""Invalid input gives one error message and exit code 2, and leaves no partial output."""

import csv
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import scipy.io

from sightunseen.core.errors import SightUnseenError

Run = Callable[[str], tuple[int, str, str]]

QUICK = "--method CVC --set hidden=8 --set n_steps=100"
BRIEF = "--set rounds=2 --set steps_per_round=20"


def listing(folder: Path) -> dict[str, bytes]:
    """All files and folders with the content of the files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def error_of(run: Run, desk: Path, line: str) -> str:
    """Error message of a command that must not change any file."""
    before = listing(desk)
    code, out, err = run(line)
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert err.count("error: ") == 1, err
    left = listing(desk)
    assert sorted(left) == sorted(before)
    assert left == before
    return err


def assert_names(message: str, patterns: tuple[str, ...]) -> None:
    missing = [pattern for pattern in patterns if not re.search(pattern, message)]
    assert not missing, f"{missing} not in: {message}"


# -- data ----------------------------------------------------------------------------------------------------------------


def tables(**changed: Any) -> None:
    """Rewrite data/features.npz with changed arrays; None removes one."""
    content = {**np.load("data/features.npz"), **changed}
    np.savez("data/features.npz", **{name: array for name, array in content.items() if array is not None})


def array(name: str) -> Any:
    return np.load("data/features.npz")[name]


def with_entry(name: str, index: Any, value: Any, dtype: Any = None) -> Any:
    changed = array(name).astype(dtype or array(name).dtype)
    changed[index] = value
    return changed


def classes(change: Callable[[list[list[str]]], list[list[str]]]) -> None:
    """Rewrite data/classes.csv with changed rows."""
    with open("data/classes.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    with open("data/classes.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(change(rows))


def matlab(file: str, **changed: Any) -> None:
    """Rewrite a .mat file of the xlsa17 folder with changed arrays; None removes one."""
    path = Path("benchmark", f"{file}.mat")
    content = {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    scipy.io.savemat(path, {name: value for name, value in {**content, **changed}.items() if value is not None})


def xlsa17_labels() -> Any:
    return scipy.io.loadmat("benchmark/res101.mat")["labels"]


def cut_short(path: str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])


def unlink(path: str) -> None:
    Path(path).unlink()


INVALID_DATA: dict[str, tuple[Callable[[], Any], str, tuple[str, ...]]] = {
    # error: function that causes it, data arguments, patterns of the message
    "no such folder": (lambda: None, "nowhere", ("nowhere",)),
    "no feature file": (lambda: unlink("benchmark/res101.mat"), "benchmark", ("res101.mat",)),
    "no such feature file": (lambda: None, "benchmark --features vgg", ("vgg", "res101")),
    "no such split file": (lambda: None, "benchmark --splits mine", ("mine", "att_splits")),
    "no such semantics": (lambda: None, "benchmark --semantics word2vec", ("word2vec", "original_att")),
    "no such semantics file": (lambda: None, "benchmark --semantics sent_splits:att", ("sent_splits", "--semantics")),
    "no such semantics in tables": (lambda: None, "data --semantics word2vec", ("word2vec",)),
    "no such features in tables": (lambda: None, "data --features vgg", ("vgg",)),
    "no table of features": (lambda: unlink("data/features.npz"), "data", ("data", "features.npz")),
    "no table of classes": (lambda: unlink("data/classes.csv"), "data", ("classes",)),
    "no labels in the .mat": (lambda: matlab("res101", labels=None), "benchmark", ("res101.mat", "labels")),
    "no class vectors in the .mat": (lambda: matlab("att_splits", att=None), "benchmark", ("att_splits.mat", "'att'")),
    "no split in the .mat": (lambda: matlab("att_splits", trainval_loc=None), "benchmark", ("att_splits.mat", "trainval_loc")),
    "cut feature file": (lambda: cut_short("benchmark/res101.mat"), "benchmark", ("res101.mat", "cannot be read")),
    "cut split file": (lambda: cut_short("benchmark/att_splits.mat"), "benchmark", ("att_splits.mat", "cannot be read")),
    "cut .npz": (lambda: cut_short("data/features.npz"), "data", ("features.npz", "cannot be read")),
    "text for features in the .mat": (
        lambda: matlab("res101", features=np.array([["a", "b"]])),
        "benchmark",
        ("res101.mat", "features"),
    ),
    "labels from zero": (lambda: matlab("res101", labels=xlsa17_labels() - 1), "benchmark", ("res101.mat", "1 to 16")),
    "labels between classes": (lambda: matlab("res101", labels=xlsa17_labels() + 0.5), "benchmark", ("whole numbers",)),
    "labels that are missing": (lambda: matlab("res101", labels=xlsa17_labels() * np.nan), "benchmark", ("labels",)),
    "fewer labels than images": (lambda: tables(y=array("y")[:-1]), "data", ("319", "320")),
    "no features": (lambda: tables(X=None), "data", ("features.npz", "y, split")),
    "no labels": (lambda: tables(y=None), "data", ("features.npz", "label")),
    "text for features": (lambda: tables(X=array("X").astype(str)), "data", ("features.npz", "number")),
    "a cube of features": (lambda: tables(X=array("X")[:, :, None]), "data", (r"\(320, 24, 1\)",)),
    "NaN in the features": (lambda: tables(X=with_entry("X", (7, 3), np.nan)), "data", ("NaN", "row 7")),
    "a label without a vector": (lambda: tables(y=with_entry("y", 0, "dragon")), "data", ("dragon", "vector")),
    "a strange word in split": (lambda: tables(split=with_entry("split", 0, "validate")), "data", ("validate", "test_unseen")),
    "no training images": (lambda: tables(split=np.full(320, "test_seen")), "data", ("training images",)),
    "text among the attributes": (
        lambda: classes(lambda rows: [[*row, "habitat" if row is rows[0] else "sea"] for row in rows]),
        "data",
        ("classes.csv", "habitat"),
    ),
    "a class twice": (lambda: classes(lambda rows: [*rows, rows[-1]]), "data", ("thing 015",)),
    "a class without numbers": (lambda: classes(lambda rows: [*rows[:-1], ["thing 015", *[""] * 10]]), "data", ("thing 015",)),
    "a class of zeros": (lambda: classes(lambda rows: [*rows[:-1], ["thing 015", *["0"] * 10]]), "data", ("thing 015",)),
    "an empty class table": (lambda: classes(lambda rows: []), "data", ("classes.csv",)),
    "a class table of a heading": (lambda: classes(lambda rows: rows[:1]), "data", ("classes.csv", "no class|no row|empty")),
    "a class table without heading": (lambda: classes(lambda rows: rows[1:]), "data", ("classes.csv", "'class'")),
}


@pytest.mark.parametrize("what", INVALID_DATA)
def test_training_on_invalid_data_is_an_error(run: Run, desk: Path, what: str) -> None:
    spoil, data, words = INVALID_DATA[what]
    spoil()
    message = error_of(run, desk, f"train {data} --out new")
    assert_names(message, words)


UNREADABLE = [what for what in INVALID_DATA if what.startswith(("no ", "cut", "text", "a cube", "an empty", "a class table"))]


@pytest.mark.parametrize("what", [what for what in UNREADABLE if what != "no training images"])
def test_inspecting_unreadable_data_is_an_error(run: Run, desk: Path, what: str) -> None:
    spoil, data, words = INVALID_DATA[what]
    spoil()
    message = error_of(run, desk, f"inspect {data}")
    assert_names(message, words)


def link(path: str, target: str) -> None:
    Path(path).unlink(missing_ok=True)
    os.mkfifo(path) if target == "pipe" else Path(path).symlink_to(target)


@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "/proc/self/maps"])
@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("data/features.npz", "inspect data"),
        ("data/classes.csv", "inspect data"),
        ("benchmark/res101.mat", "inspect benchmark"),
        ("other.json", "inspect data --classes other.json"),
        ("images.npz", "predict model images.npz"),
        ("photos.csv", "predict model photos.csv"),
        ("few.txt", "predict model data/features.npz --candidates few.txt"),
    ],
)
def test_files_that_are_not_regular_are_an_error(run: Run, desk: Path, path: str, line: str, target: str) -> None:
    link(path, target)
    code, out, err = run(line)
    assert (code, out, err.count("error: ")) == (2, "", 1), err


@pytest.mark.parametrize("labels", [np.inf, -np.inf, 1e300])
def test_inspecting_labels_that_are_not_class_numbers_reports_them(run: Run, desk: Path, labels: float) -> None:
    matlab("res101", labels=np.full(xlsa17_labels().shape, labels))
    code, out, err = run("inspect benchmark")
    assert (code, "labels-in-range" in out) == (1, True), err


def test_selection_needs_more_than_one_image_per_class(run: Run, desk: Path) -> None:
    first = np.unique(array("y"), return_index=True)[1]
    tables(X=array("X")[first], y=array("y")[first], split=np.full(len(first), "train"))
    assert "--select none" in error_of(run, desk, "train data --out new")


# -- the split doctor ----------------------------------------------------------------------------------------------------


def leak() -> None:
    """Four images of an unseen class become training images."""
    unseen = array("y")[array("split") == "test_unseen"][0]
    tables(split=with_entry("split", np.flatnonzero(array("y") == unseen)[:4], "train"))


def test_leak_is_an_error_unless_allowed(run: Run, desk: Path) -> None:
    leak()
    assert "--allow seen-and-unseen" in error_of(run, desk, "train data --out new")
    assert error_of(run, desk, "train data --out new --allow split-overlap")
    code, _, err = run("train data --out new --allow seen-and-unseen")
    assert code == 0, err
    (finding,) = json.loads(Path("new/record.json").read_text("utf-8"))["findings"]
    assert (finding["check"], finding["level"], finding["repaired"]) == ("seen-and-unseen", "FAIL", False)


def test_model_with_allowed_check_can_be_evaluated(run: Run, desk: Path) -> None:
    leak()
    assert run("train data --out new --allow seen-and-unseen")[0] == 0
    code, _, err = run("evaluate new data")
    assert code == 0, err


def test_validation_leak_is_repaired_with_a_note(run: Run, desk: Path) -> None:
    splits = scipy.io.loadmat("benchmark/att_splits.mat")
    train, held = splits["trainval_loc"][:150], splits["trainval_loc"][150:]
    matlab("att_splits", train_loc=train, val_loc=np.concatenate([held, splits["test_seen_loc"][:5]]))
    code, _, err = run("train benchmark --out new")
    assert (code, "validation-leak" in err, "epaired" in err) == (0, True, True)
    (finding,) = json.loads(Path("new/record.json").read_text("utf-8"))["findings"]
    assert (finding["check"], finding["repaired"]) == ("validation-leak", True)


def test_warnings_about_class_vectors_are_printed_in_one_line_and_recorded(run: Run, desk: Path) -> None:
    """The last class becomes nearly the first, and a further attribute is the same for all classes."""

    def alike(rows: list[list[str]]) -> list[list[str]]:
        last = [rows[-1][0], *rows[1][1:-1], str(float(rows[1][-1]) + 0.01)]
        return [[*rows[0], "same"], *([*row, "0.2"] for row in [*rows[1:-1], last])]

    classes(alike)
    code, _, err = run("train data --out new")
    assert code == 0, err
    expected = ["similar-classes", "uninformative-attributes"]
    lines = [line for line in err.splitlines() if line.startswith("split doctor: WARN")]
    assert [line.split()[3] for line in lines] == [f"{check}:" for check in expected]
    findings = json.loads(Path("new/record.json").read_text("utf-8"))["findings"]
    assert [finding["check"] for finding in findings] == expected
    code, out, _ = run("inspect data --json")
    found = {finding["check"]: finding["level"] for finding in json.loads(out)["findings"]}
    assert code == 0
    assert {check for check, level in found.items() if level == "WARN"} == set(expected)
    assert found["hub-classes"] == "PASS"


def test_unknown_check_cannot_be_allowed(run: Run, desk: Path) -> None:
    assert "seen-and-unsene" in error_of(run, desk, "train data --out new --allow seen-and-unsene")


OFFERS = ["NaN in the features", "a class without numbers", "a class of zeros", "no training images"]


@pytest.mark.parametrize("what", OFFERS)
def test_offered_allow_option_works(run: Run, desk: Path, what: str) -> None:
    INVALID_DATA[what][0]()
    message = error_of(run, desk, "train data --out new")
    offered = " ".join(re.findall(r"--allow \S+", message))
    code, _, err = run(f"train data --out new {offered}")
    assert code == (0 if offered else 2), err


def test_fatal_finding_is_printed_once(run: Run, desk: Path) -> None:
    leak()
    err = run("train data --out new")[2]
    assert err.count("with training images that are tested as unseen") == 1


@pytest.mark.parametrize(
    "what", ["NaN in the features", "a label without a vector", "a class twice", "a class without numbers"]
)
def test_messages_use_the_singular_for_one(run: Run, desk: Path, what: str) -> None:
    INVALID_DATA[what][0]()
    err = run("train data --out new")[2]
    assert not re.search(r"\b1 (images|classes|labels|vectors) |'thing 015' appear ", err), err


# -- hyperparameters -----------------------------------------------------------------------------------------------------

UNKNOWN_OR_MALFORMED = [
    ("--set bogus=1", ("bogus", "hidden")),
    ("--search bogus=1,2", ("bogus", "hidden")),
    ("--set hidden", ("'hidden'", "NAME=VALUE")),
    ("--set =3", ("'=3'", "NAME=VALUE")),
    ("--set hidden=", ("'hidden='", "NAME=VALUE")),
    ("--search hidden", ("'hidden'", "NAME=")),
    ("--search hidden=", ("'hidden='", "NAME=")),
    ("--search hidden=8,,16", ("hidden",)),
    ("--preset nope", ("nope", "CVC has no preset", "quick, full, paper-awa1", "paper-cub")),
    ("--method Foresight --set bogus=1", ("Foresight has no hyperparameter 'bogus'", "shrinkage")),
]
WRONG_VALUES = [
    *("hidden=abc", "hidden=0", "hidden=1.5", "hidden=None", "hidden=True", "hidden=[1,2]"),
    *("n_steps=0", "n_steps=ten", "n_steps=99.5", "learning_rate=-1", "learning_rate=fast", "learning_rate=None"),
    *("learning_rate=1e999", "classes_per_episode=0", "images_per_class=x", "weight_decay=-1", "clip_norm=x", "clip_norm=-1"),
    *("initial_scale=x", "initial_scale=-1", "seen_penalty=x", "episodic=maybe", "output=x", "similarity=x", "schedule=x"),
    *("semantic_norm=x", "semantic_norm=0", "initialisation=x"),
]


@pytest.mark.parametrize(("options", "words"), UNKNOWN_OR_MALFORMED)
def test_unknown_or_malformed_hyperparameter_is_an_error(run: Run, desk: Path, options: str, words: tuple[str, ...]) -> None:
    message = error_of(run, desk, f"train data --out new {QUICK} {options}")
    assert_names(message, words)


@pytest.mark.parametrize("option", ["--set n_steps=100", "--search hidden=8,16"])
def test_hyperparameter_of_cvc_is_an_error_with_the_default_method(run: Run, desk: Path, option: str) -> None:
    message = error_of(run, desk, f"train data --out new {option}")
    assert_names(message, ("Foresight has no hyperparameter", "shrinkage", "--method CVC"))
    assert "--method CVC" not in error_of(run, desk, "train data --out new --set seed=1")  # --seed is an option


@pytest.mark.parametrize("pair", ["shrinkage=-0.1", "shrinkage=1.5", "noise=0", "noise=x", "feature_scaling=x"])
def test_invalid_value_of_the_default_method_is_an_error(run: Run, desk: Path, pair: str) -> None:
    assert pair.partition("=")[0] in error_of(run, desk, f"train data --out new --set {pair}")


@pytest.mark.parametrize("pair", WRONG_VALUES)
def test_invalid_value_is_an_error(run: Run, desk: Path, pair: str) -> None:
    name = pair.partition("=")[0]
    assert name in error_of(run, desk, f"train data --out new {QUICK} --set '{pair}'")


def test_invalid_search_value_is_an_error_before_the_search(run: Run, desk: Path) -> None:
    assert "hidden" in error_of(run, desk, f"train data --out new {QUICK} --search hidden=8,abc")


@pytest.mark.parametrize("option", ["--folds 0", "--folds -1"])
def test_number_of_folds_must_be_positive(run: Run, desk: Path, option: str) -> None:
    assert option.split()[0].strip("-") in error_of(run, desk, f"train data --out new {QUICK} {option}")


def test_unknown_arguments_are_answered_with_the_usage_of_the_command(run: Run, desk: Path) -> None:
    code, _, err = run("predict model a.jpg b.jpg")
    assert code == 2
    assert err.startswith("usage: sightunseen predict")
    assert "unrecognized arguments: b.jpg. See: sightunseen predict --help" in err


@pytest.mark.parametrize("option", ["--folds x", "--seed x", "--protocol best", "--device tpu", "--bogus"])
def test_argparse_errors_name_the_value(run: Run, desk: Path, option: str) -> None:
    assert option.split()[-1] in error_of(run, desk, f"train data --out new {option}")


BEYOND_LIMITS = {
    "--folds 999999": "1 to 1,000",
    f"--folds {'9' * 5000}": "1 to 1,000",
    "--seeds 10001": "at most 10,000",
    "--seeds 1000000000": "1 to 1,000,000",
    "--seed 99999999999999999999": "seed",
    f"--set noise={'9' * 400}": "noise",
    f"--set noise=0x{'f' * 900}": "noise",
    f"--set noise={'[' * 300}": "noise",
    f"--set noise={'-' * 900}1": "noise",
    f"--set noise={'a' * 100_000}": "100,000 characters",
    "--set noise={[]:1}": "noise",
    "--set noise=1+2j": "noise",
    f"--set {'a' * 100_000}=1": "no hyperparameter",
    f"--search noise={','.join(['1'] * 400)} --search shrinkage={','.join(['0.5'] * 400)}": "160,000 combinations",
}


@pytest.mark.parametrize("options", BEYOND_LIMITS, ids=[option[:20] for option in BEYOND_LIMITS])
def test_counts_and_values_have_limits(run: Run, desk: Path, options: str) -> None:
    message = error_of(run, desk, f"train data --out new {options}")
    assert BEYOND_LIMITS[options] in message
    assert len(message.partition("error: ")[2]) <= 510


def test_number_of_steps_has_a_limit(run: Run, desk: Path) -> None:
    assert "n_steps" in error_of(run, desk, "train data --out new --method CVC --set n_steps=1000000000000")


@pytest.mark.parametrize("share", ["nan", "inf", "1e308", "-1"])
def test_share_of_held_out_images_must_be_between_zero_and_one(run: Run, desk: Path, share: str) -> None:
    assert "between 0 and 1" in error_of(run, desk, f"adapt model data --out new --hold-out {share}")


def test_search_without_selection_is_an_error(run: Run, desk: Path) -> None:
    assert "search" in error_of(run, desk, f"train data --out new {QUICK} --search hidden=4,8 --select none")


@pytest.mark.parametrize(
    "pair",
    [
        *("loss=foo", "q=0", "q=2", "q=abc", "rounds=0", "rounds=1.5", "rounds=x", "steps_per_round=0", "threshold=0.5"),
        *("threshold=x", "best_per_class=-1", "best_per_class=x", "peakiness=x", "seed=x", "learning_rate=x", "hidden=3"),
    ],
)
def test_invalid_adaptation_value_of_cvc_is_an_error(run: Run, desk: Path, pair: str) -> None:
    name = pair.partition("=")[0]
    assert name in error_of(run, desk, f"adapt cvc data --out new {BRIEF} --set {pair}")


@pytest.mark.parametrize("pair", ["rounds=0", "rounds=x", "temperature=-1", "temperature=x", "prior=x", "q=0.5"])
def test_invalid_adaptation_value_of_the_default_method_is_an_error(run: Run, desk: Path, pair: str) -> None:
    assert pair.partition("=")[0] in error_of(run, desk, f"adapt model data --out new --set {pair}")


def test_adaptation_without_confident_images_is_an_error(run: Run, desk: Path) -> None:
    message = error_of(run, desk, f"adapt cvc data --out new {BRIEF} --select none --set best_per_class=0 --set threshold=1e30")
    assert "threshold" in message


# -- models --------------------------------------------------------------------------------------------------------------


def changed_byte(file: str, index: int) -> None:
    content = bytearray(Path("model", file).read_bytes())
    content[index] ^= 1
    Path("model", file).write_bytes(content)


def without_a_comma() -> None:
    text = Path("model/model.json").read_text("utf-8")
    Path("model/model.json").write_text(text.replace(",", "", 1), "utf-8")


DAMAGE: dict[str, tuple[Callable[[], Any], str]] = {
    "a byte of the weights": (lambda: changed_byte("weights.safetensors", -1), "weights.safetensors"),
    "a hyperparameter in model.json": (
        lambda: Path("model/model.json").write_text(
            Path("model/model.json").read_text("utf-8").replace('"noise": 0.', '"noise": 1.')
        ),
        "model.json",
    ),
    "model.json is no JSON": (without_a_comma, "model.json"),
    "model.json is binary": (lambda: Path("model/model.json").write_bytes(b"\xff\xfe\x00"), "model.json"),
    "no weights": (lambda: unlink("model/weights.safetensors"), "weights.safetensors"),
    "cut weights": (lambda: cut_short("model/weights.safetensors"), "weights.safetensors"),
    "record.json is cut": (lambda: cut_short("model/record.json"), "record.json"),
    "record.json is binary": (lambda: Path("model/record.json").write_bytes(b"\xff\xfe\x00"), "record.json"),
    "record.json lacks the fingerprints": (
        lambda: Path("model/record.json").write_text(
            Path("model/record.json").read_text("utf-8").replace('"fingerprints"', '"prints"')
        ),
        "record.json",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_model_is_an_error(run: Run, desk: Path, what: str) -> None:
    damage, word = DAMAGE[what]
    damage()
    assert word in error_of(run, desk, "evaluate model data")


@pytest.mark.parametrize("command", ["evaluate data model", "adapt data model --out new", "predict data data/features.npz"])
def test_data_folder_as_model_is_an_error(run: Run, desk: Path, command: str) -> None:
    message = error_of(run, desk, command)
    assert "not a model" in message


@pytest.mark.parametrize("command", ["evaluate model model", "train model --out new", "inspect model"])
def test_model_folder_as_data_is_an_error(run: Run, desk: Path, command: str) -> None:
    assert "model folder" in error_of(run, desk, command)


def test_missing_model_is_an_error(run: Run, desk: Path) -> None:
    assert "nowhere" in error_of(run, desk, "evaluate nowhere data")


@pytest.mark.parametrize("command", ["evaluate model data", "adapt model data --out new"])
def test_other_number_of_features_is_an_error(run: Run, desk: Path, command: str) -> None:
    tables(X=np.concatenate([array("X"), array("X")], axis=1))
    message = error_of(run, desk, command)
    assert "48" in message
    assert "24" in message


@pytest.mark.parametrize("command", ["evaluate model data", "adapt model data --out new"])
def test_other_size_of_class_vectors_is_an_error(run: Run, desk: Path, command: str) -> None:
    classes(lambda rows: [[*row, "extra" if row is rows[0] else "1"] for row in rows])
    message = error_of(run, desk, command)
    assert "11" in message
    assert "10" in message


def test_other_semantics_than_in_training_is_an_error(run: Run, desk: Path) -> None:
    assert run("train benchmark --out new --semantics original_att --select none")[0] == 0
    assert run("evaluate new benchmark")[0] == 0
    message = error_of(run, desk, "evaluate new benchmark --semantics att")
    assert "'att'" in message
    assert "'original_att'" in message


@pytest.mark.parametrize("change", [str.upper, " {} ".format])
def test_names_that_differ_in_case_or_spaces_are_named(run: Run, desk: Path, change: Callable[[str], str]) -> None:
    classes(lambda rows: [[change(row[0]) if row is rows[-1] else row[0], *row[1:]] for row in rows])
    message = error_of(run, desk, "evaluate model data")
    assert f"'{change('thing 015')}' for 'thing 015'" in message


def test_unknown_class_in_the_data_is_an_error(run: Run, desk: Path) -> None:
    tables(y=np.where(array("y") == array("y")[-1], "dragon", array("y")))
    classes(
        lambda rows: [["dragon" if row[0] == array("y")[-1] else row[0], *row[1:]] for row in [*rows, ["dragon", *rows[1][1:]]]]
    )
    assert "dragon" in error_of(run, desk, "evaluate model data")


# -- predict -------------------------------------------------------------------------------------------------------------


def write_lines(*lines: str) -> None:
    Path("few.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def save(X: Any) -> None:
    np.save("images.npy", X)


PREDICT: dict[str, tuple[Callable[[], Any], str, tuple[str, ...]]] = {
    "no answers wanted": (lambda: None, "data/features.npz --top 0", ("top", "0")),
    "fewer than none": (lambda: None, "data/features.npz --top -3", ("top", "-3")),
    "no such candidates": (lambda: None, "data/features.npz --candidates nope.txt", ("nope.txt", "unseen")),
    "empty candidates": (lambda: write_lines("", " "), "data/features.npz --candidates few.txt", ("few.txt", "empty")),
    "unknown candidate": (lambda: write_lines("dragon"), "data/features.npz --candidates few.txt", ("few.txt", "dragon")),
    "binary candidates": (lambda: None, "data/features.npz --candidates data/features.npz", ("data/features.npz",)),
    "unknown ending": (lambda: None, "data/features.npz --out found.xlsx", (".xlsx", ".csv", ".json", ".parquet")),
    "a folder for features": (lambda: Path("empty").mkdir(), "empty", ("empty", ".npz", ".npy")),
    "a model for features": (lambda: None, "model/model.json", ("model.json", ".npz", ".npy")),
    "no such features": (lambda: None, "nowhere.npz", ("nowhere.npz",)),
    "labels for features": (lambda: np.savez("images.npz", y=["a"]), "images.npz", ("images.npz", "features")),
    "wrong number of features": (lambda: save(np.ones((3, 23))), "images.npy", ("images.npy", "23", "24")),
    "one image as a row": (lambda: save(np.ones(24)), "images.npy", ("images.npy", r"\(24,\)")),
    "a single number": (lambda: save(np.float32(1)), "images.npy", ("images.npy", r"\(\)")),
    "a large count": (lambda: None, "data/features.npz --top 1000000000", ("top", "1000000000")),
    "large numbers": (lambda: save(np.full((3, 24), 1e300)), "images.npy", ("images.npy", "row 1, column 1")),
    "complex numbers": (lambda: save(np.ones((3, 24)) * 1j), "images.npy", ("images.npy", "complex128")),
    "no images": (lambda: save(np.ones((0, 24))), "images.npy", ("images.npy", "no image|empty|0 ")),
    "NaN": (lambda: save(np.full((3, 24), np.nan)), "images.npy", ("images.npy", "NaN")),
    "words": (lambda: save(np.full((3, 24), "one")), "images.npy", ("images.npy", "number")),
    "fewer names than images": (
        lambda: np.savez("images.npz", X=np.ones((3, 24)), path=np.array(["a", "b"])),
        "images.npz",
        ("images.npz", "2", "3"),
    ),
    "cut": (lambda: cut_short("data/features.npz"), "data/features.npz", ("features.npz", "cannot be read")),
    "a photo": (lambda: Path("cat.jpg").write_bytes(b""), "cat.jpg", ("unknown backbone", "sightunseen embed")),
}


@pytest.mark.parametrize("what", PREDICT)
def test_invalid_input_of_predict_is_an_error(run: Run, desk: Path, what: str) -> None:
    prepare, arguments, words = PREDICT[what]
    prepare()
    message = error_of(run, desk, f"predict model {arguments}")
    assert_names(message, words)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_failed_prediction_leaves_no_file(run: Run, desk: Path, ending: str) -> None:
    images = np.ones((5000, 24))
    images[4999, 0] = np.nan  # beyond the first block
    save(images)
    error_of(run, desk, f"predict model images.npy --out found.{ending}")


@pytest.mark.parametrize("X", [np.ones((3, 23)), np.full((3, 24), np.nan), np.ones((0, 24))], ids=["narrow", "NaN", "empty"])
def test_invalid_unlabelled_images_are_an_error(run: Run, desk: Path, X: Any) -> None:
    save(X)
    assert "images.npy" in error_of(run, desk, f"adapt cvc data --out new {BRIEF} --unlabelled images.npy")


# -- output --------------------------------------------------------------------------------------------------------------


def full_disk(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "command",
    [
        "train data --out new",
        f"adapt cvc data --out new {BRIEF}",
        "adapt model data --out new",
        "predict model data/features.npz --out new.csv",
    ],
)
def test_full_disk_leaves_no_files(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("os.fsync", full_disk)
    message = error_of(run, desk, command)
    assert "new" in message
    assert os.strerror(errno.ENOSPC) in message


def test_full_disk_keeps_the_existing_model(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", full_disk)
    error_of(run, desk, "train data --out model --overwrite")


@pytest.mark.parametrize("command", ["train data --out model", "adapt model data --out model"])
def test_existing_model_is_not_replaced_without_overwrite(run: Run, desk: Path, command: str) -> None:
    message = error_of(run, desk, command)
    assert "model exists" in message
    assert "--overwrite" in message


def test_overwrite_replaces_the_model(run: Run, desk: Path) -> None:
    before = Path("model/weights.safetensors").read_bytes()
    assert run("train data --out model --overwrite --seed 1 --set noise=0.7")[0] == 0
    assert Path("model/weights.safetensors").read_bytes() != before
    assert not list(desk.glob(".*"))


@pytest.mark.parametrize("command", ["train data", "adapt model data", "demo"])
@pytest.mark.parametrize("out", ["data", "data/classes.csv"])
def test_other_folders_are_never_replaced(run: Run, desk: Path, command: str, out: str) -> None:
    message = error_of(run, desk, f"{command} --out {out} --overwrite")
    assert out in message
    assert "steps" not in message


@pytest.mark.parametrize("out", ["data/classes.csv/new", ".", "/", "''"])
def test_unwritable_output_is_an_error_before_training(run: Run, desk: Path, out: str) -> None:
    assert "steps" not in error_of(run, desk, f"train data --out {out}")


@pytest.mark.parametrize("command", ["train data", "adapt model data"])
def test_resume_without_checkpoint_is_an_error(run: Run, desk: Path, command: str) -> None:
    message = error_of(run, desk, f"{command} --out new --resume")
    assert "new" in message
    assert "without --resume" in message


# -- debug ---------------------------------------------------------------------------------------------------------------


def test_debug_raises_the_error(run: Run, desk: Path) -> None:
    with pytest.raises(SightUnseenError, match="nowhere"):
        run("--debug inspect nowhere")


@pytest.mark.parametrize("line", ["--debug inspect nowhere", "inspect nowhere --debug"])
def test_debug_shows_the_traceback(desk: Path, line: str) -> None:
    ended = subprocess.run([sys.executable, "-m", "sightunseen", *line.split()], capture_output=True, text=True, check=False)
    assert "Traceback (most recent call last)" in ended.stderr
    assert "nowhere" in ended.stderr


def test_internal_error_has_exit_code_70(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("a fault")

    monkeypatch.setattr("sightunseen.data.doctor.examine", broken)
    code, out, err = run("inspect data")
    assert (code, out, "Traceback" in err) == (70, "", False)
    assert "a fault" in err
    assert "--debug" in err
