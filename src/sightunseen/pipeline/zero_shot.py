"""Zero-shot CLIP beside a trained model, whenever the features come from a dual encoder."""

from dataclasses import replace

import numpy as np

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.records import RunRecord
from sightunseen.methods import CLIP
from sightunseen.selection.evaluation import evaluate


def with_zero_shot(record: RunRecord, data: ZeroShotDataset) -> RunRecord:
    """Add the test results of zero-shot CLIP on the same features to a run record.

    Parameters
    ----------
    record : RunRecord
        Record of a training run.
    data : ZeroShotDataset
        Its data.

    Returns
    -------
    RunRecord
        The record with the results as ``compared["zero_shot"]`` and a sentence in the verdict. It is unchanged if the method
        is CLIP itself, if the features do not come from a dual encoder, or if there are no test images.
    """
    results = {} if record.method == CLIP.__name__ else zero_shot_results(data)
    if not results:
        return record
    shown = ", ".join(f"{name} {results[name]:.1f}" for name in ("T1", "H") if results.get(name) is not None)
    sentence = f"For comparison, zero-shot CLIP on the same features, without training: {shown} (percent)."
    return replace(record, compared={**record.compared, "zero_shot": results}, verdict=(*record.verdict, sentence))


def zero_shot_results(data: ZeroShotDataset) -> dict[str, float | None]:
    """Evaluate zero-shot CLIP on the test images.

    Parameters
    ----------
    data : ZeroShotDataset
        Data whose class table has the names encoded by the text side of the backbone.

    Returns
    -------
    dict of str to float or None
        Results in percent; empty without such class vectors or without test images.
    """
    names = f"{CLIP.semantics}:{(data.backbone or {}).get('text_encoder')}"
    if names not in data.classes.semantics or not (len(data.test_seen) or len(data.test_unseen)):
        return {}
    labels = np.asarray(data.train.y)
    first = np.sort(np.unique(labels, return_index=True)[1])  # one image of each class defines the seen classes
    model = CLIP().fit(data.train.X[first], labels[first], data.classes.using(names))
    return evaluate(model, data).results()
