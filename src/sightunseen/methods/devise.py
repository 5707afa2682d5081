"""DEVISE: a deep visual-semantic embedding model (Frome, Corrado, Shlens, Bengio, Dean, Ranzato & Mikolov, NIPS 2013)."""

from torch import Tensor

from sightunseen.methods.shared.ranking import RankingClassifier, summed_ranking


class DEVISE(RankingClassifier):
    """F(x, y) = x' W s_y; the loss is the sum of max(0, margin + F(x_n, y) - F(x_n, y_n)) over the wrong classes (Eq. 1).

    The paper goes on to train the image features as well; here, as in every comparison since, they are given.

    Parameters
    ----------
    margin : by how much the right class must win.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, batch_size : mini-batches, and the images in each.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    def ranking_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Eq. 1, over all wrong classes."""
        return summed_ranking(scores, targets, self.margin)
