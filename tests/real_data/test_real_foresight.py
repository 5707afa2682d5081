"""Foresight on real benchmark files: selection on validation classes, and minimum test results."""

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
    """The default of ``sightunseen train``."""
    return train(TrainingSpecification(method=Foresight), birds, tmp_path_factory.mktemp("work"))


def results(model: Any) -> dict[str, float]:
    assert model.record_.protocol == "honest"
    assert model.record_.selection["by"].endswith("H on validation classes")
    return dict(model.record_.results)


def test_foresight_reaches_its_results_on_cub(trained: Foresight) -> None:
    found = results(trained)
    assert found["T1"] >= 60
    assert found["H"] >= 54
    assert trained.calibration_ is not None


def test_adaptation_reaches_its_results_on_cub(trained: Foresight, birds: ZeroShotDataset, tmp_path: Path) -> None:
    found = results(adapt(AdaptationSpecification(), trained, birds, tmp_path))
    assert found["T1"] >= 70
    assert found["H"] >= 65


def test_foresight_is_better_than_eszsl_on_awa1(benchmark_folder: Path, tmp_path: Path) -> None:
    animals = load_gbu(benchmark_folder / "AWA1", features="bow512", splits="att_splits_trainval_fixed")
    found = results(train(TrainingSpecification(method=Foresight), animals, tmp_path))
    eszsl = results(train(TrainingSpecification(method=ESZSL), animals, tmp_path))
    assert found["T1"] >= max(36, eszsl["T1"])
    assert found["H"] >= max(29, eszsl["H"])
