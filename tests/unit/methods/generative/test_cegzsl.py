"""CE-GZSL: which network each step updates, the generator's loss term by term, and the space of the final classifiers."""

import numpy as np
import pytest
import torch

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import SettingsError
from sightunseen.methods.base.presets import preset_of
from sightunseen.methods.generative.cegzsl import CEGZSL, ContrastiveTraining
from sightunseen.methods.generative.contrastive import class_loss, instance_loss

SIZES = {"hidden": 5, "noise_size": 2, "embedding_size": 4, "projection_size": 3, "comparator_hidden": 5, "batch_size": 6}
STEPS = {"critic_steps": 2, "n_steps": 3, "classifier_steps": 3, "n_synthesised": 4}


def small_training(**hyperparameters: float) -> tuple[CEGZSL, ContrastiveTraining]:
    """Four features, three attributes, three seen classes and an unseen one; networks with larger initial weights."""
    rng = np.random.default_rng(0)
    X, y = rng.random((9, 4)).astype(np.float32), np.repeat(["a", "b", "c"], 3)
    table = ClassTable(["a", "b", "c", "d"], rng.random((4, 3)))
    method = CEGZSL(device="cpu", **{**SIZES, **STEPS, **hyperparameters}).fit(X, y, table)
    for network in method.networks_.values():
        for parameter in network.parameters():
            parameter.data = torch.from_numpy(rng.standard_normal(parameter.shape).astype(np.float32))
    return method, ContrastiveTraining(method, torch.from_numpy(X), torch.arange(9) // 3)


def batch_of(training: ContrastiveTraining, step: int) -> dict[str, torch.Tensor]:
    return {name: array[0] for name, array in training.draw(step, 1).items()}


def test_generator_is_updated_in_its_turn_and_all_other_networks_in_the_critics() -> None:
    method, training = small_training()
    updated = []
    for step in range(6):
        for network in method.networks_.values():
            network.zero_grad(set_to_none=True)
        training.loss_in_turn(batch_of(training, step), step % training.turns).backward()
        updated.append({n for n, network in method.networks_.items() if any(p.grad is not None for p in network.parameters())})
    others = {"critic", "embedding", "projection", "comparator"}
    assert updated == [others, others, {"generator"}] * 2


def test_critic_step_adds_both_contrastive_losses_of_real_images() -> None:
    method, training = small_training(instance_temperature=0.5, class_temperature=0.2)
    batch = batch_of(training, 0)
    real, targets = training.features[batch["rows"]], training.targets[batch["rows"]]
    embeddings = torch.relu(method.embedding_.layers[0](real))
    expected = (
        super(ContrastiveTraining, training).critic_step(batch)
        + instance_loss(method.projection_(embeddings), targets, 0.5)
        + class_loss(method.comparator_, embeddings, targets, training.vectors, 0.2)
    )
    torch.testing.assert_close(training.critic_step(batch), expected)


def test_generator_contrasts_fake_with_real_images() -> None:
    method, training = small_training(instance_level_weight=0.3, class_level_weight=0.2)
    rng, targets = torch.Generator().manual_seed(0), torch.tensor([0, 2, 1, 1, 0, 2])
    fake, real = torch.rand(6, 4, generator=rng), torch.rand(6, 4, generator=rng)
    projections = torch.cat([method.projection_(method.embedding_(images)) for images in (fake, real)])
    value = method.critic_(torch.cat([fake, training.vectors[targets]], dim=1)).mean()
    expected = (
        0.3 * instance_loss(projections, targets.repeat(2), 0.1)
        + 0.2 * class_loss(method.comparator_, method.embedding_(fake), targets, training.vectors, 0.1)
        - value
    )
    torch.testing.assert_close(training.generator_loss(fake, real, targets), expected)


def test_final_classifiers_see_embeddings() -> None:
    method, _ = small_training()
    synthesised = method._synthesise(np.array(["d"]))
    assert synthesised.shape == (4, 4)
    assert (synthesised >= 0).all()
    noise, vectors = method._noise(np.array(["d"]), 2)[0], method._conditions(np.array(["d"]))[0]
    features = method.generator_(torch.cat([noise, vectors], dim=1))
    torch.testing.assert_close(synthesised, method.embedding_(features))
    method._known = {}
    assert method._softmax("all")[0].shape == (4, 4)


@pytest.mark.parametrize("name", ["instance_temperature", "class_temperature"])
def test_temperatures_are_positive(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        CEGZSL(device="cpu", **{name: 0.0}).check_settings()


def test_full_preset_is_valid() -> None:
    method = CEGZSL(device="cpu", **preset_of(CEGZSL, "full").settings)
    method.check_settings()
    assert method.embedding_size == 2048
