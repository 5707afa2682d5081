"""
Add a class and explain an answer
=================================

A class is a vector. A new one is recognised as soon as it is added, and nothing is retrained. Because the classifier is
generated from the attributes, the difference between two scores can be divided among them.
"""

import matplotlib.pyplot as plt
import numpy as np

from sightunseen import Foresight
from sightunseen.analysis.contributions import contributions
from sightunseen.data.synthetic_features import World, make_world

data = make_world(World(n_seen=40, n_unseen=10, n_features=64, images_per_class=30, noise=2.0))
newcomer = data.unseen[0]
known = data.classes.without([newcomer])

# %%
# The model knows 49 classes. Then the attributes of the fiftieth arrive.
model = Foresight().fit(data.train.X, data.train.y, classes=known)
images = data.test_unseen.X[data.test_unseen.y == newcomer]
print("before:", np.unique(model.predict(images, candidates="unseen")))

model.add_classes({newcomer: data.classes.vectors_of([newcomer])[0]})
answers = model.predict(images, candidates="unseen")
print(f"after: {np.mean(answers == newcomer):.0%} of its images are recognised")

# %%
# Why the new class, and not the next best? Contributions of the attributes sum to the difference of the two scores.
scores = model.decision_function(images, candidates="unseen").mean(axis=0)
candidates = model.classes_[np.isin(model.classes_, data.unseen)]
runner_up = candidates[np.argsort(scores)[-2]] if candidates[scores.argmax()] == newcomer else candidates[scores.argmax()]
why = contributions(model, images, label=newcomer, other=runner_up)
print(f"sum {why.mean.sum():.2f}, difference of the scores {why.totals.mean():.2f}")

shown = why.strongest(8)[::-1]
names = [f"{'' if why.own[k] else 'not '}{why.names[k]}" for k in shown]
values = why.mean[shown]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.barh(names, values, color=np.where(values > 0, "tab:blue", "tab:red"))
axes.axvline(0, color="black", linewidth=0.8)
axes.set(xlabel=f"contribution: for {newcomer} (+) or {runner_up} (-)")
plt.show()
