"""Docstrings of the public interface follow numpydoc, and every parameter that a docstring names exists."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from numpydoc.validate import validate

import sightunseen
from sightunseen.methods import METHODS

COMPLETE = {  # sections complete, in order and well formed
    *("GL01", "GL03", "GL05", "GL06", "GL07", "GL08", "SS02", "SS03", "SS04"),
    *("PR01", "PR02", "PR03", "PR04", "PR06", "PR07", "PR08", "PR09", "PR10", "RT01", "RT02", "RT03", "RT04", "RT05", "YD01"),
}
EXAMPLE = "EX01"
CONSISTENT = {"GL06", "GL08", "PR02", "PR10", "SS03"}  # what every public definition must keep to
VERBS = ("fit", "predict", "predict_proba", "decision_function", "score", "add_classes", "remove_classes", "save", "load")


def entry_points() -> list[str]:
    """The top-level names and the estimators, with the methods that users call."""
    names = {f"{vars_of.__module__}.{vars_of.__qualname__}" for vars_of in _top_level()}
    classes = [*METHODS.values(), sightunseen.ZeroShotSearchCV, sightunseen.CVC]
    names |= {f"{one.__module__}.{one.__qualname__}" for one in classes}
    for one in classes:
        for verb in (*VERBS, "adapt"):
            found = inspect.getattr_static(one, verb, None)
            if found is not None:
                found = getattr(one, verb)
                names.add(f"{found.__module__}.{found.__qualname__}")
    return sorted(names)


def _top_level() -> Iterator[type]:
    for name in sightunseen.__all__:
        found = getattr(sightunseen, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            yield found


def public_definitions() -> Iterator[str]:
    for module in pkgutil.walk_packages(sightunseen.__path__, "sightunseen."):
        if any(part.startswith("_") or part.endswith("kernels") for part in module.name.split(".")):
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            defined_here = getattr(found, "__module__", None) == module.name
            if defined_here and not name.startswith("_") and (inspect.isclass(found) or inspect.isfunction(found)):
                yield f"{module.name}.{name}"


def faults(name: str, codes: set[str]) -> list[str]:
    return [f"{code}: {text}" for code, text in validate(name)["errors"] if code in codes]


@pytest.mark.parametrize("name", entry_points())
def test_entry_points_are_documented_completely(name: str) -> None:
    has_example = _object(name) not in (None, sightunseen.Evaluation)  # a method of a class, and what ``evaluate`` returns
    wanted = COMPLETE | ({EXAMPLE} if has_example else set())
    assert faults(name, wanted) == []


def test_every_public_definition_is_documented_consistently() -> None:
    found = {name: wrong for name in public_definitions() if (wrong := faults(name, CONSISTENT))}
    assert found == {}


def _object(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return None  # a method of a class
