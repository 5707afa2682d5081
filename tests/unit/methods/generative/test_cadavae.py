"""CADA-VAE: its loss compared with an explicit loop, weights that grow, and a latent space that images and classes share."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sightunseen.core.class_table import ClassTable
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import load_model
from sightunseen.methods.generative.cadavae import CADAVAE, AlignedAutoencoding, grown, wasserstein


def small_training(**hyperparameters: float) -> tuple[CADAVAE, AlignedAutoencoding]:
    """Four features, three attributes, three seen classes; networks in double precision with random weights."""
    rng = np.random.default_rng(0)
    X, y = rng.random((9, 4)).astype(np.float32), np.repeat(["a", "b", "c"], 3)
    table = ClassTable(["a", "b", "c", "d"], rng.random((4, 3)))
    widths = {f"{what}_{part}_hidden": 5 for what in ("feature", "vector") for part in ("encoder", "decoder")}
    sizes = {"latent_size": 2, "batch_size": 6, "n_steps": 3, "classifier_steps": 3, "n_synthesised": 4, "n_latent": 4}
    method = CADAVAE(device="cpu", **widths, **sizes, **hyperparameters).fit(X, y, table)
    for network in method.networks_.values():
        network.double()
        for parameter in network.parameters():
            parameter.data = torch.from_numpy(rng.standard_normal(parameter.shape))
    return method, AlignedAutoencoding(method, torch.from_numpy(X).double(), torch.arange(9) // 3)


def by_hand(network: object, values: np.ndarray) -> np.ndarray:
    first, second = ((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in network.layers)
    return second[0] @ np.maximum(first[0] @ values + first[1], 0) + second[1]


@pytest.mark.parametrize("noise_size", [1, 2])
@pytest.mark.parametrize("progress", [0.1, 0.5, 1.0])
def test_loss_is_eq_6_image_by_image(progress: float, noise_size: int) -> None:
    method, training = small_training(kl_weight=0.3, cross_weight=2.0, alignment_weight=5.0)
    rng = np.random.default_rng(1)
    features, vectors, noise = rng.random((4, 4)), rng.random((4, 3)), rng.standard_normal((2, 4, noise_size))
    weights = [
        0.3 * min(progress / 0.93, 1),
        2.0 * min(max((progress - 0.21) / 0.54, 0), 1),
        5.0 * min(max((progress - 0.06) / 0.16, 0), 1),
    ]
    losses = []
    for x, s, e, f in zip(features, vectors, *noise, strict=True):
        mean, log_variance = np.split(by_hand(method.feature_encoder_.network, x), 2)
        mean_of_class, log_variance_of_class = np.split(by_hand(method.vector_encoder_.network, s), 2)
        z, w = mean + np.exp(log_variance / 2) * e, mean_of_class + np.exp(log_variance_of_class / 2) * f
        own = abs(by_hand(method.feature_decoder_, z) - x).sum() + abs(by_hand(method.vector_decoder_, w) - s).sum()
        crossed = abs(by_hand(method.feature_decoder_, w) - x).sum() + abs(by_hand(method.vector_decoder_, z) - s).sum()
        kl = sum(
            0.5 * (m**2 + np.exp(v) - 1 - v).sum() for m, v in ((mean, log_variance), (mean_of_class, log_variance_of_class))
        )
        deviations = np.exp(log_variance / 2) - np.exp(log_variance_of_class / 2)
        distance = np.sqrt(((mean - mean_of_class) ** 2).sum() + (deviations**2).sum())
        losses.append(own + weights[0] * kl + weights[1] * crossed + weights[2] * distance)
    tensors = [torch.from_numpy(array) for array in (features, vectors, noise)]
    found = training.aligned(*tensors, torch.tensor(progress, dtype=torch.float64))
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-9)


@pytest.mark.parametrize("shared_noise", [True, False])
def test_latent_vectors_have_one_random_number_or_one_per_value(shared_noise: bool) -> None:
    method, _ = small_training(shared_noise=shared_noise)
    method.networks_["vector_encoder"].float()
    mean, log_variance = method.vector_encoder_(method._conditions(method.unseen_classes_))  # (1, 4, 2)
    drawn = (method._synthesise(method.unseen_classes_) - mean[0]) / (0.5 * log_variance[0]).exp()
    assert drawn.shape == (4, 2)
    assert torch.allclose(drawn[:, 0], drawn[:, 1], atol=1e-4) == shared_noise
    assert len(drawn[:, 0].unique()) == 4


def test_weights_grow_between_two_shares_of_training() -> None:
    shares = [grown(torch.tensor(progress), (0.2, 0.6)).item() for progress in (0.0, 0.2, 0.4, 0.6, 1.0)]
    assert shares == pytest.approx([0, 0, 0.5, 1, 1])


def test_distance_of_equal_gaussians_is_zero_with_a_finite_gradient() -> None:
    mean, log_variance = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3)
    distance = wasserstein((mean, log_variance), (torch.zeros(2, 3), log_variance))
    distance.backward()
    assert distance.item() == pytest.approx(0, abs=1e-5)
    assert torch.isfinite(mean.grad).all()


def test_final_classifier_sees_n_latent_vectors_of_every_seen_class() -> None:
    method, _ = small_training()
    for network in method.networks_.values():
        network.float()
    with torch.no_grad():
        latents, places = method._real()
    assert latents.shape == (12, 2)
    assert np.bincount(places).tolist() == [4, 4, 4]


def test_unseen_classes_of_a_synthetic_world_are_recognised() -> None:
    data = make_world(World(n_seen=30, n_unseen=5, images_per_class=20, n_features=32, n_attributes=12))
    # With 32 features instead of 2048, reconstruction weighs less, and so must the alignment.
    model = CADAVAE(n_steps=1500, latent_size=16, alignment_weight=0.1, device="cpu")
    model.fit(data.train.X, data.train.y, data.classes)
    found = model.predict(data.test_unseen.X, candidates="unseen")
    assert np.mean(found == data.test_unseen.y) > 0.5  # chance is 0.2


@pytest.mark.parametrize(("shift", "kind"), [(0.0, "range"), (-0.5, "unit")])
def test_saved_model_keeps_the_scaling_that_the_sign_of_the_features_chose(shift: float, kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = (rng.random((9, 4)) + shift).astype(np.float32), np.repeat(["a", "b", "c"], 3)
    table = ClassTable(["a", "b", "c", "d"], rng.random((4, 3)))
    method = CADAVAE(device="cpu", n_steps=3, classifier_steps=3, n_latent=4).fit(X, y, table)
    method.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (method.scaling_.kind, loaded.scaling_.kind) == (kind, kind)
    np.testing.assert_array_equal(loaded.decision_function(X), method.decision_function(X))
