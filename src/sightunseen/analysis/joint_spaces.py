"""Models whose joint embedding spaces a report draws side by side."""

from collections.abc import Iterator, Sequence

from sightunseen.analysis.reruns import Reruns, repeat_adaptation
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.training import Hook


def space_models(
    model: ZeroShotClassifier, reruns: Reruns, data: ZeroShotDataset, hooks: Sequence[Hook] = ()
) -> Iterator[tuple[str, ZeroShotClassifier]]:
    """Yield the models whose joint embedding space is drawn, with panel titles.

    These are ``model`` and the models of its ``reference_panels``, each followed by its adapted version if it can be adapted
    and there are test images of unseen classes. Reference models are trained when the iterator reaches them. Methods without
    a joint embedding space are left out.

    Parameters
    ----------
    model : ZeroShotClassifier
        The model of the report.
    reruns : Reruns
        Its repeated training and adaptation.
    data : ZeroShotDataset
        Data to train and adapt the reference models on.
    hooks : sequence of Hook, default=()
        Training hooks, such as a progress bar.

    Yields
    ------
    title : str
        Title of the panel.
    model : ZeroShotClassifier
        A fitted model.
    """
    for title, panel in model.reference_panels().items():
        pairs = _own_panels(title, model, reruns) if panel is model else _fitted_panels(title, panel, data, hooks)
        yield from (pair for pair in pairs if _has_joint_space(pair[1], data))


def _own_panels(title: str, model: ZeroShotClassifier, reruns: Reruns) -> Iterator[tuple[str, ZeroShotClassifier]]:
    yield title, model if reruns.before is None else reruns.before
    if reruns.before is not None:
        yield f"{title} transductive", model
    elif reruns.adaptation is not None:
        yield f"{title} transductive", reruns.adaptation.model


def _fitted_panels(
    title: str, panel: ZeroShotClassifier, data: ZeroShotDataset, hooks: Sequence[Hook]
) -> Iterator[tuple[str, ZeroShotClassifier]]:
    stage = f"training {title.replace('→', ' to ')}"
    panel.fit(data.train.X, data.train.y, data.classes, hooks=hooks, stage=stage)
    yield title, panel
    if isinstance(panel, AdaptableClassifier) and len(data.test_unseen):
        yield f"{title} transductive", repeat_adaptation(panel, data, hooks=hooks).model


def _has_joint_space(model: ZeroShotClassifier, data: ZeroShotDataset) -> bool:
    try:
        model.compared(data.train.X[:1], None)
    except SettingsError:
        return False
    return True
