"""Sections on the origin of a model: evidence for its results, training curves, run record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sightunseen.analysis.reruns import Reruns
from sightunseen.core.records import RunRecord
from sightunseen.data.doctor import FAIL, PASS, WARN, Finding
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.curve_figures import self_training_figure, training_figure
from sightunseen.report.figures import DEFINITIONS, columns_of
from sightunseen.report.page import Block, DataTable, Note, Section, Verbatim
from sightunseen.selection import auto

PROTOCOLS = {
    "honest": "Hyperparameters were selected on validation classes (protocol honest); test images were not used for selection.",
    "paper": "The number of steps was selected on the TEST images, as in the paper's code (protocol paper): "
    "the results are better than can be expected on new images.",
}
ADAPTED = (
    "The model was adapted to unlabelled images of its unseen classes. If these are also the test images, the results are "
    "transductive: they hold for these images. To estimate the accuracy on new images, hold some out (adapt --hold-out)."
)


def trust_section(model: ZeroShotClassifier, findings: Sequence[Finding] = (), agreement: float | None = None) -> Section:
    """Collect the evidence for and against the results of a model.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    findings : sequence of Finding, default=()
        Findings of the split doctor on the data.
    agreement : float, default=None
        Share of test images for which the model and a repeated training predict the same class.

    Returns
    -------
    Section
        Notes, findings and the results of other seeds.
    """
    record = model.record_
    blocks: list[Block] = []
    if record is None:
        blocks.append(Note("The model has no run record: its training and selection protocol are unknown.", WARN))
    else:
        blocks.append(Note(PROTOCOLS.get(record.protocol, record.protocol), PASS if record.protocol == "honest" else WARN))
        if record.kind == "adapt":
            blocks.append(Note(ADAPTED, PASS))
    if agreement is not None:
        text = (
            "Trained again with the same hyperparameters and seed, the model predicts the same class for "
            f"{100 * agreement:.1f}% of the test images."
        )
        if agreement < 1:
            text += (
                " Rounding differs between machines, numbers of threads and versions, and training amplifies the difference."
            )
        blocks.append(Note(text, PASS if agreement == 1 else WARN))
    if record is not None:
        blocks += _readable("comparison of validation and test", lambda: _agreement(record.compared))
    ordered = sorted(findings, key=lambda finding: (FAIL, WARN, PASS).index(finding.level))
    if ordered:
        rows = [
            (one.level, one.check, one.what + " (repaired)" * one.repaired, "" if one.level == PASS else one.remedy)
            for one in ordered
        ]
        columns = columns_of(("level", "check", "finding", "what to do"), rows)
        passed = ordered[0].level == PASS
        title = f"Findings of the split doctor{': all PASS' if passed else ''}"
        caption = "Checks of the data and their splits. Results are not valid if a check with FAIL is not repaired."
        blocks.append(DataTable("findings", title, caption, columns, folded=passed))
    if record is not None and record.seeds:
        blocks += _readable("results of the seeds", lambda: [_seeds(record.seeds)])
    return Section("trust", "Can it be trusted?", blocks)


def training_section(model: ZeroShotClassifier, reruns: Reruns) -> Section:
    """Draw the training curves of a model and its self-training.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    reruns : Reruns
        Its repeated training and adaptation.

    Returns
    -------
    Section
        Curves and the table of hyperparameters tried; empty if there are none.
    """
    blocks: list[Block] = []
    record = model.record_
    trained = record if record is None or record.parent is None else RunRecord.of(record.parent)
    if trained is not None:
        blocks += _readable("comparison of methods", lambda: _methods(trained.selection))
        blocks += _readable("selection", lambda: _selection(trained.selection))
    if reruns.training is not None:
        caption = (
            "Loss and accuracies on the test images by number of gradient steps, from a repetition of the training (as in the "
            "paper's appendix). Nothing was selected by it."
        )
        blocks.append(training_figure("training-curve", "Training curve on test images", caption, reruns.training.curve))
    if reruns.adaptation is not None and _has_rounds(reruns.adaptation.curve):
        blocks.append(self_training_figure(reruns.adaptation.curve))
    elif record is not None and record.kind == "adapt" and _has_rounds(record.history):
        blocks += _readable("history", lambda: [self_training_figure(record.history)])
    return Section("training", "Training", blocks)


def record_section(model: ZeroShotClassifier) -> Section:
    """Show the hyperparameters of a model as a table, and its run record as JSON.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.

    Returns
    -------
    Section
        Table and, if the model has one, run record.
    """
    record = model.record_
    settings = model.get_params() if record is None else dict(record.settings)
    columns = {"hyperparameter": list(settings), "value": [str(value) for value in settings.values()]}
    caption = "With these hyperparameters, the same data (see the fingerprints) and the same seed, the model can be reproduced."
    blocks: list[Block] = [DataTable("settings", "Hyperparameters", caption, columns, folded=True)]
    if record is not None:
        blocks.append(Verbatim("Complete run record (JSON)", record.to_json()))
    return Section("record", "Run record", blocks)


def _readable(what: str, build: Callable[[], list[Block]]) -> list[Block]:
    """Build blocks from a part of a run record; a warning if the part does not have the form that runs write."""
    try:
        return build()
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        return [Note(f"The {what} in the run record cannot be shown: the record was changed.", WARN)]


def _agreement(compared: Mapping[str, Any]) -> list[Block]:
    """Whether T1 on the test images is what validation classes promised."""
    found = compared.get("validation_and_test")
    if not found:
        return []
    text = (
        f"T1 of the training run was {found['found_T1']:.1f} on its test images; validation classes promised "
        f"{found['expected_T1']:.1f}, and a difference of {found['allowed_difference']:.1f} can be due to chance."
    )
    return [Note(text, WARN if found["differs"] else PASS)]


def _methods(selection: Mapping[str, Any]) -> list[Block]:
    """Comparison of methods, if the method was chosen automatically."""
    comparison = selection.get("methods")
    if comparison is None:
        return []
    left_out = "".join(f" {name} was left out: {reason}" for name, reason in comparison["left_out"].items())
    columns = {
        name: ["" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value) for value in values]
        for name, values in auto.columns_of(comparison).items()
    }
    chosen = [k for k, name in enumerate(columns["method"]) if name == comparison.get("chosen")]
    caption = (
        f"Means over {comparison['folds']} class folds of the seen classes in percent, with standard errors (s.e.); test "
        "images were not used. Each method has its own selected hyperparameters, and H is at its best seen-class bias."
    )
    return [
        Note(comparison["why"] + left_out, WARN if left_out else PASS),
        DataTable("methods", "Methods compared on validation classes", caption, columns, highlighted=chosen),
    ]


def _selection(selection: Mapping[str, Any]) -> list[Block]:
    """Validation curve of the selected hyperparameters, and a table of all that were tried."""
    tried = selection.get("tried", ())
    if "folds" not in selection:  # selected on test data, or not at all
        return []
    chosen = selection["chosen"]
    best = next(entry for entry in tried if all(chosen.get(name) == value for name, value in entry["settings"].items()))
    blocks: list[Block] = []
    if len(best["points"]) > 1:
        caption = (
            "Loss and accuracies on validation classes, which stand in for unseen classes and are not trained on. The dashed "
            f"line is the selected number of steps ({chosen.get('steps'):,}): that with the highest H at its best bias."
        )
        title = "Training curve on validation classes"
        blocks.append(training_figure("validation-curve", title, caption, best["points"], chosen.get("steps")))
    if len(tried) > 1:
        metrics = ("T1", "U", "S", "H", "H_at_best_penalty", "AUSUC")
        by = selection.get("by", "H").split(" on ")[0]
        tried = sorted(tried, key=lambda entry: (entry is not best, -_criterion(_top(entry), by)))
        tops = [_top(entry) for entry in tried]
        columns: dict[str, list[Any]] = {
            "hyperparameters": [", ".join(f"{name} {value}" for name, value in entry["settings"].items()) for entry in tried],
            "selected": ["yes" if entry is best else "" for entry in tried],
            **{name.replace("_", " "): [f"{top[name]:.1f}" for top in tops] for name in metrics if name in tops[0]},
        }
        caption = (
            f"Results on validation classes in percent; test images were not used. Hyperparameters are selected by {by} at "
            "best penalty, that is, H with the seen-class bias (calibrated stacking) that maximises it. "
            "The selected ones are in the first row."
        )
        title = "Hyperparameters tried on validation classes"
        blocks.append(DataTable("tried", title, caption, columns, highlighted=(0,)))
    return blocks


def _top(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The best point of a combination of hyperparameters."""
    point: Mapping[str, Any] = max(entry["points"], key=lambda point: point["H_at_best_penalty"])
    return point


def _criterion(point: Mapping[str, Any], by: str) -> float:
    return float(point["H_at_best_penalty"] + (point["T1"] if "T1" in by else 0.0))


def _has_rounds(history: Sequence[Any]) -> bool:
    """Whether a history has one mapping per round of self-training; that of GFZSL is a list of objective values."""
    return bool(history) and isinstance(history[-1], Mapping)


def _seeds(seeds: Mapping[str, Any]) -> DataTable:
    rows = [*seeds["results"], seeds["mean"], seeds["std"]]
    columns = {
        "seed": [*map(str, seeds["seeds"]), "mean", "± std"],
        **{name: [f"{row[name]:.1f}" for row in rows] for name in seeds["mean"]},
    }
    caption = (
        "Test results of the same training with several random seeds; smaller differences than the standard deviation "
        f"are within random variation. {DEFINITIONS}"
    )
    return DataTable("seeds", "Seeds", caption, columns)
