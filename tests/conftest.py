"""Shared fixtures: the folder of the real data, a temporary cache and a small synthetic data set."""

import os
import signal
from pathlib import Path

import pytest
import torch

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.data.synthetic_features import World, make_world

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads this at import: kernels are interpreted on the CPU

SHARED = Path(os.environ.get("SIGHTUNSEEN_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use a temporary cache instead of the user's."""
    os.environ["SIGHTUNSEEN_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Take Ctrl-C in tests that were started in the background: shells let such processes and their children ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def benchmark_folder() -> Path:
    """Folder ``xlsa17/data`` of the real benchmark files; skip if it is missing."""
    folder = SHARED / "xlsa17" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real benchmark files are not at {folder}; set SIGHTUNSEEN_SHARED")
    return folder


@pytest.fixture(scope="session")
def small_world() -> ZeroShotDataset:
    """Synthetic data of 12 seen and 4 unseen classes that are learned within a second."""
    return make_world(World(n_seen=12, n_unseen=4, n_attributes=10, n_features=24, images_per_class=20, private=0.3, noise=1.0))
