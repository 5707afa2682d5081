"""The verdict: sentences that agree with counts of the predictions."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL, Foresight
from sightunseen.pipeline import AdaptationSpecification, TrainingSpecification, adapt, train
from sightunseen.selection.evaluation import Evaluation, evaluate
from sightunseen.selection.verdict import confusions, verdict

UNSEEN = ["sheep", "horse", "sea_lion", "okapi"]
SEEN = ["cat", "dog"]


def made(counts: dict[tuple[str, str], int], seen_right: int = 0, seen_wrong: int = 0) -> Evaluation:
    """Evaluation of a model with these numbers of predictions by true and predicted class, and images of seen classes."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    pairs += [("cat", "cat")] * seen_right + [("cat", "dog")] * seen_wrong
    truth, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    labels = SEEN + UNSEEN
    model = ESZSL(feature_scaling="none").fit(np.eye(6)[[0, 1]], SEEN, ClassTable(labels, np.eye(6)))
    result = evaluate(model, np.eye(6)[[labels.index(label) for label in predicted]], truth)
    return replace(result, scored=replace(result.scored, predicted=predicted), among_unseen=predicted[: sum(counts.values())])


def test_verdict_of_unseen_classes_counts_images() -> None:
    pairs = {("sheep", "horse"): 18, ("sheep", "sheep"): 12, ("horse", "horse"): 29, ("horse", "sheep"): 1}
    first, second, *_ = verdict(made({**pairs, ("sea_lion", "sea_lion"): 30}), {}, "photos")
    assert re.fullmatch(r"71 of 90 photos of unseen classes right \(79%, 95% interval \d+-\d+; guessing: 25%\)\.", first)
    assert second == "Photos of sheep are mostly taken for horse (18 of 30)."


def test_names_of_classes_are_readable_and_images_are_called_images() -> None:
    found = verdict(made({("sea_lion", "horse"): 4, ("sea_lion", "sea_lion"): 8, ("okapi", "okapi"): 5}), {})
    assert found[0].startswith("13 of 17 images of unseen classes right (76%")
    assert found[1] == "Images of sea lion are often taken for horse (4 of 12)."


def test_long_and_unprintable_names_are_shortened() -> None:
    result = made({("sheep", "horse"): 5})
    scored = replace(
        result.scored, truth=np.array(["\x1b[31m" + "a" * 200] * 5), candidates=np.array([*UNSEEN, "\x1b[31m" + "a" * 200])
    )
    found = verdict(replace(result, scored=scored), {})
    assert max(map(len, found)) < 200
    assert all(sentence.isprintable() for sentence in found)


def test_rare_confusions_are_not_named() -> None:
    assert confusions(np.array(["sheep"] * 3), np.array(["horse", "horse", "sheep"])) == []
    assert confusions(np.array(["sheep"] * 100), np.array(["horse"] * 20 + ["sheep"] * 80)) == []
    assert confusions(np.array(["sheep"]), np.array(["sheep"])) == []


def test_confusions_are_sorted_and_one_per_class() -> None:
    truth = np.array(["okapi"] * 10 + ["sheep"] * 20)
    predicted = np.array(["cow"] * 5 + ["horse"] * 4 + ["okapi"] + ["horse"] * 6 + ["cow"] * 9 + ["sheep"] * 5)
    assert confusions(truth, predicted) == [("sheep", "cow", 9, 20), ("okapi", "cow", 5, 10)]


def test_all_classes_together_and_how_many_are_taken_for_seen_ones() -> None:
    counts = {("sheep", "cat"): 6, ("sheep", "sheep"): 4, ("horse", "horse"): 10}
    found = verdict(made(counts, seen_right=9, seen_wrong=1), {}, "photos")
    sentence = next(one for one in found if one.startswith("Among all"))
    assert re.fullmatch(
        r"Among all 6 classes, the 2 with training photos included: 14 of 20 photos of unseen classes right \(70%, 95% "
        r"interval \d+-\d+\) and 9 of 10 photos of seen classes right \(90%, 95% interval \d+-\d+\); guessing: 17%\.",
        sentence,
    )
    assert found[-2:] == (
        "6 of 20 photos of unseen classes are taken for a seen class.",
        "Photos of sheep are mostly taken for cat (6 of 10), which has training photos.",
    )


def test_guessing_is_called_guessing() -> None:
    result = made({(one, other): 5 for one in UNSEEN for other in UNSEEN})
    assert "This may be no better than guessing." in verdict(result, {})
    assert not any("guessing." in one for one in verdict(made({(one, one): 20 for one in UNSEEN}), {}))


def test_without_test_images_the_estimate_on_validation_classes_is_given() -> None:
    folds = [{"validation_classes": 4}, {"validation_classes": 4}]
    selection: dict[str, Any] = {"validation": {"T1": 61.0, "T1_of_folds": [52.0, 70.0]}, "folds": folds}
    (sentence,) = verdict(None, selection, "photos")
    assert sentence == (
        "There are no test photos of unseen classes. In 2 rehearsals, each with 4 of the seen classes left out of training, "
        "61% of their photos were right, 52 to 70% in single rehearsals (guessing: 25%). This is an estimate of what to expect "
        "for unseen classes."
    )
    (unknown,) = verdict(None, {"by": "no selection"}, "photos")
    assert "it is not known how well" in unknown


def test_training_without_test_images_and_with_those_of_seen_classes_only(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    none = np.array([], dtype=np.intp)
    no_unseen = replace(small_world, test_unseen_rows=none)
    untested = replace(no_unseen, test_seen_rows=none)
    specification = TrainingSpecification(method=ESZSL, search={})
    first, second = (train(specification, data, tmp_path).record_ for data in (untested, no_unseen))
    assert first is not None
    assert second is not None
    assert first.verdict[0].startswith("There are no test images of unseen classes.")
    assert (len(first.verdict), dict(first.results), dict(first.intervals)) == (1, {}, {})
    assert second.verdict[0] == first.verdict[0]
    assert "images of seen classes right" in second.verdict[1]
    assert set(second.intervals) == {"S"}


def test_verdict_of_an_adaptation_tells_how_many_were_right_before(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    model = train(TrainingSpecification(method=Foresight, select="none"), small_world, tmp_path)
    adapted = adapt(AdaptationSpecification(select="none"), model, small_world, tmp_path)
    assert model.record_ is not None
    assert adapted.record_ is not None
    before = int((model.predict(small_world.test_unseen.X, "unseen") == small_world.test_unseen.y).sum())
    after = int((adapted.predict(small_world.test_unseen.X, "unseen") == small_world.test_unseen.y).sum())
    n = len(small_world.test_unseen)
    assert model.record_.verdict[0].startswith(f"{before} of {n} images of unseen classes right (")
    assert adapted.record_.verdict[0].startswith(f"{after} of {n} images of unseen classes right (")
    assert adapted.record_.verdict[0].endswith(f"was {before} before adapting).")
    assert adapted.record_.compared["before"] == model.record_.results


def test_oracle_is_called_too_good_and_seeds_have_a_range(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    oracle = train(TrainingSpecification(method=ESZSL, search={}, protocol="paper"), small_world, tmp_path).record_
    assert oracle is not None
    assert oracle.verdict[-1] == "Hyperparameters were chosen on these same test images, so these numbers are too good."
    seeds = train(TrainingSpecification(method=ESZSL, search={}, n_seeds=2), small_world, tmp_path).record_
    assert seeds is not None
    assert re.match(r"Trained with 2 seeds, the models get \d+ to \d+% right per unseen class", seeds.verdict[-1])
