"""What the report's tests share: a small model, and places in the plane without t-SNE."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sightunseen.analysis.tsne import Picture
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL
from sightunseen.report.model_page import Study


@pytest.fixture(scope="session")
def eszsl(small_world: ZeroShotDataset) -> ESZSL:
    return ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)


@pytest.fixture(scope="session")
def study(eszsl: ESZSL, small_world: ZeroShotDataset) -> Study:
    return Study("A report", eszsl, small_world)


@pytest.fixture(scope="session")
def flat() -> Callable[[Any, Any], Picture]:
    """Where points lie by their first two numbers."""
    return lambda images, classes: Picture(np.asarray(images)[:, :2], np.asarray(classes)[:, :2])
