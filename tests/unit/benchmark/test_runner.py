"""Running plans in worker processes: resumed, killed and failing runs, and missing data."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.benchmark.draws import draw_split
from sightunseen.benchmark.jobs import base_identity_of, carry_out, data_of, identity_of, record_as_dict
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, job_id
from sightunseen.benchmark.plan import Plan, plan_of
from sightunseen.benchmark.runner import run_plan
from sightunseen.benchmark.store import Store
from sightunseen.benchmark.workers import outcomes
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ESZSL, ZeroShotClassifier
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.on_validation import choose_on_validation

pytestmark = pytest.mark.slow

FAST = {"name": "ESZSL", "search": {"feature_penalty": [1.0, 10.0]}}
BROKEN = {"name": "DEM", "settings": {"learning_rate": 1e30, "n_steps": 200, "hidden": 8}, "search": {}}


@pytest.fixture
def plan(world_folder: Path) -> Callable[..., Plan]:
    def make(*methods: dict[str, Any], **others: Any) -> Plan:
        return plan_of({"method": list(methods), "data": [{"path": "world"}], **others}, world_folder)

    return make


def test_finished_jobs_are_not_repeated(plan: Callable[..., Plan], tmp_path: Path) -> None:
    store, printed = Store(tmp_path / "results"), list[str]()
    assert run_plan(plan(FAST, seeds=2), store) == {DONE: 2, FAILED: 0, SKIPPED: 0}
    before = {path: path.stat().st_mtime_ns for path in store.jobs.iterdir()}
    assert run_plan(plan(FAST, seeds=3), store, tell=printed.append) == {DONE: 3, FAILED: 0, SKIPPED: 0}
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert len(list(store.jobs.iterdir())) == 3
    assert printed[0].startswith("2 of 3 jobs were finished in an earlier run")


def test_finished_jobs_get_the_names_of_the_plan(plan: Callable[..., Plan], tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    run_plan(plan(FAST, {"name": "SAE"}, seeds=2), store)
    before = {name: outcome.record for name, outcome in store.outcomes().items()}
    # A part of the plan: the other seed, and the method that it does not have, are of the same row and data set.
    run_plan(plan({**FAST, "label": "mine"}, data=[{"path": "world", "label": "my world"}]), store)
    found = store.outcomes()
    assert {name: outcome.record for name, outcome in found.items()} == before
    names = [(outcome.shown["data"], outcome.shown["label"], outcome.shown["seed"]) for outcome in found.values()]
    assert sorted(names) == [("my world", name, seed) for name in ("SAE", "mine") for seed in (0, 1)]


def test_two_equal_jobs_are_an_error_before_any_job(plan: Callable[..., Plan], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a job twice, as 'world, ESZSL, seed 0' and as 'world, again, seed 0'"):
        run_plan(plan(FAST, {**FAST, "label": "again"}), Store(tmp_path / "results"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_two_jobs_of_one_name_are_an_error_before_any_job(plan: Callable[..., Plan], tmp_path: Path) -> None:
    trained = {"name": "ALE", "settings": {"n_steps": 40}}
    with pytest.raises(SettingsError, match=re.escape("with the name 'world, ALE (full), seed 0'. Change the label")):
        run_plan(plan(trained, {**FAST, "label": "ALE (full)"}, budget=["quick", "full"]), Store(tmp_path / "results"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_failed_job_keeps_its_error_and_others_continue(plan: Callable[..., Plan], tmp_path: Path) -> None:
    store, printed = Store(tmp_path / "results"), list[str]()
    both = plan(BROKEN, FAST)
    assert run_plan(both, store) == {DONE: 1, FAILED: 1, SKIPPED: 0}
    failed = next(outcome for outcome in store.outcomes().values() if outcome.state == FAILED)
    assert "training diverged" in failed.reason
    assert run_plan(both, store, tell=printed.append) == {DONE: 1, FAILED: 1, SKIPPED: 0}
    assert "--retry" in printed[0]
    assert run_plan(both, store, retry=True, tell=printed.append) == {DONE: 1, FAILED: 1, SKIPPED: 0}
    assert printed[-1].startswith("[2/2] failed: world, DEM")


def test_invalid_hyperparameters_are_an_error_before_any_job(plan: Callable[..., Plan], tmp_path: Path) -> None:
    for settings, error in (
        ({"seen_penalty": "much"}, "seen_penalty must be a number"),
        ({"wings": 2}, "no hyperparameter 'wings'"),
    ):
        with pytest.raises(SettingsError, match=error):
            run_plan(plan({"name": "SAE", "settings": settings}, FAST), Store(tmp_path / "results"))
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsError, match="Lower --jobs"):
        run_plan(plan(FAST), Store(tmp_path / "results"), workers=10**9)


def test_job_with_a_damaged_outcome_is_run_again(plan: Callable[..., Plan], tmp_path: Path) -> None:
    store, printed = Store(tmp_path / "results"), list[str]()
    run_plan(plan(FAST, seeds=2), store)
    expected = {name: outcome.record["results"] for name, outcome in store.outcomes().items()}
    damaged, kept = sorted(store.jobs.iterdir())
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b'"wall_seconds": ', b'"wall_seconds": 1', 1))
    before = kept.stat().st_mtime_ns
    assert run_plan(plan(FAST, seeds=2), store, tell=printed.append) == {DONE: 2, FAILED: 0, SKIPPED: 0}
    assert printed[0].startswith(f"{damaged} is damaged (changed after it was written); its job is run again")
    assert printed[1].startswith("1 of 2 jobs were finished")
    assert {name: outcome.record["results"] for name, outcome in store.outcomes().items()} == expected
    assert kept.stat().st_mtime_ns == before
    assert [path.name for path in store.folder.iterdir()] == ["jobs"]


def test_record_that_is_not_finite_fails_only_its_job(
    plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Workers import sitecustomize when they start; it makes a result of SAE infinite.
    (tmp_path / "sitecustomize.py").write_text(
        "from dataclasses import replace\nfrom sightunseen.benchmark import jobs\nbefore = jobs.carry_out\n"
        "def carry_out(job, *others):\n"
        "    record = before(job, *others)\n"
        "    return replace(record, results={'T1': float('inf')}) if job.method.name == 'SAE' else record\n"
        "jobs.carry_out = carry_out\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    store = Store(tmp_path / "results")
    assert run_plan(plan({"name": "SAE"}, FAST), store) == {DONE: 1, FAILED: 1, SKIPPED: 0}
    assert any("not JSON compliant" in outcome.reason for outcome in store.outcomes().values())


def test_missing_data_are_skipped_and_attempted_again(plan: Callable[..., Plan], tmp_path: Path, world_folder: Path) -> None:
    store, elsewhere = Store(tmp_path / "results"), tmp_path / "elsewhere"
    content = {"method": [FAST], "data": [{"path": "world"}]}
    assert run_plan(plan_of(content, elsewhere), store) == {DONE: 0, FAILED: 0, SKIPPED: 1}
    (outcome,) = store.outcomes().values()
    assert "no file or folder" in outcome.reason
    elsewhere.symlink_to(world_folder)
    assert run_plan(plan_of(content, elsewhere), store) == {DONE: 1, FAILED: 0, SKIPPED: 0}
    assert [outcome.state for outcome in store.outcomes().values()] == [DONE]
    # Identical data in another folder are the same job.
    assert run_plan(plan(FAST), store) == {DONE: 1, FAILED: 0, SKIPPED: 0}
    assert len(store.outcomes()) == 1


def test_skipped_jobs_go_when_the_plan_is_mended(tmp_path: Path, world_folder: Path) -> None:
    store = Store(tmp_path / "results")
    wrong = {"method": [FAST], "data": [{"path": "wrld"}, {"path": "world", "semantics": "nonsense"}]}
    assert run_plan(plan_of(wrong, world_folder), store) == {DONE: 0, FAILED: 0, SKIPPED: 2}
    mended = {"method": [FAST], "data": [{"path": "world"}]}
    assert run_plan(plan_of(mended, world_folder), store) == {DONE: 1, FAILED: 0, SKIPPED: 0}
    assert [outcome.state for outcome in store.outcomes().values()] == [DONE]


def test_identity_depends_on_everything_that_changes_the_result(plan: Callable[..., Plan]) -> None:
    (job,) = plan(FAST).jobs()
    changed = [
        plan({**FAST, "settings": {"semantic_penalty": 0.5}}),
        plan({**FAST, "search": {"feature_penalty": [1.0]}}),
        plan(FAST, selection="oracle"),
        plan(FAST, folds=2),
        plan({**FAST, "name": "SAE", "search": {}}),
    ]
    identities = [json.dumps(identity_of(one.jobs()[0]), sort_keys=True) for one in (plan(FAST), *changed)]
    identities.append(json.dumps(identity_of(plan(FAST, seeds=2).jobs()[1]), sort_keys=True))
    assert len(set(identities)) == len(identities)
    named = plan({**FAST, "label": "another name"}).jobs()[0]
    assert identity_of(named) == identity_of(job)


def test_identity_has_the_draw_and_nothing_new_without_one(plan: Callable[..., Plan]) -> None:
    (job,) = plan(FAST).jobs()
    known = {"data", "method", "setting", "search", "adaptation", "selection", "seed"}
    assert set(identity_of(job)) == known  # earlier results stay valid
    drawn = [plan(FAST, seen_classes=[8], unequal=size).jobs()[0] for size in (2, 2.0, 3)]
    drawn += [plan(FAST, seen_classes=[seen]).jobs()[0] for seen in (9, "all")]
    found = [identity_of(one) for one in drawn]
    assert found[0] == found[1]
    assert len({job_id(one) for one in (identity_of(job), *found)}) == 5
    assert found[0].keys() - known == {"draw"}


@pytest.mark.parametrize("name", ["ESZSL", "DEM"])
def test_budgets_and_scalings_leave_the_identity_of_usual_jobs_unchanged(plan: Callable[..., Plan], name: str) -> None:
    (usual,) = plan({"name": name}).jobs()
    varied = plan({"name": name}, budget=["quick", "full"], feature_scaling=["own", "searched"]).jobs()
    found = [identity_of(job) for job in varied]
    assert found[0] == identity_of(usual)
    assert len({job_id(one) for one in found}) == len(found) == (2 if name == "ESZSL" else 4)


def test_gradient_trained_and_closed_form_jobs_run_side_by_side(plan: Callable[..., Plan], tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    trained = {"name": "DEM", "settings": {"hidden": 8, "n_steps": 100, "device": "cpu"}, "search": {}}
    with_gpu = partial(outcomes, 2, gpu=True)
    assert run_plan(plan(FAST, trained, seeds=2), store, 2, execute=with_gpu) == {DONE: 4, FAILED: 0, SKIPPED: 0}


def test_methods_have_the_same_draw(plan: Callable[..., Plan]) -> None:
    jobs = plan(FAST, {"name": "SAE", "search": {}}, seeds=2, seen_classes=[6], unequal=3).jobs()
    by_seed = [[data_of(job) for job in jobs if job.seed == seed] for seed in (0, 1)]
    for first, second in by_seed:
        for name in ("train_rows", "test_seen_rows", "test_unseen_rows"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert by_seed[0][0].train_rows.tolist() != by_seed[1][0].train_rows.tolist()


def test_job_on_a_draw_records_it_and_fits_the_drawn_classes(plan: Callable[..., Plan], small_world: ZeroShotDataset) -> None:
    (job,) = plan(FAST, seen_classes=[6], unequal=3).jobs()
    record = carry_out(job)
    assert record.data["classes"] == {"seen": 6, "unseen": 5}
    assert record.data["options"].items() >= {"seen_classes": "6", "draw": "0", "unequal": "3"}.items()
    drawn, model = draw_split(small_world, 6, 0, 3), ESZSL()
    (choice,) = choose_on_validation([model], drawn, FAST["search"], seed=0)
    model.set_params(**choice.parameters).fit(drawn.train.X, drawn.train.y, drawn.classes)
    summary = evaluate(model, drawn).summary()
    assert {name: record.results[name] for name in summary} == summary


def test_draws_resume_and_impossible_ones_are_skipped(plan: Callable[..., Plan], tmp_path: Path) -> None:
    store, printed = Store(tmp_path / "results"), list[str]()
    assert run_plan(plan(FAST, seen_classes=[6, 15], unequal=3), store, tell=printed.append) == {DONE: 1, FAILED: 0, SKIPPED: 1}
    assert printed[0].startswith("skipped: all jobs on world, 15 seen classes, class sizes 1:3: 15 seen classes leave 1 of")
    assert printed[1].startswith("[1/1] world, 6 seen classes, class sizes 1:3, ESZSL, seed 0: T1")
    printed.clear()
    more = plan(FAST, seen_classes=[6, "all"], unequal=3, seeds=2)
    assert run_plan(more, store, tell=printed.append) == {DONE: 4, FAILED: 0, SKIPPED: 0}
    assert printed[0].startswith("1 of 4 jobs were finished in an earlier run")
    draws = [outcome.draw for outcome in store.outcomes().values() if outcome.state == DONE]
    assert sorted(str(draw.seen) for draw in draws if draw) == ["6", "6", "all", "all"]


def test_job_gives_the_results_of_the_python_api(plan: Callable[..., Plan], small_world: ZeroShotDataset) -> None:
    (job,) = plan(FAST).jobs()
    record = carry_out(job)
    model = ESZSL()
    (choice,) = choose_on_validation([model], small_world, FAST["search"], seed=0)
    model.set_params(**choice.parameters)
    model.fit(small_world.train.X, small_world.train.y, small_world.classes)
    summary = evaluate(model, small_world).summary()
    assert {name: record.results[name] for name in summary} == summary
    plain = evaluate(model.set_params(seen_penalty=0.0), small_world).summary()
    assert {name: record.results[f"{name}_plain"] for name in ("U", "S", "H")} == {n: plain[n] for n in ("U", "S", "H")}


def test_oracle_selection_is_recorded(plan: Callable[..., Plan]) -> None:
    (job,) = plan(FAST, selection="oracle").jobs()
    record = carry_out(job)
    assert record.protocol == "paper"
    assert "TEST" in record.selection["by"]


def test_transductive_job_adapts(plan: Callable[..., Plan]) -> None:
    quick = {"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "device": "cpu"}
    adaptation = {"rounds": 2, "steps_per_round": 10}
    inductive, transductive = (
        carry_out(plan({"name": name, "settings": quick, "search": {}, **others}).jobs()[0])
        for name, others in (("CVC", {}), ("CVC-tran-XE", {"adaptation": adaptation, "adaptation_search": {}}))
    )
    used = transductive.settings["adaptation"]
    assert {name: used[name] for name in ("loss", *adaptation)} == {"loss": "xe", **adaptation}
    assert transductive.parent["selection"] == inductive.selection
    assert transductive.parent["results"] == inductive.results
    assert transductive.results != inductive.results


def test_selection_of_the_inductive_job_is_reused(plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"settings": {"hidden": 32, "n_steps": 100, "learning_rate": 1e-2, "device": "cpu"}}
    search = {"search": {"initial_scale": [5.0, 20.0]}}
    adaptation = {"adaptation": {"rounds": 2, "steps_per_round": 10}, "adaptation_search": {}}
    first = plan({"name": "CVC", **quick, **search}).jobs()[0]
    second = plan({"name": "CVC-tran-GXE", **quick, **search, **adaptation}).jobs()[0]
    assert base_identity_of(identity_of(second)) == identity_of(first)
    assert base_identity_of(identity_of(first)) is None
    base, whole = record_as_dict(carry_out(first)), carry_out(second)
    monkeypatch.setattr("sightunseen.pipeline.run.choose_on_validation", None)
    begun = carry_out(second, base)
    assert (begun.results, begun.settings, begun.selection) == (whole.results, whole.settings, whole.selection)


def test_killed_run_loses_only_running_jobs(world_folder: Path, tmp_path: Path) -> None:
    """SIGKILL after the first outcome; the second run repeats no finished job, and no worker is left running."""
    content = 'seeds = 4\n[[method]]\nname = "ESZSL"\nsearch = { feature_penalty = [1.0, 10.0] }\n[[data]]\npath = "world"\n'
    (tmp_path / "plan.toml").write_text(content)
    command = [sys.executable, "-m", "sightunseen", "benchmark", "run", str(tmp_path / "plan.toml")]
    command += ["--data", str(world_folder), "--out", str(tmp_path / "results"), "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as first:
        assert first.stderr is not None
        assert first.stderr.readline().startswith("[1/4]")
        first.kill()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "results" / "jobs").glob("[!.]*.json")}
    assert 1 <= len(done) < 4
    deadline = time.monotonic() + 30
    while _alive(first.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(first.pid)
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "4 done, 0 failed, 0 skipped" in second.stdout
    assert second.stderr.count("ESZSL, seed") == 4 - len(done)
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_dead_worker_fails_only_its_job(plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers import sitecustomize when they start; it replaces SAE.fit by a function that kills the process.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\nfrom sightunseen.methods import SAE\n"
        "SAE.fit = lambda self, *arguments, **others: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    store = Store(tmp_path / "results")
    counts = run_plan(plan({"name": "SAE"}, FAST), store)
    assert counts == {DONE: 1, FAILED: 1, SKIPPED: 0}
    failed = next(outcome for outcome in store.outcomes().values() if outcome.state == FAILED)
    assert "worker exited with code -9 (possibly out of memory)" in failed.reason


def test_ctrl_c_stops_and_tells_how_to_resume(world_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        'seeds = 50\n[[method]]\nname = "CVC"\nsettings = { n_steps = 200, hidden = 16 }\n[[data]]\npath = "world"\n'
    )
    command = [sys.executable, "-m", "sightunseen", "benchmark", "run", str(tmp_path / "plan.toml")]
    command += ["--data", str(world_folder), "--out", str(tmp_path / "results")]
    options: dict[str, Any] = {"text": True, "start_new_session": True, "preexec_fn": _enable_ctrl_c}
    with subprocess.Popen(command, stderr=subprocess.PIPE, **options) as run:
        assert run.stderr is not None
        run.stderr.readline()
        os.killpg(run.pid, signal.SIGINT)
        _, printed = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "The same command resumes" in printed
    assert "Traceback" not in printed


def _enable_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_catalogued_methods_have_estimators() -> None:
    from sightunseen.methods import METHODS, AdaptableClassifier
    from sightunseen.methods.catalogue import CARDS

    assert {card.estimator for card in CARDS.values()} == set(METHODS)
    for name, card in CARDS.items():
        kind = METHODS[card.estimator]
        assert issubclass(kind, ZeroShotClassifier)
        if card.setting == "transductive":
            assert issubclass(kind, AdaptableClassifier), name
        assert card.quick == (kind.quick and card.setting == "inductive" and not card.ablation), name


def test_search_spaces_have_hyperparameters_of_their_methods() -> None:
    from sightunseen.methods import METHODS

    for name, kind in METHODS.items():
        assert set(kind.search_space) <= set(kind().get_params()), name
        assert all(len(values) > 0 for values in kind.search_space.values())
