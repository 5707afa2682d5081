"""Fixture of the benchmark's tests: a data set on disk."""

from pathlib import Path

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset


@pytest.fixture(scope="session")
def world_folder(small_world: ZeroShotDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small data set as tables."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "world").mkdir()
    split = np.full(len(small_world.labels), "train", dtype="<U11")
    split[small_world.test_seen_rows], split[small_world.test_unseen_rows] = "test_seen", "test_unseen"
    np.savez(folder / "world" / "features.npz", X=small_world.features, y=small_world.labels, split=split)
    table = small_world.classes
    lines = [",".join(["class", *(table.attribute_names or ())])]
    lines += [",".join([str(label), *map(str, vector)]) for label, vector in zip(table.labels, table.vectors, strict=True)]
    (folder / "world" / "classes.csv").write_text("\n".join(lines))
    return folder
