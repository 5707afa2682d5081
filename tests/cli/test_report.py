"""``sightunseen report``: pages on a model, on unlabelled images and on a benchmark; invalid input."""

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
from PIL import Image

from sightunseen.benchmark.outcome import DONE, FAILED, Outcome
from sightunseen.benchmark.store import Store

Run = Callable[[str], tuple[int, str, str]]

NUMBERS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")


def succeed(run: Run, line: str) -> str:
    code, out, err = run(line)
    assert code == 0, err
    return out


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def rejected(run: Run, line: str) -> str:
    """Message of a command that fails with exit code 2 and changes no file."""
    before = listing(Path())
    code, out, err = run(line)
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    assert err.count("error: ") == 1, err
    assert listing(Path()) == before
    return err


def sections(page: str | Path) -> list[str]:
    return re.findall(r'<section id="([^"]+)"', Path(page).read_text("utf-8"))


def figures(page: str | Path) -> dict[str, Any]:
    (found,) = re.findall(r'id="figures">(.*?)</script>', Path(page).read_text("utf-8"))
    return dict(json.loads(found))


def results(folder: str, state: str = DONE) -> None:
    """Write synthetic results of a benchmark."""
    for seed, t1 in enumerate([50.0, 52.0]):
        shown = {"data": "CUB", "published_name": "CUB", "backbone": "", "method": "ESZSL", "label": "ESZSL"}
        shown |= {"setting": "inductive", "selection": "validation", "seed": seed}
        identity = {"method": {"name": "ESZSL", "settings": {"seed": seed}}, "seed": seed}
        record = {"results": dict.fromkeys(NUMBERS, 10.0) | {"T1": t1}} if state == DONE else {}
        Store(Path(folder)).add(Outcome(state, identity, shown, "" if state == DONE else "no memory", record, 1.0))


# -- a model ---------------------------------------------------------------------------------------------------------------


def test_the_default_method_has_a_page_without_training_curves(run: Run, desk: Path) -> None:
    code, _, err = run("report model data --out page.html")
    assert (code, err) == (0, "")  # nothing is trained
    found = figures("page.html")
    assert not {"training-curve", "validation-curve"} & set(found)
    assert found["images-in-space"]["columns"]["panel"]["levels"] == ["Foresight", "Foresight transductive"]
    assert found["self-training"]["columns"]["round"] == list(range(1, 11))
    text = Path("page.html").read_text("utf-8")
    assert 'id="tried"' in text
    assert "100.0% of the test images" in text  # fitted again, it is the same model
    succeed(run, "adapt model data --set rounds=3 --out model-t")
    succeed(run, "report model-t data --out adapted.html")
    found = figures("adapted.html")
    assert found["images-in-space"]["columns"]["panel"]["levels"] == ["Foresight", "Foresight transductive"]
    changed = [note["changed_labels"] for note in json.loads(Path("model-t/record.json").read_text("utf-8"))["history"]]
    assert found["self-training"]["columns"]["changed_labels"] == changed
    assert "before adaptation" in str(found["hubness"]["columns"])


def test_a_complete_page_is_reproducible(run: Run, desk: Path) -> None:
    out = succeed(run, "report cvc data --out page.html --figures drawn")
    assert re.search(r"wrote page\.html \(\d\.\d MB\)", out)
    assert sections("page.html") == [
        *("trust", "seen-and-unseen", "classes", "confidence", "attributes", "training", "spaces", "images", "record")
    ]
    found = figures("page.html")
    assert {"training-curve", "self-training", "classes-in-space", "images-in-space"} <= set(found)
    spaces = found["images-in-space"]["columns"]["panel"]["levels"]
    assert [name.partition(" ")[0] for name in spaces][:3] == ["V→A", "DEM", "CVC"]
    assert "100.0% of the test images" in Path("page.html").read_text("utf-8")  # trained again, it is the same model
    files = sorted(path.name for path in Path("drawn").iterdir())
    assert len(files) == 2 * sum(len(figure["panels"]) for figure in found.values())
    assert f"wrote {len(files)} files to drawn" in out
    assert [path.removesuffix(".pdf") for path in files if path.endswith(".pdf")] == [
        path.removesuffix(".svg") for path in files if path.endswith(".svg")
    ]
    succeed(run, "report cvc data --out again.html --figures again")
    assert Path("again.html").read_bytes() == Path("page.html").read_bytes()
    assert listing(Path("again")) == listing(Path("drawn"))


def test_a_quick_page_leaves_out_training_and_t_sne(run: Run, desk: Path) -> None:
    code, _, err = run("report cvc data --quick --out page.html")
    assert (code, err) == (0, "")
    assert "spaces" not in sections("page.html")
    assert not {"training-curve", "images-in-space"} & set(figures("page.html"))
    assert {"validation-curve", "confusion", "reliability"} <= set(figures("page.html"))


def test_pages_are_equal_in_another_process(run: Run, desk: Path) -> None:
    succeed(run, "report model data --quick --out page.html")
    again = [sys.executable, "-m", "sightunseen", "report", "model", "data", "--quick", "--out", "again.html"]
    subprocess.run(again, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True, capture_output=True)
    assert Path("again.html").read_bytes() == Path("page.html").read_bytes()


