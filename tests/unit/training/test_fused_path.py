"""A run of the whole pipeline with the batched engine, from selection to adaptation, agrees with the eager engine.

The kernels run in Triton's interpreter, so the engine is selected explicitly; on a GPU ``engines`` selects it.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.training import engines, loop

pytest.importorskip("triton", reason="Triton is for Linux only")

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "hidden": 12, "n_steps": 4, "classes_per_episode": 5, "images_per_class": 2, "learning_rate": 1e-2, "device": "cpu",
}  # fmt: skip
ADAPTATION = {"rounds": 2, "steps_per_round": 2, "classes_per_episode": 3, "images_per_class": 2}


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the engine is selected automatically and uses tf32")
def test_pipeline_with_fused_kernels_agrees_with_autograd(
    small_world: ZeroShotDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> tuple[CVC, CVC]:
        specification = TrainingSpecification(method=CVC, parameters=SETTINGS, search={}, n_seeds=2)
        model = train(specification, small_world, tmp_path / name)
        how = AdaptationSpecification(parameters=ADAPTATION, select="none")
        return model, adapt(how, model, small_world, tmp_path / name)

    monkeypatch.setattr(loop, "CHUNK", 2)
    plain, plain_adapted = run("plain")
    monkeypatch.setattr(engines, "_fusible", lambda objective: objective.fused_form() is not None)
    monkeypatch.setattr(engines, "most_at_once", lambda objective: 3)
    fused, fused_adapted = run("fused")
    assert plain.engine_ == "cpu, float32"
    assert "fused" in fused.engine_
    assert "fused" in fused_adapted.record_.engine  # type: ignore[union-attr]
    for one, other in ((plain, fused), (plain_adapted, fused_adapted)):
        assert one.record_.results == pytest.approx(other.record_.results, abs=1.5)  # type: ignore[union-attr]
        difference = abs(one.classifiers_of("all") - other.classifiers_of("all")).max()
        assert difference < 1e-3 * abs(one.classifiers_of("all")).max()
    assert [note["pool"] for note in plain_adapted.history_] == [note["pool"] for note in fused_adapted.history_]
