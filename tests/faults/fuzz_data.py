"""Targets of the fuzzer that read data: tables, class files, xlsa17 folders, photos, backbones and lists of candidates."""

import random
from pathlib import Path
from typing import Any

from . import fuzz_files as made
from . import fuzz_tables as built
from .fuzz_case import Case
from .fuzz_shelf import BACKBONE
from .fuzz_values import damaged, odd_number, odd_text

TABLE = "data/features"


def tables(r: random.Random, _: Path) -> Case:
    """Features and classes in tables of every format."""
    classes: dict[str, Any] = {
        "data/classes.csv": built.csv_text(r, built.class_rows()) if r.random() < 0.3 else _plain_classes()
    }
    kind = r.choice(("npz", "csv", "parquet"))
    with_classes = kind == "npz" and r.random() < 0.3
    if kind == "npz":
        content = built.npz(r, built.image_arrays(with_classes))
    else:
        content = {"csv": built.csv_text, "parquet": built.parquet}[kind](r, built.image_rows())
    files = {f"{TABLE}.{kind}": content, **({} if with_classes else classes)}
    command = r.choice(
        (
            *(["inspect", "data"], ["inspect", "data", "--json"], ["call:sightunseen.data:open_data", "data"]),
            *(["train", "data", "--out", "new", "--search", "shrinkage=0.1"], ["evaluate", "{shelf}/model", "data"]),
            ["train", "data", "--out", "new", "--method", "ESZSL", "--select", "none", "--allow", "training-images"],
        )
    )
    return Case(command, files, ["new"])


def features(r: random.Random, _: Path) -> Case:
    """Tables of features to predict, adapt to or learn from."""
    kind = r.choice(("npy", "npz", "csv", "parquet"))
    arrays = {"X": built.image_arrays()["X"], "path": built.image_arrays()["y"]}
    rows = [row[2:] for row in built.image_rows()]
    content = {
        "npy": lambda: built.npy(r, arrays["X"] if r.random() < 0.3 else None),
        "npz": lambda: built.npz(r, arrays),
        "csv": lambda: built.csv_text(r, rows),
        "parquet": lambda: built.parquet(r, rows),
    }[kind]()
    name = f"images.{kind}"
    command = r.choice(
        (
            ["predict", "{shelf}/model", name, "--out", f"answers.{r.choice(('csv', 'json', 'jsonl', 'parquet'))}"],
            ["predict", "{shelf}/model", name, "--top", "3", "--reasons"],
            ["classes", "add", "{shelf}/model", "--name", "thing 001", "--features", name, "--out", "new"],
            ["report", "{shelf}/model", name, "--quick", "--out", "page.html"],
        )
        if r.random() < 0.9
        else (["adapt", "{shelf}/model", "{shelf}/data", "--unlabelled", name, "--out", "new"],)
    )
    return Case(
        command, {name: content}, ["answers.csv", "answers.json", "answers.jsonl", "answers.parquet", "new", "page.html"]
    )


def class_files(r: random.Random, _: Path) -> Case:
    """Class tables of every format."""
    kind = r.choice(("json", "json", "csv", "parquet", "npz"))
    rows = built.class_rows()
    if r.random() < 0.2 and kind != "npz":
        rows = [[*row, text] for row, text in zip(rows, ["description", *["an animal"] * (len(rows) - 1)], strict=True)]
    content = {
        "json": lambda: made.class_json(r),
        "csv": lambda: built.csv_text(r, rows),
        "parquet": lambda: built.parquet(r, rows),
        "npz": lambda: built.npz(
            r, {"labels": built.image_arrays(True)["class_labels"], "vectors": built.image_arrays(True)["class_vectors"]}
        ),
    }[kind]()
    name = f"classes.{kind}"
    command = r.choice(
        (
            [
                "inspect",
                "{shelf}/data/features.npz",
                "--classes",
                name,
                "--semantics",
                r.choice(("auto", "attributes", "attributes", "names", "both", "text")),
            ],
            ["classes", "add", "{shelf}/model", "--attributes", name, "--out", "new"],
            ["call:sightunseen.data.class_files:read_class_file", name],
            ["call:sightunseen.data.table_files:load_classes", name, "attributes"],
        )
    )
    return Case(command, {name: content}, ["new"])


