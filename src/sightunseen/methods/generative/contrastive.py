"""Contrastive losses between images, and between images and classes (Han, Fu, Chen & Yang, CVPR 2021)."""

import torch
from torch import Tensor
from torch.nn import functional

from sightunseen.methods.cvc.losses import cross_entropy
from sightunseen.methods.shared.networks import LEAK, Perceptron
from sightunseen.training.triton_kernels import has_kernels


def instance_loss(projections: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Compute the instance-level contrastive loss: images of a class should be similar, compared with all other images.

    The loss of an image is the mean of -log p over the other images of its class, where p is the softmax of the similarities
    to all other images. Images without another one of their class do not count.

    Parameters
    ----------
    projections : Tensor of shape (n, p)
        Vectors of the images; their cosines are the similarities.
    targets : Tensor of shape (n,)
        Class indices.
    temperature : float
        Divisor of the similarities.

    Returns
    -------
    Tensor of shape ()
        The loss; zero if no two images have the same class.

    Examples
    --------
    >>> projections = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    >>> round(instance_loss(projections, torch.tensor([0, 0, 1]), temperature=1.0).item(), 4)  # log(1 + exp(-2))
    0.1269
    """
    unit = functional.normalize(projections, dim=1)
    itself = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    similarities = (unit @ unit.T / temperature).masked_fill(itself, -torch.inf)
    log_p = functional.log_softmax(similarities, dim=1)  # (n, n)
    positive = (targets[:, None] == targets) & ~itself
    counts = positive.sum(dim=1)
    losses = -torch.where(positive, log_p, 0.0).sum(dim=1) / counts.clamp(min=1)
    return losses.sum() / (counts > 0).sum().clamp(min=1)


def comparator_scores(comparator: Perceptron, embeddings: Tensor, vectors: Tensor) -> Tensor:
    """Compare each embedding with each class vector.

    Parameters
    ----------
    comparator : Perceptron
        Network with one hidden layer of leaky ReLUs, from embedding and class vector, side by side, to a score.
    embeddings : Tensor of shape (n, k)
        Embeddings of images.
    vectors : Tensor of shape (c, a)
        Class vectors.

    Returns
    -------
    Tensor of shape (n, c)
        The scores.
    """
    first, second = comparator.layers
    # The first layer is linear, so it need not see the n * c pairs: the parts of image and class are computed apart and added.
    of_images, of_classes = torch.split(first.weight, [embeddings.shape[1], vectors.shape[1]], dim=1)
    images, classes = embeddings @ of_images.T, functional.linear(vectors, of_classes, first.bias)  # (n, h), (c, h)
    if images.dtype == torch.float32 and has_kernels(images):
        from sightunseen.methods.generative.comparator_kernels import pair_scores

        return pair_scores(images, classes, second.weight[0]) + second.bias
    hidden = images[:, None] + classes  # (n, c, h)
    scores: Tensor = second(functional.leaky_relu_(hidden, LEAK)).squeeze(2)
    return scores


def class_loss(comparator: Perceptron, embeddings: Tensor, targets: Tensor, vectors: Tensor, temperature: float) -> Tensor:
    """Compute the class-level contrastive loss: an image should fit the vector of its class better than those of others.

    Parameters
    ----------
    comparator : Perceptron
        Network of :func:`comparator_scores`.
    embeddings : Tensor of shape (n, k)
        Embeddings of images.
    targets : Tensor of shape (n,)
        Class indices.
    vectors : Tensor of shape (c, a)
        Class vectors.
    temperature : float
        Divisor of the scores.

    Returns
    -------
    Tensor of shape ()
        The loss.
    """
    return cross_entropy(comparator_scores(comparator, embeddings, vectors) / temperature, targets)
