"""Scores (Eq. 2): similarity of features and classifiers. Their softmax is p(y | x)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_choice

SIMILARITIES = ("cosine", "dot")


def cosine_scores(features: Tensor, classifiers: Tensor, scale: Tensor | float) -> Tensor:
    """Compute scaled cosine similarities, which do not depend on the norms of features and classifiers.

    Parameters
    ----------
    features : Tensor of shape (n, d)
        Features of the images.
    classifiers : Tensor of shape (c, d)
        Classifiers of the classes.
    scale : Tensor of shape () or float
        Factor of the cosines (σ).

    Returns
    -------
    Tensor of shape (n, c)
        Scores.

    Examples
    --------
    >>> cosine_scores(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]]), 10.0)
    tensor([[10.,  0.]])
    """
    return _scaled_cosines(features, functional.normalize(classifiers, dim=-1), scale)


class Score(nn.Module):
    """Score function with a learnable scale.

    Parameters
    ----------
    kind : {"cosine", "dot"}
        Cosine similarity multiplied by the scale, or dot product.
    initial_scale : float
        Initial value of the scale (σ); the dot product does not use it.

    Raises
    ------
    SettingsError
        If the kind is unknown.
    """

    def __init__(self, kind: str, initial_scale: float) -> None:
        super().__init__()
        check_choice("similarity", kind, SIMILARITIES)
        self.kind = kind
        self.scale = nn.Parameter(torch.tensor(float(initial_scale)), requires_grad=kind == "cosine")

    def forward(self, features: Tensor, classifiers: Tensor) -> Tensor:
        """Compute scores (n, c) of features (n, d) and classifiers (c, d)."""
        return self.of_prepared(features, self.prepared(classifiers))

    def prepared(self, classifiers: Tensor) -> Tensor:
        """Compute what depends only on the classifiers (c, d): for cosines, their L2 normalisation."""
        return functional.normalize(classifiers, dim=-1) if self.kind == "cosine" else classifiers

    def of_prepared(self, features: Tensor, prepared: Tensor) -> Tensor:
        """Compute scores (n, c) of features (n, d) and classifiers (c, d) from :meth:`prepared`."""
        return _scaled_cosines(features, prepared, self.scale) if self.kind == "cosine" else features @ prepared.T


def _scaled_cosines(features: Tensor, directions: Tensor, scale: Tensor | float) -> Tensor:
    # Dividing the scores (n, c) by the norms of the features is cheaper than dividing the features (n, d).
    lengths: Tensor = torch.linalg.vector_norm(features, dim=-1, keepdim=True).clamp_min(1e-12)
    return scale * (features @ directions.T) / lengths
