"""How far answers can be trusted on test data: confidence before and after calibration, and "none of these".

    sightunseen train DATA [--features NAME] --out MODEL
    python benchmarks/calibration.py MODEL DATA [--features NAME]

What the model chose on validation classes is measured on test images. For "none of these" every other unseen class is left out
of the candidates, then the others; AUROC, the mean of the parts put right, and the part of the images of classes still there
that keep a class, every class counting the same. In percent.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from sightunseen import evaluate, load_model
from sightunseen.cli._arguments import add_data_arguments
from sightunseen.cli._data import open_source
from sightunseen.core.calibration import class_weights, probabilities
from sightunseen.core.reliability import reliability


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    add_data_arguments(parser)
    args = parser.parse_args()
    model = load_model(args.model)
    chosen = model.calibration_
    if chosen is None or chosen.none_below is None:
        raise SystemExit(f"{args.model} is not calibrated. Train it again, with settings chosen on validation classes.")
    data = open_source(args, model.table_.use, model)
    result = evaluate(model, data)
    scores, truth, candidates = result.scored.scores, result.scored.truth, result.scored.candidates
    right = candidates[scores.argmax(axis=1)] == truth
    before = 100 * reliability(probabilities(scores).max(axis=1), right).error
    known, best = [], []
    for half in (data.unseen[::2], data.unseen[1::2]):
        known.append(~np.isin(truth, half))
        best.append(scores[:, ~np.isin(candidates, half)].max(axis=1))
    is_known, statistic = np.concatenate(known), np.concatenate(best)
    weights = np.tile(class_weights(truth), 2)
    auroc = 100 * roc_auc_score(is_known, statistic, sample_weight=weights)
    put_right = 100 * balanced_accuracy_score(is_known, statistic >= chosen.none_below, sample_weight=weights)
    kept = 100 * float(weights @ (is_known & (statistic >= chosen.none_below)) / (weights @ is_known))
    confident = probabilities(scores, model.temperature_).max(axis=1)
    print(f"{type(model).__name__} on {data.name}: {len(truth)} test images, temperature {chosen.temperature:.3g}")
    rows = {
        "validation": (chosen.ECE_before, chosen.ECE, chosen.AUROC, chosen.none_accuracy, chosen.known_kept),
        "test": (before, result.ECE, auroc, put_right, kept),
    }
    for name, numbers in rows.items():
        print("  {:10}  ECE {:.1f} -> {:.1f}; none of these: AUROC {:.1f}, right {:.1f}, kept {:.1f}".format(name, *numbers))
    print(f"  confidence {100 * confident.mean():.1f} on average, right {100 * right.mean():.1f}")


if __name__ == "__main__":
    main()
