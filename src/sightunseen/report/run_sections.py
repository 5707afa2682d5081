"""Sections about how a model came about: whether to trust it, how it was trained, and the record of all that."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightunseen.analysis.reruns import Reruns
from sightunseen.core.records import RunRecord
from sightunseen.data.doctor import FAIL, PASS, WARN, Finding
from sightunseen.methods import ZeroShotClassifier
from sightunseen.report.curve_figures import self_training_figure, training_figure
from sightunseen.report.page import Block, DataTable, Note, Section, Verbatim

HOW = {
    "honest": "Everything was chosen on validation classes (protocol honest); the test images took no part in choosing.",
    "paper": "The number of tasks was chosen on the TEST images, as the paper's authors did (protocol paper): "
    "the results are better than a user of this model can expect.",
}
MET = (
    "The model was adapted to unlabelled images of its unseen classes. Where they are the images it is measured on, results "
    "say how well it tells these images, whose labels it has not seen; for new images, hold some out (adapt --hold-out)."
)


def trust_section(model: ZeroShotClassifier, findings: Sequence[Finding] = (), alike: float | None = None) -> Section:
    """What speaks for and against the results; ``alike`` is the share of answers that a repeated training gives again."""
    record = model.record_
    blocks: list[Block] = []
    if record is None:
        blocks.append(Note("The model has no run record: how it was trained and chosen is not known.", WARN))
    else:
        blocks.append(Note(HOW.get(record.protocol, record.protocol), PASS if record.protocol == "honest" else WARN))
        if record.kind == "adapt":
            blocks.append(Note(MET, PASS))
    if alike is not None:
        again = (
            f"Trained again from its settings and seed, the model gives the same answer to {100 * alike:.1f}% of the images."
        )
        if alike < 1:
            again += " Another machine, number of threads or version rounds differently, and training makes much of little."
        blocks.append(Note(again, PASS if alike == 1 else WARN))
    levels = (FAIL, WARN, PASS)
    ordered = sorted(findings, key=lambda finding: levels.index(finding.level))
    if ordered:
        columns = {
            "level": [finding.level for finding in ordered],
            "check": [finding.check for finding in ordered],
            "finding": [f"{finding.what}{' (repaired)' if finding.repaired else ''}" for finding in ordered],
            "what to do": ["" if finding.level == PASS else finding.remedy for finding in ordered],
        }
        passed = all(finding.level == PASS for finding in findings)
        see = "What the split doctor says about the data; a FAIL that is not repaired makes results meaningless."
        blocks.append(
            DataTable("findings", f"The split doctor's findings{': all PASS' if passed else ''}", see, columns, folded=passed)
        )
    if record is not None and record.seeds:
        blocks.append(_seeds(record.seeds))
    return Section("trust", "Can it be trusted?", blocks)


def training_section(model: ZeroShotClassifier, reruns: Reruns) -> Section:
    """Curves of training and of self-training."""
    blocks: list[Block] = []
    record = model.record_
    trained = record if record is None or record.parent is None else RunRecord(**record.parent)
    if trained is not None:
        blocks += _choosing(trained.selection)
    if reruns.training is not None:
        see = (
            "The same training once more, measured on the test images along the way (the appendix figure of the paper). "
            "Nothing was chosen by it."
        )
        blocks.append(training_figure("training-curve", "Training, seen from the test images", see, reruns.training.curve))
    if reruns.adaptation is not None and _has_rounds(reruns.adaptation.curve):
        blocks.append(self_training_figure(reruns.adaptation.curve))
    elif record is not None and record.kind == "adapt" and _has_rounds(record.history):
        blocks.append(self_training_figure(record.history))
    return Section("training", "Training", blocks)


def record_section(model: ZeroShotClassifier) -> Section:
    """The run record: the settings as a table, everything else as it is."""
    record = model.record_
    settings = model.get_params() if record is None else dict(record.settings)
    columns = {"setting": list(settings), "value": [str(value) for value in settings.values()]}
    see = "With these settings, the data's fingerprints and the seed, anyone can make this model again."
    blocks: list[Block] = [DataTable("settings", "Settings", see, columns, folded=True)]
    if record is not None:
        blocks.append(Verbatim("The run record, whole (JSON)", record.to_json()))
    return Section("record", "Run record", blocks)


def _choosing(selection: Mapping[str, Any]) -> list[Block]:
    """How the settings were chosen: the curve of the chosen ones on validation classes, and all that were tried."""
    tried = selection.get("tried", ())
    if "folds" not in selection:  # chosen on test data, or not at all
        return []
    chosen = selection["chosen"]
    best = next(entry for entry in tried if all(chosen.get(name) == value for name, value in entry["settings"].items()))
    blocks: list[Block] = []
    if len(best["points"]) > 1:
        see = (
            f"Measured on validation classes while training without them; dashed, the number of tasks that was chosen "
            f"({chosen.get('steps'):,}), by H at its best penalty on seen classes."
        )
        title = "Training, seen from the validation classes"
        blocks.append(training_figure("validation-curve", title, see, best["points"], chosen.get("steps")))
    if len(tried) > 1:
        numbers = ("T1", "U", "S", "H", "H_at_best_penalty", "AUSUC")
        tops = [max(entry["points"], key=lambda point: point["H_at_best_penalty"]) for entry in tried]
        columns: dict[str, list[Any]] = {
            "settings": [", ".join(f"{name} {value}" for name, value in entry["settings"].items()) for entry in tried],
            "chosen": ["yes" if entry is best else "" for entry in tried],
            **{name.replace("_", " "): [f"{top[name]:.1f}" for top in tops] for name in numbers if name in tops[0]},
        }
        blocks.append(DataTable("tried", "Settings tried on validation classes", "Percent; test images took no part.", columns))
    return blocks


def _has_rounds(history: Sequence[Any]) -> bool:
    """Whether a method's history is of rounds of self-training; that of GFZSL is another."""
    return bool(history) and isinstance(history[-1], Mapping)


def _seeds(seeds: Mapping[str, Any]) -> DataTable:
    names = list(seeds["mean"])
    rows = [*seeds["results"], seeds["mean"], seeds["std"]]
    columns = {
        "seed": [*map(str, seeds["seeds"]), "mean", "± std"],
        **{name: [f"{row[name]:.1f}" for row in rows] for name in names},
    }
    see = "The same training with other random numbers: differences smaller than the standard deviation mean nothing."
    return DataTable("seeds", "Seeds", see, columns)
