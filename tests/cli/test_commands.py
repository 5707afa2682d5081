"""Every command on small data: printed results, written files and run records."""

import csv
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import load_model

Run = Callable[[str], tuple[int, str, str]]

COMMANDS = ("inspect", "train", "evaluate", "adapt", "predict", "methods", "benchmark", "demo")
NUMBERS = ("T1", "U", "S", "H", "AUSUC")
QUICK = "--method CVC --set hidden=32 --set n_steps=200"
BRIEF = "--set rounds=2 --set steps_per_round=20"


def succeed(run: Run, line: str) -> str:
    """Output of a command that must succeed."""
    code, out, err = run(line)
    assert code == 0, err
    return out


def record(folder: str) -> dict[str, Any]:
    return dict(json.loads(Path(folder, "record.json").read_text("utf-8")))


def weights(folder: str) -> bytes:
    return Path(folder, "weights.safetensors").read_bytes()


def sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def row_of_numbers(out: str, label: str) -> list[float]:
    """The numbers of the table row that begins with ``label``."""
    rows = [line.split() for line in out.splitlines() if line.split()[:1] == [label]]
    assert len(rows) == 1, out
    return [float(word) for word in rows[0][1:]]


# -- sightunseen ---------------------------------------------------------------------------------------------------------


def test_version(run: Run) -> None:
    assert succeed(run, "--version") == f"sightunseen {version('sightunseen')}\n"


def test_help_lists_all_commands(run: Run) -> None:
    out = succeed(run, "--help")
    assert set(COMMANDS) <= {line.split()[0] for line in out.splitlines() if line.startswith("    ")}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_page(run: Run, name: str) -> None:
    assert succeed(run, f"{name} --help").startswith(f"usage: sightunseen {name} ")


# -- inspect -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "files"), [("data", ("features.npz", "classes.csv")), ("benchmark", ("res101.mat", "att_splits.mat"))]
)
def test_inspect_describes_the_data_as_json(run: Run, desk: Path, folder: str, files: tuple[str, ...]) -> None:
    found = json.loads(succeed(run, f"inspect {folder} --json"))
    # 12 seen and 4 unseen classes with 20 images each; a fifth of the images of seen classes is held out.
    assert found["images"] == {"all": 320, "train": 192, "test_seen": 48, "test_unseen": 80}
    assert found["classes"] == {"seen": 12, "unseen": 4}
    assert found["features"] == 24
    assert set(found["semantics"].values()) == {10}
    assert {finding["level"] for finding in found["findings"]} == {"PASS"}
    assert set(found["fingerprints"].values()) == {sha256(f"{folder}/{file}") for file in files}


def test_inspect_prints_tables_only(run: Run, desk: Path) -> None:
    code, out, err = run("inspect data")
    assert (code, err) == (0, "")
    assert "192" in out
    assert "PASS" in out


@pytest.mark.parametrize("folder", ["data", "benchmark"])
def test_name_of_a_data_set_is_its_folder(run: Run, desk: Path, folder: str) -> None:
    assert json.loads(succeed(run, f"inspect {folder} --json"))["name"] == folder


def test_failed_check_of_inspect_gives_exit_code_1(run: Run, desk: Path) -> None:
    leak_a_test_class()
    code, out, err = run("inspect data --json")
    fails = [finding["check"] for finding in json.loads(out)["findings"] if finding["level"] == "FAIL"]
    assert (code, err, fails) == (1, "", ["seen-and-unseen"])
    code, out, _ = run("inspect data")
    assert code == 1
    assert "FAIL" in out


def leak_a_test_class() -> None:
    """Four images of an unseen class become training images."""
    content = dict(np.load("data/features.npz"))
    unseen = content["y"][content["split"] == "test_unseen"][0]
    content["split"][np.flatnonzero(content["y"] == unseen)[:4]] = "train"
    np.savez("data/features.npz", **content)


# -- train ---------------------------------------------------------------------------------------------------------------


