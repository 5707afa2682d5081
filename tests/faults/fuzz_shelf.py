"""The shelf: a folder of small valid files of every format, which cases refer to and mutations start from."""

import csv
import json
import os
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

CVC_RUN = [  # the run whose checkpoints are on the shelf; a case repeats it with --resume
    *("train", "{shelf}/data", "--out", "new", "--method", "CVC", "--select", "none", "--set", "hidden=4"),
    *("--set", "n_steps=40", "--device", "cpu"),
]
BACKBONE = "onnx:{shelf}/mean.onnx?size=8"
BRIEF = ["--search", "shrinkage=0.1,0.9", "--folds", "2"]  # makes a short run record
PLAN = {
    "title": "a plan",
    "seeds": 1,
    "selection": ["validation"],
    "folds": 1,
    "methods": ["ESZSL"],
    "data": [{"path": "{shelf}/data", "backbone": "ResNet"}],
    "method": [
        {"name": "ESZSL", "label": "other", "settings": {"feature_penalty": 1.0}, "search": {"semantic_penalty": [1.0, 3.0]}}
    ],
}


def build_shelf(folder: Path) -> None:
    """Build the shelf in a forked process, so that this one stays without threads."""
    child = os.fork()
    if not child:
        code, errors = 1, os.dup(2)
        try:
            _build(folder)
            code = 0
        except BaseException:
            os.write(errors, traceback.format_exc().encode())
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError(f"the valid files could not be made in {folder}")


def _build(folder: Path) -> None:
    import warnings

    import torch

    from sightunseen.data.synthetic_features import World, make_world

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["SIGHTUNSEEN_CACHE"] = str(folder / "cache")
    os.environ["OMP_NUM_THREADS"] = "1"
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    folder.mkdir(parents=True, exist_ok=True)
    world = World(n_seen=8, n_unseen=4, n_attributes=6, n_features=5, images_per_class=8, private=0.3, noise=1.0)
    data = make_world(world)
    write_tables(folder / "data", data)
    write_xlsa17(folder / "benchmark", data)
    _run(folder, "inspect", "{shelf}/benchmark")  # fills the cache
    _run(folder, "train", "{shelf}/data", *BRIEF, "--out", "{shelf}/model")
    write_photo_model(folder)
    _save_methods(folder / "methods", folder / "model", data)
    _write_results(folder)
    _write_checkpoint(folder)


def _run(folder: Path, *arguments: str) -> None:
    from sightunseen.cli import main

    code = main([argument.replace("{shelf}", str(folder)) for argument in arguments])
    if code:
        raise RuntimeError(f"{arguments} ended with exit code {code}")


