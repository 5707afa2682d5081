"""
Foresight in six lines
======================

Learn from images of 40 seen classes, and recognise 10 classes that have attributes but no image. The bars are the accuracy on
each of them; guessing among ten would be right in 10%.
"""

import matplotlib.pyplot as plt

from sightunseen import Foresight, ZeroShotSearchCV, evaluate
from sightunseen.data.synthetic_features import World, make_world

data = make_world(World(n_seen=40, n_unseen=10, n_features=64, images_per_class=30, noise=2.5))

# %%
# ``classes`` has a vector for every class, seen or not. The search is scikit-learn's ``GridSearchCV`` over class folds: some
# seen classes are left out and stand in for the unseen ones.
search = ZeroShotSearchCV(Foresight()).fit(data.train.X, data.train.y, classes=data.classes)
print(search.best_params_)
print(search.predict(data.test_unseen.X[:3], candidates="unseen"))

# %%
# The test images are used once, at the end.
found = evaluate(search.best_estimator_, data)
print(found.summary())

accuracy = dict(sorted(found.by_class["zsl"].items(), key=lambda item: item[1]))
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.barh(list(accuracy), [100 * value for value in accuracy.values()])
axes.axvline(10, color="black", linestyle="--", label="guessing")
axes.set(xlabel="images recognised, percent", xlim=(0, 100), title="Classes without a training image")
axes.legend(loc="lower right")
plt.show()