def test_record_of_an_honest_run(run: Run, desk: Path) -> None:
    out = succeed(run, "train data --out new --seed 3 --set noise=0.2")
    found = record("new")
    assert (found["kind"], found["method"], found["protocol"], found["seed"]) == ("train", "Foresight", "honest", 3)
    chosen = found["selection"]["chosen"]
    searched = {"feature_scaling", "shrinkage", "generator", "mean_length"}  # not the hyperparameter that was given
    assert chosen.keys() == {*searched, "seen_penalty"}
    assert {**found["settings"], **chosen, "noise": 0.2} == found["settings"]
    assert set(found["data"]["fingerprints"].values()) == {sha256("data/features.npz"), sha256("data/classes.csv")}
    assert found["data"]["images"] == {"train": 192, "test_seen": 48, "test_unseen": 80}
    assert "validation" in found["selection"]["by"]
    assert found["selection"]["folds"][0]["training_classes"] + found["selection"]["folds"][0]["validation_classes"] == 12
    for package in ("sightunseen", "torch", "numpy", "scikit-learn"):
        assert found["versions"][package] == version(package)
    assert row_of_numbers(out, "inductive") == [pytest.approx(found["results"][name], abs=0.051) for name in NUMBERS]
    assert not Path("new.checkpoint").exists()


@pytest.mark.parametrize(
    "options", ["", "--protocol paper --set hidden=32 --set n_steps=200", "--select none", "--search noise=0.1,1 --folds 2"]
)
def test_results_in_the_record_equal_those_of_evaluate(run: Run, desk: Path, options: str) -> None:
    succeed(run, f"train data --out new {options}")
    found = json.loads(succeed(run, "evaluate new data --json"))
    assert {name: found[name] for name in NUMBERS} == {name: record("new")["results"][name] for name in NUMBERS}
    assert found["protocol"] == record("new")["protocol"]


def test_paper_protocol_selects_on_test_data(run: Run, desk: Path) -> None:
    out = succeed(run, "train data --out new --protocol paper --set hidden=16 --set n_steps=400")
    found = record("new")
    assert (found["protocol"], "TEST" in out, "TEST" in found["selection"]["by"]) == ("paper", True, True)
    curves = [entry["points"] for entry in found["selection"]["tried"]]
    assert [[point["steps"] for point in curve] for curve in curves] == [[*range(40, 401, 40)]] * 2  # two initial scales
    assert found["results"]["H"] == max(point["H"] for curve in curves for point in curve)


def test_without_selection_hyperparameters_are_used_as_given(run: Run, desk: Path) -> None:
    code, _, err = run("train data --out new --select none --set seen_penalty=0.5")
    assert code == 0
    assert "validation" not in err
    assert record("new")["settings"]["seen_penalty"] == 0.5
    assert "tried" not in record("new")["selection"]


def test_search_selects_the_best_on_validation_classes(run: Run, desk: Path) -> None:
    succeed(run, "train data --out new --search noise=0.01,10 --search shrinkage=0.1,0.9")
    tried = tried_settings("new")
    assert set(tried) == {(0.01, 0.1), (0.01, 0.9), (10, 0.1), (10, 0.9)}
    settings = record("new")["settings"]
    assert max(tried, key=tried.__getitem__) == (settings["noise"], settings["shrinkage"])


def tried_settings(folder: str) -> dict[tuple[Any, ...], float]:
    """Best H on validation classes by tried values."""
    entries = record(folder)["selection"]["tried"]
    return {tuple(e["settings"].values()): max(point["H_at_best_penalty"] for point in e["points"]) for e in entries}


def test_selected_hyperparameters_are_one_line_and_the_search_a_table_with_verbose(run: Run, desk: Path) -> None:
    out = succeed(run, "train data --out short --search noise=0.01,10 --folds 2")
    (size,) = {fold["validation_classes"] for fold in record("short")["selection"]["folds"]}
    assert re.search(r"^Chosen: noise \S+, seen penalty \S+ \(more with --verbose\)\.$", out, re.MULTILINE)
    assert "Tried" not in out
    assert "alibrated" not in out
    assert "T1: per-class top-1 accuracy among unseen classes; U: " in out
    long = succeed(run, "train data --out long --search noise=0.01,10 --folds 2 --verbose")
    expected = rf"^Chosen on 2 class folds of {size} validation classes: noise \S+, seen penalty \S+\.$"
    assert re.search(expected, long, re.MULTILINE)
    table = long.partition("Tried on validation classes:")[2].partition("Chosen on ")[0]
    rows = [line.split() for line in table.splitlines() if line.split()[:1] == ["noise"]]
    assert {row[1] for row in rows} == {"0.01", "10"}
    assert [float(row[-2]) for row in rows] == sorted((float(row[-2]) for row in rows), reverse=True)
    assert "Tried on validation classes:" in succeed(run, "adapt short data --out adapted --verbose")


