"""Eq. 1, 2, 3 and 6 agree with numpy, scipy and plain loops; their limits and gradients."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch import Tensor

from sightunseen.core.errors import SettingsError
from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.losses import cross_entropy, generalized_cross_entropy
from sightunseen.methods.cvc.scores import Score, cosine_scores


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def generator(rectify: bool = True, initialisation: str = "he", sizes: tuple[int, int, int] = (5, 7, 4)) -> ClassifierGenerator:
    """Generator in double precision with non-zero biases, so that a missing bias is detected."""
    made = ClassifierGenerator(*sizes, rectify, initialisation, torch.Generator().manual_seed(3)).double()
    with torch.no_grad():
        for bias in (made.first.bias, made.second.bias):
            bias.copy_(torch.from_numpy(rng(1).normal(size=len(bias))))
    return made


def random_scores(n: int = 6, c: int = 5, size: float = 3.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    scores = torch.from_numpy(size * rng(seed).normal(size=(n, c))).requires_grad_()
    return scores, torch.from_numpy(rng(seed + 1).integers(0, c, n))


def gradient_of(loss: Tensor, scores: Tensor) -> np.ndarray:
    return torch.autograd.grad(loss, scores)[0].numpy()


# -- Eq. 1: the generator ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rectify", [True, False])
def test_generator_is_fc_relu_fc_relu(rectify: bool) -> None:
    f = generator(rectify)
    vectors = rng().normal(size=(9, 5))
    (w1, b1), (w2, b2) = ((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in (f.first, f.second))
    expected = np.maximum(vectors @ w1.T + b1, 0) @ w2.T + b2
    assert (expected < 0).any()  # otherwise the last ReLU has no effect
    expected = np.maximum(expected, 0) if rectify else expected
    np.testing.assert_allclose(f(torch.from_numpy(vectors)).detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("initialisation", "deviations"), [("he", (math.sqrt(2 / 50), math.sqrt(2 / 400))), ("normal", (0.02, 0.02))]
)
def test_initial_weights_have_the_documented_deviation_and_zero_bias(
    initialisation: str, deviations: tuple[float, float]
) -> None:
    f = ClassifierGenerator(50, 400, 60, True, initialisation, torch.Generator().manual_seed(0))
    for layer, deviation in zip((f.first, f.second), deviations, strict=True):
        weights = layer.weight.detach().numpy()
        # 20,000 draws: the standard error is 0.5 % of the deviation, and 0.7 % of it for the mean; four of them allowed.
        assert weights.std() == pytest.approx(deviation, rel=0.02)
        assert abs(weights.mean()) < 0.03 * deviation
        assert not layer.bias.any()


def test_initial_weights_depend_only_on_the_random_generator() -> None:
    torch.manual_seed(1)
    one = ClassifierGenerator(5, 7, 4, True, "he", torch.Generator().manual_seed(3))
    torch.manual_seed(2)
    same = ClassifierGenerator(5, 7, 4, True, "he", torch.Generator().manual_seed(3))
    other = ClassifierGenerator(5, 7, 4, True, "he", torch.Generator().manual_seed(4))
    assert torch.equal(one.first.weight, same.first.weight)
    assert not torch.equal(one.first.weight, other.first.weight)


def test_unknown_initialisation_and_similarity_raise() -> None:
    with pytest.raises(SettingsError, match="he, normal; got 'xavier'"):
        generator(initialisation="xavier")
    with pytest.raises(SettingsError, match="cosine, dot; got 'euclid'"):
        Score("euclid", 1.0)


# -- Eq. 2: scores and probabilities -----------------------------------------------------------------------------------


def test_cosine_scores_agree_with_scipy() -> None:
    features, classifiers = rng().normal(size=(8, 6)), rng(1).normal(size=(5, 6))
    found = cosine_scores(torch.from_numpy(features), torch.from_numpy(classifiers), 7.5).numpy()
    np.testing.assert_allclose(found, 7.5 * (1 - cdist(features, classifiers, "cosine")), rtol=1e-12, atol=1e-12)


def test_dot_scores_are_dot_products_without_scale() -> None:
    features, classifiers = rng().normal(size=(3, 6)), rng(1).normal(size=(2, 6))
    expected = [[sum(x * w for x, w in zip(row, other, strict=True)) for other in classifiers] for row in features]
    score = Score("dot", 9.0)
    np.testing.assert_allclose(score(torch.from_numpy(features), torch.from_numpy(classifiers)).numpy(), expected, rtol=1e-12)
    assert not score.scale.requires_grad


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.floats(1e-3, 1e3), min_size=7, max_size=7),
    scale=st.floats(0.1, 100),
)
def test_cosine_scores_do_not_depend_on_norms(seed: int, lengths: list[float], scale: float) -> None:
    features, classifiers = torch.from_numpy(rng(seed).normal(size=(4, 6))), torch.from_numpy(rng(seed + 1).normal(size=(3, 6)))
    stretched_x = features * torch.tensor(lengths[:4], dtype=torch.float64)[:, None]
    stretched_w = classifiers * torch.tensor(lengths[4:], dtype=torch.float64)[:, None]
    plain = cosine_scores(features, classifiers, scale)
    torch.testing.assert_close(cosine_scores(stretched_x, stretched_w, scale), plain, rtol=1e-9, atol=1e-9 * scale)
    assert (plain.abs() <= scale * (1 + 1e-12)).all()


def test_zero_feature_or_classifier_has_score_zero() -> None:
    zero, some = torch.zeros(1, 6), torch.ones(1, 6)
    assert cosine_scores(zero, some, 10.0).item() == 0
    assert cosine_scores(some, zero, 10.0).item() == 0


def test_softmax_of_scores_is_eq_2() -> None:
    features, classifiers, sigma = rng().normal(size=(5, 6)), rng(1).normal(size=(4, 6)), 11.0
    score = Score("cosine", sigma).double()
    found = torch.softmax(score(torch.from_numpy(features), torch.from_numpy(classifiers)), dim=1).detach().numpy()
    for i, x in enumerate(features):
        top = [math.exp(sigma * float(w @ x) / (math.sqrt(w @ w) * math.sqrt(x @ x))) for w in classifiers]
        np.testing.assert_allclose(found[i], [value / sum(top) for value in top], rtol=1e-10)


# -- Eq. 3 and 6: losses -----------------------------------------------------------------------------------------------


def literal_probability(scores: np.ndarray, target: int) -> float:
    return math.exp(scores[target]) / sum(math.exp(value) for value in scores)


def test_cross_entropy_is_the_mean_of_eq_3() -> None:
    scores, targets = random_scores()
    each = []
    for row, target in zip(scores.detach().numpy(), targets.tolist(), strict=True):
        each.append(-row[target] + math.log(sum(math.exp(value) for value in row)))
    assert cross_entropy(scores, targets).item() == pytest.approx(sum(each) / len(each), rel=1e-12)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.7, 1.0])
def test_generalized_cross_entropy_is_the_mean_of_eq_6(q: float) -> None:
    scores, targets = random_scores()
    each = [
        (1 - literal_probability(row, target) ** q) / q
        for row, target in zip(scores.detach().numpy(), targets.tolist(), strict=True)
    ]
    assert generalized_cross_entropy(scores, targets, q).item() == pytest.approx(sum(each) / len(each), rel=1e-12)


def test_generalized_cross_entropy_at_q_1_is_half_the_absolute_error() -> None:
    scores, targets = random_scores()
    errors = []
    for row, target in zip(scores.detach().numpy(), targets.tolist(), strict=True):
        errors.append(sum(abs((k == target) - literal_probability(row, k)) for k in range(len(row))))
    assert generalized_cross_entropy(scores, targets, 1.0).item() == pytest.approx(0.5 * sum(errors) / len(errors), rel=1e-12)


@pytest.mark.parametrize("q", [0.1, 1e-3, 1e-6, 1e-12, 0.0])
def test_generalized_cross_entropy_tends_to_cross_entropy_as_q_tends_to_zero(q: float) -> None:
    scores, targets = random_scores()
    loss, limit = generalized_cross_entropy(scores, targets, q), cross_entropy(scores, targets)
    # With t = -log p: 0 <= t - (1 - exp(-q t)) / q <= q t^2 / 2. The gradients differ by the factor p^q >= 1 - q t.
    longest = -min(
        math.log(literal_probability(row, k)) for row, k in zip(scores.detach().numpy(), targets.tolist(), strict=True)
    )
    assert -1e-12 <= limit.item() - loss.item() <= q * longest**2 / 2 + 1e-12
    difference = np.abs(gradient_of(loss, scores) - gradient_of(limit, scores))
    np.testing.assert_array_less(difference, q * longest / len(scores) + 1e-12)


@pytest.mark.parametrize("q", [None, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_gradients_through_score_and_generator_match_finite_differences(q: float | None, kind: str) -> None:
    f, score = generator(rectify=False), Score(kind, 4.0).double()
    vectors, features = torch.from_numpy(rng().normal(size=(3, 5))), torch.from_numpy(rng(1).normal(size=(6, 4)))
    targets = torch.tensor([0, 1, 2, 2, 1, 0])
    names = ["first.weight", "first.bias", "second.weight", "second.bias"]
    parameters = [f.get_parameter(name).detach().clone().requires_grad_() for name in names]
    scale = score.scale.detach().clone().requires_grad_(kind == "cosine")

    def loss(*values: Tensor) -> Tensor:
        classifiers = torch.func.functional_call(f, dict(zip(names, values[1:], strict=True)), (vectors,))
        scores = torch.func.functional_call(score, {"scale": values[0]}, (features, classifiers))
        return cross_entropy(scores, targets) if q is None else generalized_cross_entropy(scores, targets, q)

    assert torch.autograd.gradcheck(loss, (scale, *parameters), eps=1e-6, atol=1e-6)


def test_last_relu_blocks_the_gradient_where_it_is_inactive() -> None:
    f = generator(rectify=True)
    vectors = torch.from_numpy(rng().normal(size=(6, 5)))
    active = generator(rectify=False)(vectors) > 0
    assert active.any()
    assert not active.all()
    f(vectors).sum().backward()
    np.testing.assert_array_equal(f.second.bias.grad.numpy(), active.sum(dim=0).double().numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("q", [None, 1e-6, 0.5, 1.0])
@pytest.mark.parametrize("gap", [-1e4, -200.0, 0.0, 200.0, 1e4])
def test_losses_are_finite_for_p_near_zero_or_one(gap: float, q: float | None, dtype: torch.dtype) -> None:
    scores = torch.tensor([[gap, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    target = torch.tensor([0])
    loss = cross_entropy(scores, target) if q is None else generalized_cross_entropy(scores, target, q)
    gradient = gradient_of(loss, scores)
    assert np.isfinite(loss.item())
    assert np.isfinite(gradient).all()
    if gap == 1e4:  # p = 1
        assert loss.item() == 0
        assert not gradient.any()
    if gap == -1e4:  # p = 0: the largest loss; with large q a wrong label has no gradient
        assert loss.item() == pytest.approx(1e4 + math.log(2) if q is None else (1 - math.exp(-q * 1e4)) / q, rel=1e-4)
        assert gradient[0, 0] == pytest.approx(-1.0 if q is None else -math.exp(-q * 1e4), rel=1e-4)
