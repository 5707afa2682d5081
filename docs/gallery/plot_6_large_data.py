"""
More data than memory
=====================

Foresight, ESZSL, SAE and GFZSL need only sums over the images. ``fit`` takes an iterator of blocks, of which one is in memory
at a time, and ``partial_fit`` gives a model after every block.
"""

import matplotlib.pyplot as plt
import numpy as np

from sightunseen import Foresight, zsl_accuracy
from sightunseen.data.synthetic_features import World, make_world

data = make_world(World(n_seen=40, n_unseen=10, n_features=64, images_per_class=100, noise=3.0))
order = np.random.default_rng(0).permutation(len(data.train.X))
blocks = np.array_split(order, 20)  # rows of 20 blocks, as they would arrive from disk or from a network

# %%
# One pass over an iterator gives the model of a fit in memory.
in_blocks = Foresight().fit(((data.train.X[rows], data.train.y[rows]) for rows in blocks), classes=data.classes)
in_memory = Foresight().fit(data.train.X[order], data.train.y[order], classes=data.classes)
print(np.mean(in_blocks.predict(data.test_unseen.X) == in_memory.predict(data.test_unseen.X)))

# %%
# A model after every block: how many images are enough?
model = Foresight()
images, accuracy = [], []
for k, rows in enumerate(blocks):
    model.partial_fit(data.train.X[rows], data.train.y[rows], classes=data.classes if k == 0 else None)
    images.append((images[-1] if images else 0) + len(rows))
    accuracy.append(100 * zsl_accuracy(model, data.test_unseen.X, data.test_unseen.y))

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(images, accuracy, "o-")
axes.set(xlabel="training images so far", ylabel="T1: unseen classes right, percent", ylim=(0, 100))
plt.show()