def test_a_page_is_replaced_and_its_folder_created(run: Run, desk: Path) -> None:
    Path("page.HTML").write_text("an earlier one")
    succeed(run, "report model data --quick --out page.HTML")
    assert Path("page.HTML").read_text("utf-8").startswith("<!doctype html>")
    succeed(run, "report model data --quick --out new/folder/page.htm")
    assert [path.name for path in Path("new/folder").iterdir()] == ["page.htm"]


def test_data_without_attribute_names_have_a_note(run: Run, desk: Path) -> None:
    succeed(run, "train benchmark --method ESZSL --out model-b")
    succeed(run, "report model-b benchmark --quick --out page.html")
    assert "no attribute names" in Path("page.html").read_text("utf-8")


def test_training_is_not_repeated_on_other_data(run: Run, desk: Path) -> None:
    with np.load("data/features.npz") as file:
        arrays = dict(file)
    np.savez("data/features.npz", **{**arrays, "X": arrays["X"] + np.float32(0.01)})
    code, _, err = run("report model data --out page.html")
    assert code == 0
    assert "the model was trained on: features features.npz" in err
    assert "training is not repeated" in err
    assert "spaces" not in sections("page.html")


def test_selection_protocol_and_adaptation_are_shown(run: Run, desk: Path) -> None:
    quick = "--method CVC --set hidden=16 --set n_steps=200"
    succeed(run, f"train data --protocol paper {quick} --out model-p")
    succeed(run, "report model-p data --quick --out paper.html")
    assert re.search(r'class="level WARN">WARN</strong> [^<]*TEST images', Path("paper.html").read_text("utf-8"))
    succeed(run, f"train data --search initial_scale=5,10 --seeds 2 {quick} --out model-s")
    succeed(run, "report model-s data --quick --out searched.html")
    text = Path("searched.html").read_text("utf-8")
    assert all(f'id="{name}"' in text for name in ("tried", "seeds", "validation-curve"))
    succeed(run, "adapt cvc data --set rounds=2 --set steps_per_round=20 --out model-t")
    succeed(run, "report model-t data --quick --out adapted.html")
    assert figures("adapted.html")["self-training"]["columns"]["round"] == [1, 2]


def test_a_history_without_rounds_is_not_drawn(run: Run, desk: Path) -> None:
    succeed(run, "train data --method GFZSL --out model-g")
    succeed(run, "adapt model-g data --out model-t")
    succeed(run, "report model-t data --quick --out page.html")
    assert "self-training" not in figures("page.html")


def test_photos_are_shown(run: Run, desk: Path) -> None:
    with np.load("data/features.npz") as file:
        arrays = dict(file)
    names = np.array([f"/elsewhere/{label}/{row}.png" for row, label in enumerate(arrays["y"].tolist())])
    np.savez("data/features.npz", **arrays, path=names)
    for row in np.flatnonzero(arrays["split"] == "test_unseen").tolist()[::2]:
        Path("photos", arrays["y"][row]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 200), (row % 256, 90, 30)).save(Path("photos", arrays["y"][row], f"{row}.png"))
    succeed(run, "report model data --quick --images photos --out page.html")
    text = Path("page.html").read_text("utf-8")
    shown, unshown = text.count('<img src="data:image/jpeg;base64,'), text.count('<span class="name">')
    assert shown > 0
    assert shown + unshown == 4 * 7 + 14  # of each unseen class, and confident mistakes
    missing = [int(number) for number in re.findall(r"(\d+) of (?:28|14) have no photo", text)]
    assert sum(missing) == unshown


def test_a_page_can_go_to_standard_output(run: Run, desk: Path) -> None:
    code, out, err = run("report model data --quick --out -")
    assert code == 0
    assert out.startswith("<!doctype html>")
    assert out.rstrip().endswith("</html>")
    assert "wrote - (" in err
    assert not Path("-").exists()


# -- images without labels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["npz", "npy", "csv"])
def test_unlabelled_images_have_a_page(run: Run, desk: Path, form: str) -> None:
    X = np.load("data/features.npz")["X"][:60]
    if form == "npz":
        np.savez("new.npz", X=X, path=[f"photo {k}.jpg" for k in range(60)])
    elif form == "npy":
        np.save("new.npy", X)
    else:
        head = ",".join(f"f{k}" for k in range(X.shape[1]))
        np.savetxt("new.csv", X, delimiter=",", header=head, comments="")
    out = succeed(run, f"report model new.{form} --out page.html{' --quick' if form != 'npz' else ''}")
    assert "wrote page.html" in out
    text = Path("page.html").read_text("utf-8")
    assert "60 images without labels" in text
    assert ("photo 3.jpg" in text or "photo 7.jpg" in text) == (form == "npz")
    assert ("spaces" in sections("page.html")) == (form == "npz")
    assert "reliability" not in figures("page.html")


# -- a benchmark -----------------------------------------------------------------------------------------------------------


