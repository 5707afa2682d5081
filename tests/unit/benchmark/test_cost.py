"""Cost of jobs: floating-point operations of gradient training against their closed form, and energy of jobs that run alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sightunseen.benchmark.attempts import PendingJob, attempt
from sightunseen.benchmark.cost import all_steps, cost_of, training_flops
from sightunseen.benchmark.jobs import identity_of
from sightunseen.benchmark.plan import plan_of
from sightunseen.benchmark.variants import Job
from sightunseen.core.energy import EnergyMeter
from sightunseen.methods import DEM
from sightunseen.training import Run

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


def test_job_is_done_if_its_operations_cannot_be_counted(world_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = job(world_folder, "DEM", settings={**SMALL, "hidden": 8})
    one = replace(one, selection="none")
    fitting, calls = DEM.fitting, []

    def failing(model: DEM, *images: Any, **options: Any) -> Run:
        calls.append(model)
        if len(calls) > 1:  # the first is the training of the job
            raise RuntimeError("out of memory")
        return fitting(model, *images, **options)

    monkeypatch.setattr(DEM, "fitting", failing)
    outcome = attempt(PendingJob(one, identity_of(one)))
    assert (outcome.state, outcome.reason, outcome.cost, len(calls)) == ("done", "", {}, 2)
    assert outcome.record["results"]["T1"] > 0


def test_flops_count_the_steps_of_every_fold() -> None:
    point = {"steps": 600}  # one of two folds ended after 600 of 1000 steps
    selection = {"folds": [{}, {}], "tried": [{"points": [point], "steps": 1600}], "chosen": {"steps": 600}}
    assert all_steps(selection, 1000) == 2200
    assert all_steps({"tried": [{"points": [point]}], "chosen": {"steps": 300}}, 1000) == 600  # selected on test data
    assert all_steps({}, 1000) == 1000


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
