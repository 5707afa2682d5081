"""Names of the variants of a method in tables and figures."""

from sightunseen.methods.base.presets import BUDGETS, QUICK

OWN, SEARCHED = "own", "searched"
SCALINGS = (OWN, SEARCHED)  # the feature scaling of the method, or one chosen on validation classes


def kind_of_preset(name: str) -> str:
    """Name of a budget or preset in rows over several data sets, where presets for one data set each are one.

    Parameters
    ----------
    name : str
        Budget or preset.

    Returns
    -------
    str
        The budget, or the preset without the name of the data set.

    Examples
    --------
    >>> kind_of_preset("full"), kind_of_preset("paper-cub")
    ('full', 'paper')
    """
    return name if name in BUDGETS else name.partition("-")[0]


def variant_name(label: str, budget: str = "", scaling: str = OWN, selection: str = "validation") -> str:
    """Name a variant of a method; two rows of one table have different names.

    Parameters
    ----------
    label : str
        Name of the method in tables.
    budget : str, default=""
        Budget or preset. The budget ``quick`` is not named.
    scaling : {"own", "searched"}, default="own"
        Feature scaling.
    selection : {"validation", "none", "oracle"}, default="validation"
        How hyperparameters are selected.

    Returns
    -------
    str
        The label with what differs from the usual in parentheses.

    Examples
    --------
    >>> variant_name("CVC"), variant_name("CVC", "full", "searched")
    ('CVC', 'CVC (full, searched scaling)')
    """
    parts = [budget if budget != QUICK else "", "" if scaling == OWN else f"{scaling} scaling"]
    parts.append("" if selection == "validation" else selection)
    named = ", ".join(filter(None, parts))
    return f"{label} ({named})" if named else label
