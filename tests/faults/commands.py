"""Every command that writes, as a small run in a folder of its own."""

import csv
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MODEL = "train data --select none --out model"
CVC = "--method CVC --set hidden=8 --set n_steps=20"
ADD = "classes add model --name extra --attributes extra.csv"
EMBED = "embed photos --backbone 'onnx:tiny.onnx?mean=127&std=128' --device cpu --out"
SERVE = "serve model --save"  # run in this process: one request that adds a class


@dataclass(frozen=True)
class Command:
    """A command and what it may change.

    Parameters
    ----------
    line : str
        The command line, run in the root folder.
    models : tuple of str
        Model folders that it writes.
    files : tuple of str
        Patterns of other files that it writes.
    before : tuple of str or callable
        What makes the state before: command lines, or functions of the root folder. A line that begins with
        ``interrupted:`` is killed after its last checkpoint.
    needs : tuple of str
        Inputs: ``tables``, ``mat``, ``photos``, ``plan``.
    instead : str
        What to run after a fault if the command has already done its work and is refused a second time.
    """

    line: str
    models: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    before: tuple[str | Callable[[Path], None], ...] = ()
    needs: tuple[str, ...] = field(default=("tables",))
    instead: str = ""


def make_inputs(folder: Path) -> None:
    """Write the inputs of all commands into a folder."""
    for name, write in INPUTS.items():
        (folder / name).mkdir(parents=True)
        write(folder / name)


def _data() -> Any:
    from sightunseen.data.synthetic_features import World, make_world

    return make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=8, images_per_class=10, private=0.3, noise=1.0))


