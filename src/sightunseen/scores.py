"""Eq. 2: how well features agree with classifiers. Softmax of these scores is p(y | x)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightunseen.checks import check_choice

SIMILARITIES = ("cosine", "dot")


def cosine_scores(features: Tensor, classifiers: Tensor, scale: Tensor | float) -> Tensor:
    """Scale * cos(x, w): (n, d), (c, d) -> (n, c); unchanged when a feature or a classifier changes length."""
    return scale * (functional.normalize(features, dim=-1) @ functional.normalize(classifiers, dim=-1).T)


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
        if self.kind == "cosine":
            return cosine_scores(features, classifiers, self.scale)
        return dot_scores(features, classifiers)
