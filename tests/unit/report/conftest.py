"""Fixtures of the report tests: a small model, and an embedding in the plane without t-SNE."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sightunseen.analysis.tsne import TsneEmbedding
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL
from sightunseen.report.model_page import ModelReport


@pytest.fixture(scope="session")
def eszsl(small_world: ZeroShotDataset) -> ESZSL:
    return ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)


@pytest.fixture(scope="session")
def report(eszsl: ESZSL, small_world: ZeroShotDataset) -> ModelReport:
    return ModelReport("A report", eszsl, small_world)


@pytest.fixture(scope="session")
def flat() -> Callable[[Any, Any], TsneEmbedding]:
    """An embedding that takes the first two coordinates of each point."""
    return lambda images, classes: TsneEmbedding(np.asarray(images)[:, :2], np.asarray(classes)[:, :2])
