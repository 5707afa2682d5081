"""The models whose spaces are shown beside each other: those of the paper's t-SNE figure, or a model and its adapted self."""

from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.base import clone

from sightunseen.analyses.reruns import Reruns, device_of, is_adapted, watched_adaptation
from sightunseen.dataset import ZeroShotDataset
from sightunseen.errors import SettingsError
from sightunseen.methods import DEM, TrainedClassifier, ZeroShotClassifier
from sightunseen.methods.cvc import CVC
from sightunseen.methods.projection import Projection
from sightunseen.training import Hook


def space_models(
    model: ZeroShotClassifier, reruns: Reruns, data: ZeroShotDataset, hooks: Sequence[Hook] = ()
) -> Iterator[tuple[str, ZeroShotClassifier]]:
    """The models whose spaces are worth a picture, by name, in order; all of them have ``compared``.

    Of a method of the paper's t-SNE figure the models of that figure: V→A, DEM, CVC and, where there are images to adapt to,
    CVC transductive, then ``model`` if it is none of them. ``model`` and its reruns stand for those that they are; the others
    are trained here, when it is their turn, with default settings and the model's seed. Of another method ``model`` alone,
    with what it was before it was adapted, or what it is then.
    """
    if not isinstance(model, Projection | DEM | CVC):
        yield from (pair for pair in _own_spaces(model, reruns) if _has_space(pair[1], data))
        return
    common: dict[str, Any] = {"seed": getattr(model, "seed", 0), "device": device_of(model)}

    def fitted(fresh: TrainedClassifier, name: str) -> TrainedClassifier:
        return fresh.fit(data.train.X, data.train.y, data.classes, hooks=hooks, stage=f"training {name}")

    is_attribute_projection = isinstance(model, Projection) and model.space == "attributes"
    yield "V→A", model if is_attribute_projection else fitted(Projection("attributes", **common), "V to A")
    yield "DEM", model if isinstance(model, DEM) else fitted(DEM(**common), "DEM")
    if isinstance(model, CVC) and is_adapted(model):
        yield "CVC", reruns.training.model if reruns.training else fitted(clone(model), "CVC")
        yield "CVC transductive", model
    else:
        inductive = model if isinstance(model, CVC) else fitted(CVC(**common), "CVC")
        yield "CVC", inductive
        if reruns.adaptation:
            yield "CVC transductive", reruns.adaptation.model
        elif len(data.test_unseen):
            yield "CVC transductive", watched_adaptation(inductive, data, hooks=hooks).model
    if not (is_attribute_projection or isinstance(model, DEM | CVC)):
        yield type(model).__name__, model


def _own_spaces(model: ZeroShotClassifier, reruns: Reruns) -> Iterator[tuple[str, ZeroShotClassifier]]:
    name = type(model).__name__
    if reruns.before is not None:
        yield name, reruns.before
        yield f"{name} transductive", model
        return
    yield name, model
    if reruns.adaptation is not None:
        yield f"{name} transductive", reruns.adaptation.model


def _has_space(model: ZeroShotClassifier, data: ZeroShotDataset) -> bool:
    try:
        model.compared(data.train.X[:1], None)
    except SettingsError:
        return False
    return True
