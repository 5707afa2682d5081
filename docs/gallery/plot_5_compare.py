"""
Compare methods with intervals
==============================

One class split is one draw. Here five methods are fitted to ten data sets that differ in their classes and images, and T1
(accuracy among unseen classes) is shown with a 95% interval of its mean. Methods see the same data, so differences are paired:
the lower figure has the intervals of the difference to Foresight, which are narrower.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from sightunseen import zsl_accuracy
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CONSE, ESZSL, GFZSL, SAE, Foresight

METHODS = (Foresight, GFZSL, SAE, ESZSL, CONSE)


def accuracies(seed: int) -> list[float]:
    """T1 of each method on the data set of a seed, in percent."""
    data = make_world(World(n_seen=30, n_unseen=10, n_features=48, images_per_class=20, noise=2.5, seed=seed))
    models = [method().fit(data.train.X, data.train.y, classes=data.classes) for method in METHODS]
    return [100 * zsl_accuracy(model, data.test_unseen.X, data.test_unseen.y) for model in models]


T1 = np.array([accuracies(seed) for seed in range(10)])  # (data sets, methods)

# %%
# Student's t-interval over the data sets.
names = [method.__name__ for method in METHODS]


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means, and half the width of their 95% intervals."""
    return values.mean(axis=0), stats.t.ppf(0.975, len(values) - 1) * stats.sem(values, axis=0)


figure, (above, below) = plt.subplots(2, figsize=(7, 6), layout="constrained")
for axes, values, title in ((above, T1, "T1, percent"), (below, T1 - T1[:, :1], "T1 minus that of Foresight, paired")):
    mean, half = interval(values)
    axes.errorbar(mean[::-1], names[::-1], xerr=half[::-1], fmt="o", capsize=4)
    axes.set(xlabel=title)
    axes.margins(y=0.15)
below.axvline(0, color="black", linewidth=0.8)
for name, mean, half in zip(names, *interval(T1), strict=True):
    print(f"{name:10} {mean:.1f} ± {half:.1f}")
plt.show()
