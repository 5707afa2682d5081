"""DEVISE: a deep visual-semantic embedding model (Frome, Corrado, Shlens, Bengio, Dean, Ranzato & Mikolov, NIPS 2013)."""

from torch import Tensor

from sightunseen.methods.shared.ranking import RankingClassifier, summed_ranking


class DEVISE(RankingClassifier):
    """Deep visual-semantic embedding (DeViSE): bilinear scores with a hinge ranking loss.

    The score is F(x, y) = x' W s_y. The loss of an image is the sum of max(0, margin + F(x_n, y) - F(x_n, y_n)) over the wrong
    classes (Eq. 1).

    Differs from the paper: image features are fixed instead of fine-tuned, and class vectors are those of the data instead of
    word vectors, as in later comparisons; the loss includes all wrong classes instead of the first violating one, and is
    minimised by Adam on mini-batches from W = 0 instead of plain stochastic gradient descent; the margin is 1 instead of 0.1,
    which with Adam amounts to a tenth of the learning rate.

    Parameters
    ----------
    margin : float, default=1.0
        Margin by which the score of an image's own class must exceed all other scores.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=1000
        Number of gradient steps.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=5e-4
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=0.0
        L2 penalty of Adam, added to the gradient.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    seed : int, default=0
        Seed from which all random numbers are derived.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training and prediction; ``"auto"`` uses a GPU if there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    networks_ : dict
        ``"map"`` holds the parameter ``weight``, W of shape (d, a).
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import DEVISE
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = DEVISE(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    def ranking_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compute Eq. 1; see :func:`~sightunseen.methods.shared.ranking.summed_ranking`."""
        return summed_ranking(scores, targets, self.margin)
