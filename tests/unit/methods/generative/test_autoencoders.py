"""Parts of variational autoencoders: closed forms compared with torch.distributions, Monte Carlo and explicit loops."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal
from torch.distributions import kl_divergence as reference_divergence

from sightunseen.methods.generative.autoencoders import (
    GaussianEncoder,
    SemanticDecoder,
    kl_divergence,
    reconstruction_loss,
    reparametrised,
    semantic_loss,
)


def gaussians(n: int = 5, size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log variances in double precision."""
    rng = torch.Generator().manual_seed(0)
    return torch.randn(n, size, generator=rng).double(), torch.randn(n, size, generator=rng).double()


def test_kl_divergence_is_that_of_torch_distributions() -> None:
    mean, log_variance = gaussians()
    expected = reference_divergence(Normal(mean, torch.exp(log_variance / 2)), Normal(0.0, 1.0)).sum(dim=1).mean()
    assert kl_divergence(mean, log_variance).item() == pytest.approx(expected.item(), rel=1e-12)


def test_kl_divergence_by_monte_carlo() -> None:
    mean, log_variance = gaussians(n=1)
    deviation = torch.exp(log_variance / 2)
    z = reparametrised(mean, log_variance, torch.randn(200_000, 3, generator=torch.Generator().manual_seed(1)))
    ratio = Normal(mean, deviation).log_prob(z) - Normal(0.0, 1.0).log_prob(z)
    assert kl_divergence(mean, log_variance).item() == pytest.approx(ratio.sum(dim=1).mean().item(), rel=0.02)


def test_kl_divergence_from_itself_is_zero() -> None:
    assert kl_divergence(torch.zeros(4, 3), torch.zeros(4, 3)).item() == 0


def test_reparametrised_samples_have_the_mean_and_variance() -> None:
    mean, log_variance = gaussians(n=1)
    z = reparametrised(mean, log_variance, torch.randn(100_000, 3, generator=torch.Generator().manual_seed(2)))
    np.testing.assert_allclose(z.mean(dim=0), mean[0], atol=0.03)
    np.testing.assert_allclose(z.var(dim=0), log_variance[0].exp(), rtol=0.03)


def test_reparametrised_samples_are_differentiable_in_both_parameters() -> None:
    mean, log_variance = (part.requires_grad_() for part in gaussians())
    noise = torch.randn(5, 3, generator=torch.Generator().manual_seed(3)).double()
    reparametrised(mean, log_variance, noise).sum().backward()
    np.testing.assert_array_equal(mean.grad, np.ones((5, 3)))
    np.testing.assert_allclose(log_variance.grad, (0.5 * torch.exp(log_variance / 2) * noise).detach(), rtol=1e-12)


@pytest.mark.parametrize("binary", [True, False])
def test_reconstruction_loss_by_loops(binary: bool) -> None:
    rng = np.random.default_rng(0)
    features, reconstructed = rng.random((4, 6)), rng.uniform(0.1, 0.9, (4, 6))
    expected = 0.0
    for x, found in zip(features, reconstructed, strict=True):
        for value, guess in zip(x, found, strict=True):
            cross_entropy = -value * np.log(guess) - (1 - value) * np.log(1 - guess)
            expected += (cross_entropy if binary else (value - guess) ** 2) / len(features)
    found = reconstruction_loss(torch.from_numpy(features), torch.from_numpy(reconstructed), binary)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_semantic_loss_compares_directions() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    decoded = torch.tensor([[0.6, 0.6], [1.0, 0.0]])
    assert semantic_loss(decoded, vectors).item() == pytest.approx((0.2 + 2.0) / 2)
    assert semantic_loss(decoded, 10 * vectors).item() == pytest.approx((0.2 + 2.0) / 2)


def test_semantic_decoder_has_unit_outputs_from_its_hidden_layer() -> None:
    decoder = SemanticDecoder(4, 5, 3, torch.Generator().manual_seed(0))
    X = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(decoder(X), decoder.decoded(decoder.hidden(X)))
    torch.testing.assert_close(decoder(X).norm(dim=1), torch.ones(6))
    assert decoder.hidden(X).shape == (6, 5)


def test_gaussian_encoder_halves_the_output_of_its_network() -> None:
    encoder = GaussianEncoder((4, 5, 2), torch.Generator().manual_seed(0))
    X = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    mean, log_variance = encoder(X)
    torch.testing.assert_close(torch.cat([mean, log_variance], dim=1), encoder.network(X))
