"""SJE: evaluation of output embeddings, by a structured joint embedding (Akata, Reed, Walter, Lee & Schiele, CVPR 2015)."""

from torch import Tensor

from sightunseen.methods.shared.ranking import RankingClassifier, structured_ranking


class SJE(RankingClassifier):
    """F(x, y) = x' W s_y; the loss is the largest max(0, margin + F(x_n, y) - F(x_n, y_n)): the most violating class alone.

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
        """The structured hinge loss."""
        return structured_ranking(scores, targets, self.margin)