def _write_tables(root: Path) -> None:
    data = _data()
    folder = root / "data"
    folder.mkdir()
    split = np.empty(len(data.labels), dtype="U12")
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(data, f"{part}_rows")] = part
    np.savez(folder / "features.npz", X=data.features, y=data.labels, split=split)
    with open(folder / "classes.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", *data.classes.attribute_names])
        rows.writerows([label, *vector] for label, vector in zip(data.classes.labels, data.classes.vectors, strict=True))
    names = ",".join(data.classes.attribute_names)
    (root / "extra.csv").write_text(f"class,{names}\nextra{',1' * len(data.classes.attribute_names)}\n", "utf-8")
    with open(root / "images.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([f"f{k}" for k in range(data.features.shape[1])])
        rows.writerows(data.features[data.test_unseen_rows].tolist())


def _write_mat(root: Path) -> None:
    """An xlsa17 folder: images in columns, labels and indices start at one."""
    import scipy.io

    data = _data()
    folder = root / "mat"
    folder.mkdir()
    names = data.classes.labels.tolist()
    numbers = np.array([[names.index(label) + 1] for label in data.labels.tolist()])
    scipy.io.savemat(folder / "res101.mat", {"features": data.features.T.astype(float), "labels": numbers})
    rows = {f"{name}_loc": getattr(data, f"{part}_rows")[:, None] + 1 for name, part in PARTS.items()}
    vectors = {"att": data.classes.vectors.T / 3, "original_att": data.classes.vectors.T}
    listed = {"allclasses_names": np.array([[name] for name in names], dtype=object)}
    scipy.io.savemat(folder / "att_splits.mat", {**rows, **vectors, **listed})


PARTS = {"trainval": "train", "test_seen": "test_seen", "test_unseen": "test_unseen"}


def _write_photos(root: Path) -> None:
    import onnx
    from onnx import helper

    from sightunseen.data.synthetic_photos import choose_things, draw_photos

    for thing in choose_things(24)[:2]:
        draw_photos(root / "photos" / thing.name, thing, range(2), size=24)
    kind = onnx.TensorProto.FLOAT
    shapes = [helper.make_tensor_value_info(name, kind, ["n", 3, 4, 4]) for name in ("photos", "features")]
    graph = helper.make_graph([helper.make_node("Abs", ["photos"], ["features"])], "tiny", shapes[:1], shapes[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), root / "tiny.onnx")


def _write_plan(root: Path) -> None:
    (root / "plan.toml").write_text('methods = ["ESZSL"]\nseeds = 2\n[[data]]\npath = "data"\n', "utf-8")


INPUTS: dict[str, Callable[[Path], None]] = {
    "tables": _write_tables,
    "mat": _write_mat,
    "photos": _write_photos,
    "plan": _write_plan,
}


def _without_two_results(root: Path) -> None:
    """Forget two finished jobs, so that the command runs two and not all of them again."""
    for path in sorted((root / "study" / "jobs").glob("*.json"))[:2]:
        path.unlink()


def _without_cache(root: Path) -> None:
    shutil.rmtree(root / "cache", ignore_errors=True)


COMMANDS: dict[str, Command] = {
    "train": Command("train data --select none --out deep/new/model", models=("deep/new/model",)),
    "train-mat": Command("train mat --select none --out model", models=("model",), needs=("mat",)),
    "train-cvc": Command(f"train data {CVC} --out model", models=("model",)),
    "train-overwrite": Command(
        "train data --select none --set shrinkage=0.9 --out model --overwrite", models=("model",), before=(MODEL,)
    ),
    "train-resume": Command(
        f"train data {CVC} --out model --resume", models=("model",), before=(f"interrupted:train data {CVC} --out model",)
    ),
    "adapt": Command("adapt model data --select none --out adapted", models=("model", "adapted"), before=(MODEL,)),
    "adapt-cvc": Command(
        "adapt model data --select none --set rounds=2 --set steps_per_round=5 --out adapted",
        models=("model", "adapted"),
        before=(f"train data --select none {CVC} --out model",),
    ),
    "classes-add": Command(ADD, models=("model",), before=(MODEL,), instead="classes remove model --name extra"),
    "classes-add-out": Command(
        f"{ADD} --out other", models=("model", "other"), before=(MODEL,), instead="classes remove other --name extra"
    ),
    "classes-examples": Command(
        f"{ADD} --features images.csv", models=("model",), before=(MODEL,), instead="classes remove model --name extra"
    ),
    "classes-remove": Command("classes remove model --name extra", models=("model",), before=(MODEL, ADD), instead=ADD),
    "classes-remove-out": Command(
        "classes remove model --name extra --out other",
        models=("model", "other"),
        before=(MODEL, ADD),
        instead="classes remove other --name 'thing 008'",
    ),
    "predict-csv": Command(
        "predict model images.csv --top 2 --out answers.csv",
        models=("model",),
        files=("answers.csv",),
        before=(MODEL, "predict model images.csv --out answers.csv"),
    ),
    "predict-json": Command("predict model images.csv --out a/b/c.json", ("model",), ("a/b/c.json",), before=(MODEL,)),
    "predict-jsonl": Command("predict model images.csv --out answers.jsonl", ("model",), ("answers.jsonl",), before=(MODEL,)),
    "predict-parquet": Command(
        "predict model data/features.npz --top 2 --out answers.parquet",
        models=("model",),
        files=("answers.parquet",),
        before=(MODEL, "predict model data/features.npz --out answers.parquet", _without_cache),
    ),
    "embed-parquet": Command(f"{EMBED} features.parquet", files=("features.parquet",), needs=("photos",)),
    "embed-npz": Command(
        f"{EMBED} features.npz", files=("features.npz",), before=(f"{EMBED} features.parquet",), needs=("photos",)
    ),
    "export": Command(
        "export model --onnx model.onnx --linear weights.npz", ("model",), ("model.onnx", "weights.npz"), before=(MODEL,)
    ),
    "report": Command(
        "report model images.csv --quick --out report.html --figures figures",
        models=("model",),
        files=("report.html", "figures/*"),
        before=(MODEL,),
    ),
    "benchmark": Command("benchmark run plan.toml --out results", files=("results/jobs/*",), needs=("tables", "plan")),
    "ablate": Command(
        "ablate data --out study --seeds 1 --set n_steps=2 --set hidden=4",
        files=("study/jobs/*",),
        before=("ablate data --out study --seeds 1 --set n_steps=2 --set hidden=4", _without_two_results),
    ),
    "serve": Command(SERVE, models=("model",), before=(MODEL,), instead="classes remove model --name extra"),
}