def test_a_benchmark_has_a_page(run: Run, desk: Path) -> None:
    results("results")
    out = succeed(run, "report results --out page.html --figures drawn")
    assert "wrote page.html" in out
    assert "51.0 ± 1.4" in Path("page.html").read_text("utf-8")
    assert {name.partition("-")[0] for name in figures("page.html")} == {"ranking", "balance", "cost"}
    assert len(list(Path("drawn").glob("*.pdf"))) == 4


def test_a_real_benchmark_has_a_page(run: Run, desk: Path) -> None:
    Path("plan.toml").write_text('methods = ["ESZSL"]\n[[data]]\npath = "data"\n[[data]]\npath = "no-such-data"\n')
    run("benchmark run plan.toml --out results")
    succeed(run, "report results --out page.html")
    text = Path("page.html").read_text("utf-8")
    assert "ESZSL" in text
    assert "no-such-data" in text


def test_a_benchmark_without_finished_jobs_has_a_page_with_reasons(run: Run, desk: Path) -> None:
    results("results", FAILED)
    succeed(run, "report results --out page.html")
    assert "failed: no memory" in Path("page.html").read_text("utf-8")
    assert figures("page.html") == {}


def test_the_page_on_a_benchmark_does_not_import_torch(desk: Path) -> None:
    results("results")
    asked = (
        "import sys; from sightunseen.cli import main; code = main(['report', 'results', '--out', 'page.html'])\n"
        "print(code, sorted({'torch', 'sklearn'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "0 []"


# -- invalid input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report model --out page.html", ("model", "give its data")),
        ("report nowhere --out page.html", ("no file or folder nowhere",)),
        ("report nowhere data --out page.html", ("no file or folder nowhere",)),
        ("report data data --out page.html", ("data",)),
        ("report model nowhere --out page.html", ("nowhere",)),
        ("report model nowhere.npz --out page.html", ("nowhere.npz",)),
        ("report model data --out page", ("--out", "report.html")),
        ("report model data --out page.pdf", ("--out", "report.html")),
        ("report model data --out data/features.npz/page.html", ("features.npz is a file",)),
        ("report model data --out page.html --figures data/classes.csv", ("classes.csv is a file",)),
        ("report model data --out folder.html", ("folder.html is a folder", "--out")),
        ("report results data --out page.html", ("results", "Leave data out")),
        ("report empty --out page.html", ("empty", "no outcome yet", "benchmark run")),
        ("report broken --out page.html", ("x.json", "outcome")),
        ("report model data --images nowhere --out page.html", ("no file or folder nowhere",)),
        ("report model data --images folder.html --out page.html", ("contains no photos", "--images")),
        ("report model other.npz --classes data/classes.csv --out page.html", ("24 features", "has 20")),
        ("report model narrow.npy --out page.html", ("5 features", "24")),
        ("report model nothing.npy --out page.html", ("nothing.npy", "no image")),
        ("report model data --semantics word2vec --out page.html", ("attributes", "word2vec")),
    ],
)
def test_invalid_input_is_reported_and_no_file_is_written(run: Run, desk: Path, line: str, words: tuple[str, ...]) -> None:
    results("results")
    Path("empty/jobs").mkdir(parents=True)
    Path("broken/jobs").mkdir(parents=True)
    Path("broken/jobs/x.json").write_text("{")
    Path("folder.html").mkdir()
    with np.load("data/features.npz") as file:
        np.savez("other.npz", X=file["X"][:, :20], y=file["y"], split=file["split"])
    np.save("narrow.npy", np.zeros((3, 5), np.float32))
    np.save("nothing.npy", np.zeros((0, 24), np.float32))
    err = rejected(run, line)
    assert [word for word in words if word not in err] == [], err


def test_missing_arguments_are_reported(run: Run, desk: Path) -> None:
    code, _, err = run("report model data")
    assert code == 2
    assert "--out" in err
    assert run("report")[0] == 2


def test_a_full_disk_leaves_no_file(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    Path("page.html").write_text("an earlier one")
    monkeypatch.setattr("sightunseen.core.files.os.replace", full)
    assert "No space left on device" in rejected(run, "report model data --quick --out page.html")
    assert "No space left on device" in rejected(run, "report model data --quick --out new/page.html")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(run: Run, desk: Path) -> None:
    Path("locked").mkdir(mode=0o500)
    assert "locked" in rejected(run, "report model data --quick --out locked/page.html")


@pytest.mark.parametrize("package", ["altair", "jinja2", "vl_convert"])
def test_a_missing_extra_is_named(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in ("page", "figures"):  # as if not imported yet
        monkeypatch.delitem(sys.modules, f"sightunseen.report.{name}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    err = rejected(run, "report model data --out page.html")
    assert f"need {package}" in err
    assert "pip install 'sightunseen[report]'" in err


def test_help_names_every_option(run: Run) -> None:
    code, out, _ = run("report --help")
    assert code == 0
    assert all(option in out for option in ("MODEL|RESULTS", "DATA", "--out", "--images", "--figures", "--quick", "--seed"))
