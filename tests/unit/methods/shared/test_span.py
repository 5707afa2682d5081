"""Span: coordinates preserve inner products, expanded weights give the same scores, and many images are left unchanged."""

import numpy as np
import pytest

from sightunseen.methods.base.span import Span

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_preserve_inner_products_and_scores(dtype: type) -> None:
    X = RNG.standard_normal((7, 30)).astype(dtype)
    span, weights = Span.of(X), RNG.standard_normal((7, 2)).astype(dtype)
    assert span.X.shape == (7, 7)
    assert span.X.dtype == span.expand(weights).dtype == dtype
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(span.X @ span.X.T, X @ X.T, atol=tolerance)
    np.testing.assert_allclose(X @ span.expand(weights), span.X @ weights, atol=tolerance)
    np.testing.assert_allclose(np.linalg.norm(span.expand(weights)), np.linalg.norm(weights), rtol=tolerance)
    assert span.mean_diagonal(span.X.T @ span.X) == pytest.approx(np.sum(np.square(X)) / 30, rel=tolerance)


def test_dependent_images_have_an_orthonormal_basis() -> None:
    X = RNG.standard_normal((5, 30))
    X = np.vstack([X - X.mean(axis=0), X[:1] * 0, X[:2]])
    span = Span.of(X)
    assert span.basis is not None
    np.testing.assert_allclose(span.basis.T @ span.basis, np.eye(len(X)), atol=1e-12)
    np.testing.assert_allclose(span.X @ span.basis.T, X, atol=1e-12)


@pytest.mark.parametrize("n", [16, 30, 40])
def test_many_images_are_unchanged(n: int) -> None:
    X, weights = RNG.standard_normal((n, 30)), RNG.standard_normal((30, 2))
    span = Span.of(X)
    assert span.X is X
    assert span.expand(weights) is weights
    assert span.mean_diagonal(X.T @ X) == np.trace(X.T @ X) / 30