def base_tables(data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays of the images and of the classes, by the names of columns."""
    import numpy as np

    split = np.empty(len(data.labels), dtype="U12")
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(data, f"{part}_rows")] = part
    images = {"X": np.asarray(data.features), "y": data.labels, "split": split}
    return images, {"labels": data.classes.labels, "vectors": data.classes.vectors}


def write_tables(folder: Path, data: Any) -> None:
    """Write a folder with ``features.npz`` and ``classes.csv``."""
    import numpy as np

    folder.mkdir()
    images, classes = base_tables(data)
    np.savez(folder / "features.npz", **images)
    with open(folder / "classes.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", *(f"a{k}" for k in range(classes["vectors"].shape[1]))])
        rows.writerows([label, *vector] for label, vector in zip(classes["labels"], classes["vectors"], strict=True))


def write_xlsa17(folder: Path, data: Any) -> None:
    """Write an xlsa17 folder."""
    from scipy.io import savemat

    folder.mkdir()
    features, splits = xlsa17_arrays(data)
    savemat(folder / "res101.mat", features)
    savemat(folder / "att_splits.mat", splits)


def xlsa17_arrays(data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables of the feature file and of the split file."""
    import numpy as np

    names = data.classes.labels.tolist()
    numbers = np.array([[names.index(label) + 1] for label in data.labels.tolist()])
    splits = {
        "trainval_loc": data.train_rows[:, None] + 1,
        "test_seen_loc": data.test_seen_rows[:, None] + 1,
        "test_unseen_loc": data.test_unseen_rows[:, None] + 1,
        "att": data.classes.vectors.T / 3,
        "original_att": data.classes.vectors.T,
        "allclasses_names": np.array([[name] for name in names], dtype=object),
    }
    return {"features": np.asarray(data.features).T.astype(float), "labels": numbers}, splits


def write_photo_model(folder: Path) -> None:
    """Photos of seen and unseen colours, their class table, a backbone that computes the mean colour, and a model."""
    from PIL import Image

    colours = {
        "red": (250, 20, 20),
        "green": (20, 250, 20),
        "blue": (20, 20, 250),
        "grey": (120, 120, 120),
        "white": (240,) * 3,
    }
    for number, (name, colour) in enumerate(colours.items()):
        place = folder / "photos" / ("unseen" if number == 4 else "seen") / name
        place.mkdir(parents=True)
        for k in range(6):
            Image.new("RGB", (12, 10), tuple(max(0, value - 5 * k) for value in colour)).save(place / f"{k}.png")
    rows = [f"{name},{red / 255},{green / 255},{blue / 255}" for name, (red, green, blue) in colours.items()]
    (folder / "colours.csv").write_text("class,r,g,b\n" + "\n".join(rows) + "\n")
    (folder / "mean.onnx").write_bytes(mean_colour())
    photos = ["{shelf}/photos", "--classes", "{shelf}/colours.csv", "--backbone", BACKBONE]
    _run(folder, "train", *photos, *BRIEF, "--out", "{shelf}/seer")


def mean_colour(shape: Any = ("n", 3, "h", "w"), operator: str = "GlobalAveragePool", element: int = 1) -> bytes:
    """An ONNX model of one operator."""
    from onnx import helper

    image = helper.make_tensor_value_info("image", element, shape)
    mean = helper.make_tensor_value_info("mean", element, None)
    graph = helper.make_graph([helper.make_node(operator, ["image"], ["mean"])], "backbone", [image], [mean])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _save_methods(folder: Path, model: Path, data: Any) -> None:
    """Save a quickly fitted model of every method, with the run record of another model."""
    import numpy as np

    from sightunseen.core.class_table import ClassTable
    from sightunseen.methods import METHODS, load_model

    small = {
        "n_steps": 4,
        "hidden": 4,
        "device": "cpu",
        "components": 4,
        "steps": 2,
        "classifier_steps": 2,
        "noise_size": 2,
        "n_synthesised": 2,
        "critic_steps": 1,
    }
    record = load_model(model).record_
    train = data.train
    for name, method in METHODS.items():
        known = method._get_param_names()
        fitted = method(**{key: value for key, value in small.items() if key in known})
        classes = data.classes
        if name == "CLIP":  # embeddings of images and texts have one size
            classes = ClassTable(classes.labels, np.resize(classes.vectors, (len(classes.labels), train.X.shape[1])))
        fitted.fit(train.X, train.y, classes)
        fitted.record_ = replace(record, method=name)
        fitted.save(folder / name)


def _write_results(folder: Path) -> None:
    """Write a results folder with jobs that are done, failed and skipped."""
    from sightunseen.benchmark.attempts import shown as _shown
    from sightunseen.benchmark.jobs import carry_out, identity_of, record_as_dict
    from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome
    from sightunseen.benchmark.plan import plan_of
    from sightunseen.benchmark.store import Store

    content = json.loads(json.dumps(PLAN).replace("{shelf}", str(folder)))
    store = Store(folder / "results")
    store.jobs.mkdir(parents=True)
    jobs = plan_of({**content, "seeds": 2}, folder).jobs()
    for job in jobs:
        store.add(Outcome(DONE, identity_of(job), _shown(job), "", record_as_dict(carry_out(job)), 1.5))
    for seed, state in ((5, FAILED), (6, SKIPPED)):
        job = replace(jobs[0], seed=seed)
        identity = identity_of(job) if state == FAILED else {"skipped": [job.split_name, job.method.shown, job.selection, seed]}
        store.add(Outcome(state, identity, _shown(job), "no data"))


def _write_checkpoint(folder: Path) -> None:
    """Write the checkpoints of a run that was stopped after training, before its model was saved."""
    from sightunseen.cli import main
    from sightunseen.methods.base.classifier import ZeroShotClassifier

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    save = ZeroShotClassifier.save
    ZeroShotClassifier.save = stop  # type: ignore[method-assign, assignment]
    os.chdir(folder)
    main([argument.replace("{shelf}", str(folder)) for argument in CVC_RUN])
    ZeroShotClassifier.save = save  # type: ignore[method-assign]
    (folder / "new.checkpoint").rename(folder / "checkpoint")
