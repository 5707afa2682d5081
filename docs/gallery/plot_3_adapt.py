"""
Adapt to unlabelled images
==========================

Unlabelled images of the unseen classes show how the features of these classes are distributed. ``adapt`` uses them, without
their labels: the transductive setting. Whether adapting helps is rehearsed on validation classes first; if it does not, the
model stays as it is.
"""

import matplotlib.pyplot as plt

from sightunseen import Foresight, ZeroShotSearchCV, evaluate
from sightunseen.data.synthetic_features import World, make_world

data = make_world(World(n_seen=30, n_unseen=8, n_features=48, images_per_class=20, noise=2.0))
search = ZeroShotSearchCV(Foresight()).fit(data.train.X, data.train.y, classes=data.classes)
adapted = search.adapt(data.test_unseen.X)

# %%
# Accuracy of each unseen class before (empty) and after (filled), choosing among all 38 classes.
before, after = evaluate(search.best_estimator_, data), evaluate(adapted, data)
print("before", before.summary())
print("after ", after.summary())

names = sorted(before.by_class["unseen"], key=after.by_class["unseen"].get)
start = [100 * before.by_class["unseen"][name] for name in names]
end = [100 * after.by_class["unseen"][name] for name in names]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.hlines(names, start, end, color="tab:gray")
axes.plot(start, names, "o", color="tab:blue", markerfacecolor="white", label=f"before, U {before.U:.0f}")
axes.plot(end, names, "o", color="tab:blue", label=f"after, U {after.U:.0f}")
axes.set(xlabel="images recognised, percent", xlim=(0, 102))
axes.legend(loc="lower left")
plt.show()