def test_verdict_comes_first_after_train_and_adapt_and_is_in_the_record(run: Run, desk: Path) -> None:
    trained = succeed(run, "train data --out new --folds 1")
    found = record("new")
    assert found["verdict"]
    assert trained.splitlines()[: len(found["verdict"])] == found["verdict"]
    assert re.match(r"\d+ of \d+ images of unseen classes right \(\d+%, 95% interval [\d.]+-[\d.]+; guessing: 25%\)", trained)
    right = trained.split()[0]
    adapted = succeed(run, "adapt new data --out adapted --folds 2")
    assert adapted.splitlines()[: len(record("adapted")["verdict"])] == record("adapted")["verdict"]
    assert f"was {right} before adapting)." in adapted.splitlines()[0]
    shown = next(line.split() for line in trained.splitlines() if line.split()[:2] == ["95%", "interval"])
    assert shown[2:] == [*("{:.1f}-{:.1f}".format(*found["intervals"][name]) for name in NUMBERS[:4]), "-"]


def test_number_of_folds(run: Run, desk: Path) -> None:
    code, _, err = run("train data --out new --folds 3 --method CVC --set hidden=8 --set n_steps=100")
    assert code == 0
    assert len(record("new")["selection"]["folds"]) == 3
    assert all(f"fold {k} of 3" in err for k in (1, 2, 3))


def test_preset_hyperparameters_can_be_changed_by_set(run: Run, desk: Path) -> None:
    succeed(run, "train benchmark --out new --preset paper-sun --set n_steps=100 --select none")
    settings = record("new")["settings"]
    # Section 4.2 of the paper: 1600 hidden units, learning rate 1e-5; weight decay 1e-5 for SUN.
    assert (settings["hidden"], settings["learning_rate"], settings["weight_decay"]) == (1600, 1e-5, 1e-5)
    assert settings["n_steps"] == 100
    assert record("new")["data"]["semantics"] == "original_att"


def test_preset_search_replaces_the_search_space_of_the_method(run: Run, desk: Path) -> None:
    small = "--method CVC --preset full --set hidden=8 --set n_steps=100 --device cpu"
    succeed(run, f"train data --out new {small}")
    tried = [entry["settings"] for entry in record("new")["selection"]["tried"]]
    assert tried == [{"weight_decay": 1e-4}, {"weight_decay": 1e-3}]
    assert record("new")["settings"]["learning_rate"] == 1e-5
    succeed(run, f"train data --out fixed {small} --set weight_decay=0")
    assert [entry["settings"] for entry in record("fixed")["selection"]["tried"]] == [{}]
    succeed(run, f"train data --out asked {small} --search initial_scale=10,20")
    tried = [entry["settings"] for entry in record("asked")["selection"]["tried"]]
    assert tried == [{"initial_scale": 10}, {"initial_scale": 20}]


def test_adaptation_of_a_preset(run: Run, desk: Path) -> None:
    succeed(run, "train data --out new --method CVC --set hidden=8 --set n_steps=50 --select none")
    succeed(run, "adapt new data --out adapted --preset full --set rounds=2 --set steps_per_round=20 --select none")
    assert record("adapted")["settings"]["adaptation"]["peakiness"] == "probability"
    assert len(record("adapted")["history"]) == 2
    code, _, err = run("adapt model data --out other --preset full")
    assert (code, "Foresight has no preset 'full'; choose one of: quick." in err) == (2, True), err


