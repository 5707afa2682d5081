"""Cost of jobs: floating-point operations of gradient training against their closed form, and energy of jobs that run alone."""

from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.attempts import PendingJob, attempt
from sightunseen.benchmark.cost import cost_of, training_flops
from sightunseen.benchmark.jobs import identity_of
from sightunseen.benchmark.plan import Job, plan_of
from sightunseen.core.energy import EnergyMeter

pytestmark = pytest.mark.slow

HIDDEN, CLASSES, ATTRIBUTES, FEATURES = 16, 4, 10, 24
SMALL = {"hidden": HIDDEN, "n_steps": 200, "classes_per_episode": CLASSES, "images_per_class": 2, "device": "cpu"}
# Two layers on the class vectors of a batch: forward, gradient of the weights, gradient of the second layer's input.
OF_A_STEP = 2 * CLASSES * (2 * ATTRIBUTES * HIDDEN + 3 * HIDDEN * FEATURES)


def job(folder: Path, name: str, **others: Any) -> Job:
    return plan_of({"method": [{"name": name, **others}], "data": [{"path": "world"}]}, folder).jobs()[0]


def dem(folder: Path, **search: Any) -> Job:
    return job(folder, "DEM", settings={**SMALL, "similarity": "distance"}, search=search)


def test_flops_are_those_of_the_selection_and_of_the_final_training(world_folder: Path) -> None:
    outcome = attempt(PendingJob(one := dem(world_folder, learning_rate=[1e-3, 1e-2]), identity_of(one)))
    assert outcome.reason == ""
    folds, steps = len(outcome.record["selection"]["folds"]), outcome.record["selection"]["chosen"]["steps"]
    assert outcome.cost == {"flops": OF_A_STEP * (2 * folds * 200 + steps)}


def test_closed_form_and_transductive_jobs_have_no_flops(world_folder: Path) -> None:
    assert training_flops(job(world_folder, "ESZSL"), {}) is None
    assert training_flops(job(world_folder, "CVC-tran-XE"), {}) is None


def test_energy_of_a_job_that_runs_alone(world_folder: Path, tmp_path: Path) -> None:
    domain = tmp_path / "intel-rapl:0"
    domain.mkdir()
    (domain / "name").write_text("package-0")
    (domain / "energy_uj").write_text("1000000")
    meter = EnergyMeter(tmp_path)
    (domain / "energy_uj").write_text("13500000")
    found = cost_of(job(world_folder, "ESZSL"), {}, meter)
    assert found["joules_cpu"] == 12.5
    assert cost_of(job(world_folder, "ESZSL"), {}, None) == {}
