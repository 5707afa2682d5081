"""Eq. 2: how well features agree with classifiers. Softmax of these scores is p(y | x)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.core.checks import check_choice

SIMILARITIES = ("cosine", "dot")


def cosine_scores(features: Tensor, classifiers: Tensor, scale: Tensor | float) -> Tensor:
    """Scale * cos(x, w): (n, d), (c, d) -> (n, c); unchanged when a feature or a classifier changes length."""
    return _against_directions(features, functional.normalize(classifiers, dim=-1), scale)


def dot_scores(features: Tensor, classifiers: Tensor) -> Tensor:
    """X . w: (n, d), (c, d) -> (n, c)."""
    return features @ classifiers.T


class Score(nn.Module):
    """The score function with its learnable scale (the paper's sigma; the dot product has none)."""

    def __init__(self, kind: str, initial_scale: float) -> None:
        super().__init__()
        check_choice("similarity", kind, SIMILARITIES)
        self.kind = kind
        self.scale = nn.Parameter(torch.tensor(float(initial_scale)), requires_grad=kind == "cosine")

    def forward(self, features: Tensor, classifiers: Tensor) -> Tensor:
        """(n, d), (c, d) -> (n, c)."""
        return self.of_prepared(features, self.prepared(classifiers))

    def prepared(self, classifiers: Tensor) -> Tensor:
        """What of the scores depends on the classifiers alone, (c, d) -> (c, d): made once, it serves many features."""
        return functional.normalize(classifiers, dim=-1) if self.kind == "cosine" else classifiers

    def of_prepared(self, features: Tensor, prepared: Tensor) -> Tensor:
        """The scores of features for prepared classifiers: (n, d), (c, d) -> (n, c)."""
        if self.kind == "cosine":
            return _against_directions(features, prepared, self.scale)
        return dot_scores(features, prepared)


def _against_directions(features: Tensor, directions: Tensor, scale: Tensor | float) -> Tensor:
    # Divided by the features' lengths at the end: a pass over (n, c) numbers rather than (n, d).
    lengths: Tensor = torch.linalg.vector_norm(features, dim=-1, keepdim=True).clamp_min(1e-12)
    return scale * (features @ directions.T) / lengths
