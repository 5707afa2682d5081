"""The plan ``paper-tables``: the methods of Tables 3 and 4 at the presets of the paper."""

from sightunseen.benchmark.jobs import specifications_of
from sightunseen.benchmark.paper_layout import OURS
from sightunseen.benchmark.plan import read_plan
from sightunseen.benchmark.published import published
from sightunseen.benchmark.variants import Job
from sightunseen.methods.presets import preset

PRESETS = {"SUN": "paper-sun", "CUB": "paper-cub", "AWA1": "paper-awa1", "AWA2": "paper-awa2", "APY": "paper-apy"}


def jobs() -> list[Job]:
    return [job for job in read_plan("paper-tables", "xlsa17/data").jobs() if job.seed == 0]


def test_plan_has_the_methods_of_both_tables() -> None:
    paper = {row.method for row in published() if row.origin.table in ("Table 3", "Table 4")}
    assert {job.method.name for job in jobs()} == paper


def test_cvc_has_the_preset_of_each_data_set() -> None:
    found = {job.data.name: specifications_of(job)[0] for job in jobs() if job.method.name == "CVC"}
    assert {name: dict(one.parameters) for name, one in found.items()} == {
        name: dict(preset(of).settings) for name, of in PRESETS.items()
    }
    assert all(not one.grid for one in found.values())  # only stopping point and seen penalty are chosen
    assert {job.data.semantics for job in jobs() if job.method.name in OURS} == {"original_att"}


def test_other_trained_methods_have_the_full_budget() -> None:
    budgets = {job.method.name: job.budget for job in jobs() if job.trained and job.method.name not in OURS}
    assert set(budgets.values()) == {"full"}, budgets


def test_rules_of_the_confident_set_are_crossed_with_the_losses() -> None:
    found = {
        job.method.shown: specifications_of(job)[1]
        for job in jobs()
        if job.method.name.startswith("CVC-tran") and job.data.name == "CUB"
    }
    rules = {
        (one.parameters["loss"], one.parameters["peakiness"], one.parameters["best_per_class"])
        for one in found.values()
        if one is not None
    }
    assert rules == {
        (loss, peakiness, best)
        for loss in ("xe", "gxe")
        for peakiness, best in (("probability", 0), ("score", 0), ("probability", 5), ("magnitude", 5))
    }
    for one in found.values():
        assert one is not None
        assert (one.parameters["rounds"], one.parameters["steps_per_round"], one.parameters["threshold"]) == (50, 10_000, 1.2)
        assert one.parameters.get("concatenated", False) == (one.parameters["best_per_class"] > 0)