def benchmark_folders(r: random.Random, shelf: Path) -> Case:
    """xlsa17 folders with odd MATLAB and text files."""
    files: dict[str, Any] = {"b/res101.mat": built.matlab(r, True), "b/att_splits.mat": built.matlab(r, False)}
    for name in list(files):
        if r.random() < 0.5:
            files[name] = (shelf / "benchmark" / Path(name).name).read_bytes()
            if r.random() < 0.1:
                files[name] = damaged(r, files[name])
    if r.random() < 0.3:
        listed = r.choice(("allclasses.txt", "attributes.txt", "predicates.txt", "trainclasses1.txt", "valclasses1.txt"))
        lines = [odd_text(r, 200) for _ in range(r.randint(0, 9))]
        files[f"b/{listed}"] = "\n".join(lines).encode(r.choice(("utf-8", "utf-8", "utf-16")), "surrogatepass")
    command = r.choice((["inspect", "b"], ["inspect", "b"], ["train", "b", "--out", "new", "--search", "shrinkage=0.1"]))
    extra = r.choice(
        (
            [],
            [],
            [],
            ["--semantics", r.choice(("original_att", "att+original_att", "att*1e300", "att_splits:att", odd_text(r, 300)))],
        )
    )
    return Case([*command, *extra], files, ["new"])


def photos(r: random.Random, _: Path) -> Case:
    """Photos, folders of photos and lists of photos."""
    names = [
        r.choice(("a.jpg", "b.png", "c.gif", "d.tif", "e.webp", "f.bmp", "g.PNG", "é.jpg", ".h.jpg", "i.heic"))
        for _ in range(r.randint(1, 4))
    ]
    files: dict[str, Any] = {f"p/{r.choice(('', '', 'x/', 'seen/a/', 'unseen/b/'))}{name}": made.photo(r) for name in names}
    if r.random() < 0.1:
        files["p/odd.jpg"] = r.choice(
            ({"kind": "fifo"}, {"kind": "folder"}, {"kind": "link", "to": "nowhere"}, {"kind": "link", "to": ".."})
        )
    source = r.choice(("p", next(iter(files))))
    if r.random() < 0.3:
        rows = [
            ["path", "label", "split"],
            *([name.removeprefix("p/"), r.choice("ab"), r.choice(("train", "test_seen", "test_unseen"))] for name in files),
        ]
        files["p/list.csv"], source = built.csv_text(r, rows), "p/list.csv"
    command = r.choice(
        (
            ["predict", "{shelf}/seer", source, "--top", "2"],
            ["embed", source, "--backbone", BACKBONE, "--out", r.choice(("f.npz", "f.parquet"))],
            ["inspect", source, "--classes", "{shelf}/colours.csv", "--backbone", BACKBONE],
            ["classes", "add", "{shelf}/seer", "--name", "red", "--photos", source, "--out", "new"],
        )
    )
    return Case(command, files, ["f.npz", "f.parquet", "new"])


def backbones(r: random.Random, _: Path) -> Case:
    """ONNX backbones and their options."""
    option = (
        "size=8"
        if r.random() < 0.6
        else r.choice(
            (f"size={odd_number(r)}", f"mean={odd_number(r)}&size=8", f"std={odd_number(r)}&size=8", odd_text(r, 300))
        )
    )
    name = f"onnx:b.onnx?{option}" if r.random() < 0.9 else r.choice((odd_text(r, 1000), "onnx:", "onnx:.", "timm:", "torch:x"))
    return Case(["embed", "{shelf}/photos/seen/red", "--backbone", name, "--out", "f.npz"], {"b.onnx": made.onnx(r)}, ["f.npz"])


def candidates(r: random.Random, _: Path) -> Case:
    """Lists of candidate classes."""
    labels = [r.choice((odd_text(r, 2000), "thing 001", "thing 002")) for _ in range(r.randint(0, 6))]
    content = "\n".join(labels).encode(r.choice(("utf-8", "utf-8", "utf-16", "utf-8-sig")), "surrogatepass")
    files: dict[str, Any] = {"c.txt": damaged(r, content) if r.random() < 0.2 else content}
    if r.random() < 0.05:
        files = {"c.txt": r.choice(({"kind": "fifo"}, {"kind": "folder"}, {"kind": "repeated", "text": "x", "times": 10**7}))}
    command = r.choice(
        (["predict", "{shelf}/model", "{shelf}/data/features.npz"], ["export", "{shelf}/model", "--linear", "l.npz"])
    )
    return Case([*command, "--candidates", "c.txt"], files, ["l.npz"])


def _plain_classes() -> bytes:
    return "\n".join(",".join(map(str, row)) for row in built.class_rows()).encode()
