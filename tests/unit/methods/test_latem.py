"""LATEM, compared with its definition."""

import numpy as np
import pytest
import torch

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.latem import LATEM


@pytest.fixture(scope="module")
def fitted() -> LATEM:
    data = make_world(World(n_seen=8, n_unseen=3, n_attributes=4, n_features=5, images_per_class=6))
    return LATEM(n_maps=3, n_steps=60, learning_rate=0.02, device="cpu").fit(data.train.X, data.train.y, data.classes)


def literal_scores(model: LATEM, X: np.ndarray) -> np.ndarray:
    maps = model.networks_["map"].weight.detach().numpy().astype(float)  # (d, k, a)
    vectors = model._vectors_of(model.classes_)
    return np.array([[max(float(x @ maps[:, k] @ s) for k in range(maps.shape[1])) for s in vectors] for x in X.astype(float)])


def test_score_is_maximum_over_maps(fitted: LATEM) -> None:
    X = np.random.default_rng(0).uniform(size=(20, 5)).astype(np.float32)
    expected = literal_scores(fitted, fitted._features(X))
    np.testing.assert_allclose(fitted.decision_function(X), expected, rtol=1e-4, atol=1e-5)


def test_loss_is_sum_of_violations(fitted: LATEM) -> None:
    X = np.random.default_rng(1).uniform(size=(16, 5)).astype(np.float32)
    y = fitted.seen_classes_[np.arange(16) % 8]
    objective = fitted._objective(torch.as_tensor(X), fitted._indices(fitted.seen_classes_, y))
    scores = literal_scores(fitted, X)
    columns = {label: k for k, label in enumerate(fitted.classes_.tolist())}
    expected = np.mean(
        [
            sum(
                max(0.0, fitted.margin + row[columns[other]] - row[columns[own]])
                for other in fitted.seen_classes_.tolist()
                if other != own
            )
            for row, own in zip(scores, y.tolist(), strict=True)
        ]
    )
    found = objective.loss({"rows": torch.arange(16)})
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_training_lowers_the_loss_and_uses_all_maps(fitted: LATEM) -> None:
    """Each map is the best one for some pair; equal initial maps would stay equal."""
    assert fitted.losses_[-1]["loss"] < 7 * fitted.margin  # untrained, each of seven wrong classes violates by the margin
    maps = fitted.networks_["map"].weight.detach()
    X = torch.rand(200, 5, generator=torch.Generator().manual_seed(0))
    by_map = torch.einsum("nd,dka->nka", X, maps) @ fitted._vectors_on_device(fitted.classes_).T
    assert set(by_map.argmax(dim=1).flatten().tolist()) == {0, 1, 2}


def test_invalid_number_of_maps_is_named() -> None:
    with pytest.raises(SettingsError, match="n_maps"):
        LATEM(n_maps=0).check_settings()
