"""Foresight on the benchmark's real files: chosen on validation classes, and what it must reach on the test data."""

from pathlib import Path
from typing import Any

import pytest

from sightunseen import load_gbu
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL, Foresight
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train

pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def birds(benchmark_folder: Path) -> ZeroShotDataset:
    return load_gbu(benchmark_folder / "CUB", features="res50")


@pytest.fixture(scope="module")
def trained(birds: ZeroShotDataset, tmp_path_factory: pytest.TempPathFactory) -> Foresight:
    """As ``sightunseen train`` does it where nobody says how."""
    return train(TrainingSpecification(method=Foresight), birds, tmp_path_factory.mktemp("work"))


def results(model: Any) -> dict[str, float]:
    assert model.record_.protocol == "honest"
    assert model.record_.selection["by"] == "H on validation classes"
    return dict(model.record_.results)


def test_birds_are_recognised_by_their_attributes(trained: Foresight) -> None:
    found = results(trained)
    assert found["T1"] >= 60
    assert found["H"] >= 54
    assert trained.calibration_ is not None


def test_birds_are_recognised_better_with_their_unlabelled_photos(
    trained: Foresight, birds: ZeroShotDataset, tmp_path: Path
) -> None:
    found = results(adapt(AdaptationSpecification(), trained, birds, tmp_path))
    assert found["T1"] >= 70
    assert found["H"] >= 65


def test_animals_are_recognised_better_than_by_eszsl(benchmark_folder: Path, tmp_path: Path) -> None:
    animals = load_gbu(benchmark_folder / "AWA1", features="bow512", splits="att_splits_trainval_fixed")
    found = results(train(TrainingSpecification(method=Foresight), animals, tmp_path))
    beside = results(train(TrainingSpecification(method=ESZSL), animals, tmp_path))
    assert found["T1"] >= max(36, beside["T1"])
    assert found["H"] >= max(29, beside["H"])
