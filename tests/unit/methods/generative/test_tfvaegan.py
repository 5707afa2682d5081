"""TF-VAEGAN: feedback compared with a literal two-pass computation, turns of the networks, and the classifiers' input."""

import numpy as np
import pytest
import torch

from sightunseen.methods.generative.autoencoders import reparametrised, semantic_loss
from sightunseen.methods.generative.tfvaegan import TFVAEGAN, FeedbackTraining
from sightunseen.methods.generative.vaegan import VAEGANTraining

from .small_networks import SIZES, in_double_precision, small_world, updated_in_turns


def small_training(**hyperparameters: float) -> tuple[TFVAEGAN, FeedbackTraining]:
    X, y, table = small_world()
    method = TFVAEGAN(**SIZES, **hyperparameters).fit(X, y, table)
    return method, FeedbackTraining(method, torch.from_numpy(X), torch.arange(9) // 3)


def leaky(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 0.2 * values)


def layers_of(network: torch.nn.Module) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in network.layers]


def in_two_passes(method: TFVAEGAN, z: np.ndarray, s: np.ndarray, weight: float) -> np.ndarray:
    """Generate features, map the decoder's hidden layer by the feedback module, and generate again with it added."""
    (first, first_bias), (last, last_bias) = layers_of(method.generator_)
    (decoder, decoder_bias), _ = layers_of(method.decoder_)
    (inner, inner_bias), (outer, outer_bias) = layers_of(method.feedback_)
    hidden = leaky(first @ np.concatenate([z, s]) + first_bias)
    features = 1 / (1 + np.exp(-(last @ hidden + last_bias)))
    fed_back = leaky(outer @ leaky(inner @ leaky(decoder @ features + decoder_bias) + inner_bias) + outer_bias)
    return 1 / (1 + np.exp(-(last @ (hidden + weight * fed_back) + last_bias)))


def test_feedback_is_a_second_pass() -> None:
    method, training = small_training(feedback_weight=0.5, feedback_rate=1.0)
    in_double_precision(method.networks_)
    rng = np.random.default_rng(3)
    z, s = rng.standard_normal((6, 2)), rng.random((6, 3))
    training.with_feedback = True
    found = training.generated(torch.from_numpy(z), torch.from_numpy(s)).detach().numpy()
    expected = [in_two_passes(method, *pair, weight=0.5) for pair in zip(z, s, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    training.with_feedback = False
    found = training.generated(torch.from_numpy(z), torch.from_numpy(s)).detach().numpy()
    expected = [in_two_passes(method, *pair, weight=0.0) for pair in zip(z, s, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_unseen_classes_are_synthesised_with_feedback() -> None:
    method, _ = small_training(n_synthesised=4)
    label = np.array(["d"])
    z, s = method._noise(label, 2)[0].numpy(), method._vectors_of(label)[0]
    expected = [in_two_passes(method, one, s, weight=0.01) for one in z]  # the square of the default rate
    np.testing.assert_allclose(method._generate(label).detach().numpy(), expected, rtol=1e-4)


def test_networks_are_updated_in_their_turns() -> None:
    method, training = small_training()
    without = [{"critic", "decoder"}] * 2 + [{"encoder", "generator", "decoder"}]
    with_feedback = [{"critic", "decoder"}] * 2 + [{"encoder", "generator", "decoder", "feedback"}]
    assert updated_in_turns(training, dict(method.networks_), 6) == without + with_feedback


def test_gradient_flows_through_the_second_pass_only() -> None:
    method, training = small_training(feedback_rate=1.0)
    in_double_precision(method.networks_)
    vectors = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)).double()
    z = torch.randn(6, 2, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    training.with_feedback = True
    inputs = torch.cat([z, vectors], dim=1)
    added = method._feedback(method.generator_(inputs)).detach()  # a constant of the second pass
    first, last = method.generator_.layers
    expected = torch.sigmoid(last(torch.nn.functional.leaky_relu(first(inputs), 0.2) + added))
    torch.testing.assert_close(training.generated(z, vectors), expected)
    (found,) = torch.autograd.grad(training.generated(z, vectors).sum(), z)
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), z)[0])


def test_cycle_consistency_is_the_distance_of_decoded_features() -> None:
    method, training = small_training(cycle_weight=0.3)
    features, vectors = torch.from_numpy(small_world()[0][:3]), torch.tensor(small_world()[2].vectors[:3])
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    expected = (method.decoder_(features) - unit).abs().sum(dim=1).mean().item()
    assert training.further_loss(features, vectors).item() == pytest.approx(0.3 * expected, rel=1e-6)


def test_decoder_is_trained_on_real_features_along_with_the_critic() -> None:
    method, training = small_training(cycle_weight=0.3)
    batch = {name: array[0] for name, array in training.draw(0, 1).items()}
    decoded, vectors = method.decoder_(training.features[batch["rows"]]), training.vectors_of(batch)
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    distances = [sum(abs(one - other) for one, other in zip(*pair, strict=True)) for pair in zip(decoded, unit, strict=True)]
    expected = VAEGANTraining.critic_step(training, batch) + 0.3 * sum(distances) / len(distances)
    torch.testing.assert_close(training.critic_step(batch), expected)


def test_generator_minimises_the_distance_of_decoded_features() -> None:
    losses = []
    for cycle_weight in (0.0, 2.0):
        method, training = small_training(cycle_weight=cycle_weight, learning_rate=0.0)
        batch = {name: array[2] for name, array in training.draw(0, 3).items()}
        losses.append(training.opponent_step(batch).item())
    features, vectors = training.features[batch["rows"]], training.vectors_of(batch)
    latent = reparametrised(*training.encoded(features, vectors), training.noise(batch))
    distance = semantic_loss(method.decoder_(training.generated(latent, vectors)), vectors).item()
    assert losses[1] - losses[0] == pytest.approx(2 * distance, rel=1e-4)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_parameters_of_the_feedback_module_act_as_if_they_were_smaller_by_its_rate(rate: float) -> None:
    """So that steps of Adam, whose size is the learning rate, act as steps of that size times the rate."""
    one, other = (small_training(feedback_rate=value)[0] for value in (1.0, rate))
    rng = np.random.default_rng(0)
    for parameter, same in zip(one.feedback_.parameters(), other.feedback_.parameters(), strict=True):
        parameter.data = torch.from_numpy(rng.standard_normal(parameter.shape).astype(np.float32))
        same.data = parameter.data / rate
    other.decoder_.load_state_dict(one.decoder_.state_dict())
    features = torch.from_numpy(small_world()[0])
    torch.testing.assert_close(other._feedback(features), one._feedback(features))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_initial_feedback_does_not_depend_on_its_learning_rate(rate: float) -> None:
    X, y, table = small_world()
    still = {**SIZES, "learning_rate": 0.0}
    one, other = (TFVAEGAN(**still, feedback_rate=value).fit(X, y, table) for value in (1.0, rate))
    features = torch.from_numpy(X)
    torch.testing.assert_close(one._feedback(features), other._feedback(features))


def test_classifiers_see_features_hidden_layer_and_decoded_vectors() -> None:
    method, _ = small_training()
    X = torch.from_numpy(small_world()[0])
    found = method._represent(X)
    assert found.shape == (9, 4 + 5 + 3)
    torch.testing.assert_close(found, torch.cat([X, method.decoder_.hidden(X), method.decoder_(X)], dim=1))
    assert method._softmax("all")[0].shape == (4, 12)