def test_seed_determines_the_weights(run: Run, desk: Path) -> None:
    for name, seed in (("once", 5), ("again", 5), ("other", 6)):
        succeed(run, f"train data --out {name} --seed {seed} {QUICK}")
    assert weights("once") == weights("again")
    assert weights("once") != weights("other")


def test_seed_in_set_is_an_error(run: Run, desk: Path) -> None:
    code, _, err = run(f"train data --out new --set seed=4 {QUICK}")
    assert (code, "no hyperparameter 'seed'" in err) == (2, True)


def test_lower_case_false_is_false(run: Run, desk: Path) -> None:
    code, _, _ = run(f"train data --out new --set episodic=false {QUICK}")
    assert code == 2 or record("new")["settings"]["episodic"] is False


@pytest.mark.parametrize(
    ("data", "out"),
    [
        ("data", "new"),
        ("data", "'my model'"),
        ("data/features.npz --classes data/classes.csv", "new"),
        ("benchmark --features other", "new"),
        ("benchmark --semantics original_att", "new"),
    ],
)
def test_suggested_next_command_works(run: Run, desk: Path, data: str, out: str) -> None:
    if "other" in data:
        Path("benchmark/res101.mat").rename("benchmark/other.mat")
    printed = re.search(r"sightunseen (adapt|evaluate) .*", succeed(run, f"train {data} --out {out}"))
    assert printed is not None
    succeed(run, printed[0].removeprefix("sightunseen "))


# -- evaluate ------------------------------------------------------------------------------------------------------------


def test_evaluate_prints_the_same_numbers_as_json_and_table(run: Run, desk: Path) -> None:
    found = json.loads(succeed(run, "evaluate model data --json"))
    table = succeed(run, "evaluate model data")
    assert {*NUMBERS, "ECE", "protocol", "intervals", "verdict"} == set(found)
    assert all(low <= found[name] <= high for name, (low, high) in found["intervals"].items() if name in found)
    assert table.splitlines()[: len(found["verdict"])] == found["verdict"]
    printed = re.search(r"^ECE ([\d.]+)", table, re.MULTILINE)
    assert printed is not None
    assert float(printed[1]) == pytest.approx(found["ECE"], abs=0.051)
    assert "Calibrated on validation classes: temperature" in succeed(run, "evaluate model data --verbose")
    rows = [line.split() for line in table.splitlines() if re.fullmatch(r"(\s+[\d.]+){5}\s*", line)]
    assert [float(word) for word in rows[0]] == [pytest.approx(found[name], abs=0.051) for name in NUMBERS]


def test_mean_of_class_accuracies_equals_the_summary(run: Run, desk: Path) -> None:
    found = json.loads(succeed(run, "evaluate model data --json --per-class"))
    mean = {part: 100 * np.mean(list(values.values())) for part, values in found["per_class"].items()}
    assert {part: len(values) for part, values in found["per_class"].items()} == {"zsl": 4, "unseen": 4, "seen": 12}
    assert [found[name] for name in ("T1", "U", "S")] == [pytest.approx(mean[k], abs=0.01) for k in ("zsl", "unseen", "seen")]
    assert found["H"] == pytest.approx(2 * found["U"] * found["S"] / (found["U"] + found["S"]), abs=0.02)
    table = succeed(run, "evaluate model data --per-class")
    assert all(label in table for label in found["per_class"]["seen"])


def test_evaluate_on_other_files_prints_a_note(run: Run, desk: Path) -> None:
    content = dict(np.load("data/features.npz"))
    np.savez("data/features.npz", **{**content, "X": content["X"] * 2})
    code, _, err = run("evaluate model data")
    assert (code, "note:" in err, "features.npz" in err) == (0, True, True)


# -- adapt ---------------------------------------------------------------------------------------------------------------


