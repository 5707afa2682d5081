"""Fixtures of the command-line tests: a folder with small data and trained models, and a function that runs commands."""

import contextlib
import csv
import io
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.io
import torch

from sightunseen.cli import main
from sightunseen.core.dataset import ZeroShotDataset

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread, so that floating-point sums have one order and equal runs are bitwise equal."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def run() -> Run:
    """Function that runs a command line in this process and returns its exit code, stdout and stderr."""

    def command(line: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.dict(os.environ, COLUMNS="160"):
            try:
                code = main(shlex.split(line))
            except SystemExit as ended:  # raised by argparse
                code = int(ended.code or 0)
        return code, out.getvalue(), err.getvalue()

    return command


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory, small_world: ZeroShotDataset, run: Run) -> Path:
    """Read-only folder with ``data`` (tables), ``benchmark`` (an xlsa17 folder), and the models ``model`` and ``cvc``."""
    folder = tmp_path_factory.mktemp("shelf")
    write_tables(folder / "data", small_world)
    write_xlsa17(folder / "benchmark", small_world)
    for options in ("--out {}/model", "--method CVC --set hidden=32 --set n_steps=200 --out {}/cvc"):
        code, _, err = run(f"train {folder}/data {options.format(folder)}")
        assert code == 0, err
    return folder


@pytest.fixture
def desk(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy of ``shelf`` as the current folder; tests may change it."""
    shutil.copytree(shelf, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_tables(folder: Path, data: ZeroShotDataset) -> None:
    folder.mkdir()
    split = np.empty(len(data.labels), dtype="U12")
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(data, f"{part}_rows")] = part
    np.savez(folder / "features.npz", X=data.features, y=data.labels, split=split)
    with open(folder / "classes.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", *(data.classes.attribute_names or ())])
        rows.writerows([label, *vector] for label, vector in zip(data.classes.labels, data.classes.vectors, strict=True))


def write_xlsa17(folder: Path, data: ZeroShotDataset) -> None:
    """Write an xlsa17 folder: images in columns, labels and indices start at one."""
    folder.mkdir()
    names = data.classes.labels.tolist()
    numbers = np.array([[names.index(label) + 1] for label in data.labels.tolist()])
    scipy.io.savemat(folder / "res101.mat", {"features": data.features.T.astype(float), "labels": numbers})
    splits = {
        "trainval_loc": data.train_rows[:, None] + 1,
        "test_seen_loc": data.test_seen_rows[:, None] + 1,
        "test_unseen_loc": data.test_unseen_rows[:, None] + 1,
        "att": data.classes.vectors.T / 3,
        "original_att": data.classes.vectors.T,
        "allclasses_names": np.array([[name] for name in names], dtype=object),
    }
    scipy.io.savemat(folder / "att_splits.mat", splits)
