"""What many tests share: where the real data are, a cache of their own, and small worlds."""

import os
from pathlib import Path

import pytest
import torch

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.data.synthetic_features import World, make_world

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU, as Python: read when they are imported

SHARED = Path(os.environ.get("SIGHTUNSEEN_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests neither read nor fill the user's cache."""
    os.environ["SIGHTUNSEEN_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def benchmark_folder() -> Path:
    """``xlsa17/data`` with the real files, or skip."""
    folder = SHARED / "xlsa17" / "data"
    if not folder.is_dir():
        pytest.skip(f"the benchmark's real files are not at {folder}; set SIGHTUNSEEN_SHARED")
    return folder


@pytest.fixture(scope="session")
def small_world() -> ZeroShotDataset:
    """12 seen and 4 unseen synthetic classes, easy enough to learn in a second."""
    return make_world(World(n_seen=12, n_unseen=4, n_attributes=10, n_features=24, images_per_class=20, private=0.3, noise=1.0))