def test_record_of_an_adaptation_has_its_parent(run: Run, desk: Path) -> None:
    out = succeed(run, "adapt model data --out new --set rounds=2")
    found, parent = record("new"), record("model")
    assert (found["kind"], found["protocol"]) == ("adapt", "honest")
    assert (found["parent"]["results"], found["parent"]["selection"]) == (parent["results"], parent["selection"])
    chosen = found["selection"]["chosen"]["temperature"]
    assert found["settings"]["adaptation"] == {
        "rounds": 2,
        "temperature": chosen,
        "trust": 1.0,
        "prior": None,
        "images_of": "unseen",
    }
    assert [entry["round"] for entry in found["history"]] == [1, 2]
    again = json.loads(succeed(run, "evaluate new data --json"))
    assert {name: again[name] for name in NUMBERS} == {name: found["results"][name] for name in NUMBERS}
    for label, results in (("inductive", parent["results"]), ("transductive", found["results"])):
        assert row_of_numbers(out, label) == [pytest.approx(results[name], abs=0.051) for name in NUMBERS]


def test_unlabelled_images_replace_the_test_images(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    np.save("same.npy", small_world.test_unseen.X)
    np.save("half.npy", small_world.test_unseen.X[::2])
    for name, option in (("default", ""), ("same", "--unlabelled same.npy"), ("half", "--unlabelled half.npy")):
        succeed(run, f"adapt cvc data --out {name} {BRIEF} {option}")
    assert weights("same") == weights("default")
    assert weights("half") != weights("default")
    assert record("half")["history"][-1]["pool"] <= 40
    assert "pool_accuracy" not in record("half")["history"][-1]  # the images have no labels


def test_loss_of_adaptation_can_be_set(run: Run, desk: Path) -> None:
    succeed(run, f"adapt cvc data --out gxe {BRIEF}")
    succeed(run, f"adapt cvc data --out xe {BRIEF} --set loss=xe")
    assert record("xe")["settings"]["adaptation"]["loss"] == "xe"
    assert weights("xe") != weights("gxe")


def test_adaptation_is_selected_on_validation_classes(run: Run, desk: Path) -> None:
    out = succeed(run, "adapt model data --out new --search temperature=0.5,9")
    tried = tried_settings("new")
    assert set(tried) == {(0.5,), (9,)}
    chosen = record("new")["settings"]["adaptation"]["temperature"]
    assert (chosen,) == max(tried, key=tried.__getitem__)
    assert f"temperature {chosen}" in out


def test_paper_protocol_is_kept_by_adaptation(run: Run, desk: Path) -> None:
    out = succeed(run, f"adapt cvc data --out of-honest --protocol paper {BRIEF}")
    assert "protocol paper" in out
    tried = record("of-honest")["selection"]["tried"]
    assert record("of-honest")["results"]["H"] == max(point["H"] for entry in tried for point in entry["points"])
    succeed(run, f"train data --out paper --protocol paper {QUICK}")
    succeed(run, f"adapt paper data --out of-paper {BRIEF}")
    assert (record("of-honest")["protocol"], record("of-paper")["protocol"]) == ("paper", "paper")


# -- predict -------------------------------------------------------------------------------------------------------------


def predictions(path: str) -> list[dict[str, Any]]:
    """Rows of a file of predictions as Python values."""
    if path.endswith(".json"):
        return list(json.loads(Path(path).read_text("utf-8")))
    if path.endswith(".parquet"):
        return list(parquet.read_table(path).to_pylist())
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {
                **row,
                "rank": int(row["rank"]),
                "confidence": float(row["confidence"]),
                "seen": {"true": True, "false": False}[row["seen"]],
            }
            for row in csv.DictReader(file)
        ]


def test_predictions_are_equal_in_all_formats(run: Run, desk: Path) -> None:
    for ending in ("csv", "json", "parquet"):
        succeed(run, f"predict model data/features.npz --top 2 --out found.{ending}")
    rows = predictions("found.csv")
    assert len(rows) == 640
    assert list(rows[0]) == ["path", "rank", "class", "confidence", "seen"]
    for other in (predictions("found.json"), predictions("found.parquet")):
        assert [{**row, "confidence": 0} for row in rows] == [{**row, "confidence": 0} for row in other]
        np.testing.assert_allclose([row["confidence"] for row in rows], [row["confidence"] for row in other], rtol=1e-6)


