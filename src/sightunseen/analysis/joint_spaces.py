"""The models whose joint embeddings a report draws beside each other."""

from collections.abc import Iterator, Sequence

from sightunseen.analysis.reruns import Reruns, watched_adaptation
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.training import Hook


def space_models(
    model: ZeroShotClassifier, reruns: Reruns, data: ZeroShotDataset, hooks: Sequence[Hook] = ()
) -> Iterator[tuple[str, ZeroShotClassifier]]:
    """Yield the models whose joint embedding is drawn, with the titles of their panels.

    These are ``model``, those that its ``reference_panels`` name, which are trained here when it is their turn, and, where
    there are images to adapt to, each of them adapted. Methods without a joint embedding are left out.
    """
    for title, panel in model.reference_panels().items():
        own = panel is model
        pairs = _own_panels(title, model, reruns) if own else _fitted_panels(title, panel, data, hooks)
        yield from (pair for pair in pairs if _has_space(pair[1], data))


def _own_panels(title: str, model: ZeroShotClassifier, reruns: Reruns) -> Iterator[tuple[str, ZeroShotClassifier]]:
    if reruns.before is not None:
        yield title, reruns.before
        yield f"{title} transductive", model
        return
    yield title, model
    if reruns.adaptation is not None:
        yield f"{title} transductive", reruns.adaptation.model


def _fitted_panels(
    title: str, panel: ZeroShotClassifier, data: ZeroShotDataset, hooks: Sequence[Hook]
) -> Iterator[tuple[str, ZeroShotClassifier]]:
    stage = f"training {title.replace('→', ' to ')}"
    panel.fit(data.train.X, data.train.y, data.classes, hooks=hooks, stage=stage)
    yield title, panel
    if isinstance(panel, AdaptableClassifier) and len(data.test_unseen):
        yield f"{title} transductive", watched_adaptation(panel, data, hooks=hooks).model


def _has_space(model: ZeroShotClassifier, data: ZeroShotDataset) -> bool:
    try:
        model.compared(data.train.X[:1], None)
    except SettingsError:
        return False
    return True
