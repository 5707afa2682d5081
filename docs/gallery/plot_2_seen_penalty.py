"""
The seen-unseen curve and the seen penalty
==========================================

A model that was trained on images of seen classes prefers them. Subtracting a constant from their scores, the seen penalty
(calibrated stacking; Chao et al., ECCV 2016), trades accuracy S on seen classes for accuracy U on unseen classes. The pairs
(U, S) of all penalties form the seen-unseen curve. The area under it (AUSUC) does not depend on the penalty.
"""

import matplotlib.pyplot as plt

from sightunseen import ZeroShotSearchCV, evaluate
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import ESZSL, Foresight

data = make_world(World(n_seen=40, n_unseen=10, n_features=64, images_per_class=30, noise=2.5))

# %%
# ``ZeroShotSearchCV`` chooses the penalty on validation classes, without the test images. The filled point is the model as it
# is, the empty one the same model without a penalty.
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
for color, method in zip(("tab:blue", "tab:orange"), (Foresight(), ESZSL()), strict=True):
    search = ZeroShotSearchCV(method).fit(data.train.X, data.train.y, classes=data.classes)
    model = search.best_estimator_
    found = evaluate(model, data)
    name = type(model).__name__
    axes.plot(100 * found.curve.unseen, 100 * found.curve.seen, color=color, label=f"{name}, AUSUC {found.AUSUC:.1f}")
    plain = found.results()
    axes.plot(plain["U_plain"], plain["S_plain"], "o", color=color, markerfacecolor="none")
    axes.plot(found.U, found.S, "o", color=color)
    print(f"{name}: H {plain['H_plain']:.1f} without a penalty, {found.H:.1f} with {model.seen_penalty:.2f}")

axes.set(xlabel="U: unseen classes right, percent", ylabel="S: seen classes right, percent", xlim=(0, 100), ylim=(0, 100))
axes.legend(loc="lower left")
plt.show()