def test_predictions_are_ranked_by_confidence(run: Run, desk: Path) -> None:
    succeed(run, "predict model data/features.npz --top 99 --never-none --out found.json")
    rows = predictions("found.json")
    assert [row["rank"] for row in rows] == list(range(1, 17)) * 320  # at most all classes
    confidence = np.reshape([row["confidence"] for row in rows], (320, 16))
    assert (np.diff(confidence, axis=1) <= 0).all()
    np.testing.assert_allclose(confidence.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("which", "among", "number"), [("unseen", "test_unseen", "T1"), ("all", "test_unseen", "U"), ("all", "test_seen", "S")]
)
def test_accuracy_of_predictions_equals_evaluate(
    run: Run, desk: Path, small_world: ZeroShotDataset, which: str, among: str, number: str
) -> None:
    split = getattr(small_world, among)
    np.save("images.npy", split.X)
    succeed(run, f"predict model images.npy --candidates {which} --never-none --out found.json")
    right = np.array([row["class"] for row in predictions("found.json")]) == split.y
    by_class = [right[split.y == label].mean() for label in np.unique(split.y)]
    found = json.loads(succeed(run, "evaluate model data --json"))
    assert found[number] == pytest.approx(100 * np.mean(by_class), abs=0.006)


def test_predictions_are_candidates(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    wanted = [small_world.unseen[0], small_world.seen[-1]]
    Path("few.txt").write_text("\n".join(wanted) + "\n\n", "utf-8")
    kinds = {"seen": set(small_world.seen), "unseen": set(small_world.unseen), "few.txt": set(wanted)}
    for which, allowed in kinds.items():
        succeed(run, f"predict model data/features.npz --top 16 --candidates {which} --never-none --out found.json")
        rows = predictions("found.json")
        assert {row["class"] for row in rows} == allowed
        assert {row["class"] for row in rows if row["seen"]} == allowed & set(small_world.seen)


def test_repeated_candidate_counts_once_or_is_an_error(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    Path("twice.txt").write_text(f"{small_world.seen[0]}\n{small_world.seen[1]}\n{small_world.seen[0]}\n", "utf-8")
    code, _, err = run("predict model data/features.npz --top 3 --candidates twice.txt --never-none --out found.json")
    if code == 0:
        assert [row["rank"] for row in predictions("found.json")] == [1, 2] * 320
    else:
        assert (code, small_world.seen[0] in err) == (2, True), err


def test_rejected_image_is_none_of_these_unless_never_none(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    calibration = json.loads(Path("model/model.json").read_text("utf-8"))["content"]["calibration"]
    assert calibration == record("model")["selection"]["calibration"]
    model = load_model("model")
    median = float(np.median(model.decision_function(small_world.features).max(axis=1)))
    model.calibration_ = replace(model.calibration_, none_below=median)
    model.save("careful")
    for option, best in (("", "found"), ("--never-none", "named")):
        succeed(run, f"predict careful data/features.npz --top 2 {option} --out {best}.json")
    found, named = predictions("found.json"), predictions("named.json")
    assert [row["path"] for row in found] == [row["path"] for row in named]
    assert "none of these" not in {row["class"] for row in named}
    assert sum(row["class"] == "none of these" for row in found) == 160
    for row, guess, alone in zip(found[::2], found[1::2], named[::2], strict=True):
        if row["class"] == "none of these":
            assert (row["rank"], row["seen"], guess["class"]) == (1, False, alone["class"])
            assert row["confidence"] == pytest.approx(1 - alone["confidence"], abs=1e-6)
        else:
            assert row == alone


def test_without_selection_the_model_is_not_calibrated(run: Run, desk: Path) -> None:
    out = succeed(run, "train data --out new --select none --verbose")
    assert "alibrated" not in out
    succeed(run, "predict new data/features.npz --out found.json")
    assert "none of these" not in {row["class"] for row in predictions("found.json")}
    assert "Calibrated on validation classes" in succeed(run, "train data --out other --verbose")


def test_predictions_have_the_names_of_the_images(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    names = np.array(["[bold]été[/bold].jpg", "b.jpg", 'c, "d".jpg'])
    np.savez("three.npz", X=small_world.features[:3], path=names)
    succeed(run, "predict model three.npz --out found.csv")
    assert [row["path"] for row in predictions("found.csv")] == names.tolist()
    table = succeed(run, "predict model three.npz")
    assert all(name in table for name in names)


def test_first_predictions_are_printed_without_out(run: Run, desk: Path) -> None:
    out = succeed(run, "predict model data/features.npz --never-none")
    assert sum("thing " in line for line in out.splitlines()) == 50
    assert "320" in out
    assert not list(desk.glob("*.csv"))


# -- demo ----------------------------------------------------------------------------------------------------------------


DEMO = "demo --classes 24 --photos 6"


def test_demo_runs_the_whole_pipeline_on_photos(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = succeed(run, DEMO)
    folders = {"photos", "new-photos", "photos-of-new-class", "model", "model-transductive", "model-with-new-class"}
    assert {path.name for path in Path("demo-results").iterdir()} == {*folders, "new-class.csv", "report.html"}
    assert "ynthetic" in out
    for label, folder in (("inductive", "model"), ("transductive", "model-transductive")):
        results = json.loads(succeed(run, f"evaluate demo-results/{folder} demo-results/photos --json"))
        summary = out[out.index("Synthetic data, percent") :]
        assert row_of_numbers(summary, label) == [pytest.approx(results[name], abs=0.051) for name in NUMBERS]
    assert re.search(r"chance +25\.0 +4\.2 +4\.2 +4\.2", out)  # one of 4 unseen, one of 24 classes
    added = Path("demo-results/new-class.csv").read_text("utf-8").splitlines()[1].partition(",")[0]
    assert f"added {added}" in out
    for command in re.findall(r"^\$ sightunseen (\w+)", out, re.MULTILINE):
        assert command in ("train", "adapt", "predict", "classes", "report")
    assert "sightunseen train photos --classes classes.csv --out model" in out
    code, _, err = run(DEMO)
    assert (code, "--overwrite" in err) == (2, True)


def test_demo_without_extra_packages_uses_features(
    run: Run, desk: Path, small_world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightunseen.data.synthetic_features.make_world", lambda _: small_world)
    monkeypatch.setattr("sightunseen.cli.demo.find_spec", lambda _: None)
    out = succeed(run, "demo")
    assert sorted(path.name for path in Path("demo-results").iterdir()) == ["model", "model-transductive", "predictions.csv"]
    assert "ynthetic" in out
    assert "pip install 'sightunseen[photos]'" in out
    for label, folder in (("inductive", "model"), ("transductive", "model-transductive")):
        results = json.loads(succeed(run, f"evaluate demo-results/{folder} data --json"))
        assert row_of_numbers(out, label) == [pytest.approx(results[name], abs=0.051) for name in NUMBERS]
    assert len(predictions("demo-results/predictions.csv")) == 3 * 80
    code, _, err = run("demo")
    assert (code, "--overwrite" in err) == (2, True)


# -- several seeds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["", QUICK])
def test_several_seeds_print_mean_and_standard_deviation_and_save_the_first(run: Run, desk: Path, options: str) -> None:
    out = succeed(run, f"train data --out several --seed 1 --seeds 3 {options}")
    record = json.loads(Path("several/record.json").read_text())
    rows = {line.split()[0] + line.split()[1]: line.split() for line in out.splitlines() if line.strip().startswith("seed ")}
    assert list(rows) == ["seed1,", "seed1", "seed2", "seed3"]  # hyperparameters of the first, then the results of all
    assert [line.split()[-1] for line in out.splitlines() if line.strip().startswith(("mean", "± std"))] == [
        f"{record['seeds'][name]['AUSUC']:.1f}" for name in ("mean", "std")
    ]
    succeed(run, f"train data --out alone --seed 1 {options}")
    assert Path("several/weights.safetensors").read_bytes() == Path("alone/weights.safetensors").read_bytes()
    assert not Path("several.checkpoint").exists()


@pytest.mark.parametrize("number", ["0", "-2", "many"])
def test_number_of_seeds_must_be_positive(run: Run, desk: Path, number: str) -> None:
    code, _, err = run(f"train data --out new --seeds {number}")
    assert code == 2
    assert "--seeds" in err
