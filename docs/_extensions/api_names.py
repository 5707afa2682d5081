"""Names in the API reference: one page per public object, under the name that users import.

Docstrings refer to objects by the module that defines them. Such a reference leads to the page of the public name; one to an
object without a page becomes plain code, if the object exists.
"""

import importlib
import sys
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

PACKAGE = "sightunseen"


@cache
def found(name: str) -> Any:
    """Return the object of a dotted name, or None if there is none."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        return _attribute(module, parts[cut:])
    return None


def _attribute(value: Any, names: list[str]) -> Any:
    for name in names:
        value = getattr(value, name, None)
    return value


def _meant(target: str, page: str) -> Any:
    """Object that a docstring means: a full name, a member of the class of this page, or a name of any module."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(PACKAGE)]
    if target.startswith(f"{PACKAGE}."):
        return found(target)
    places = [found(page), *modules] if page.startswith(PACKAGE) else modules
    return next((value for place in places if (value := _attribute(place, target.split("."))) is not None), None)


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Node) -> nodes.Node | None:
    """Resolve a reference to an object of the package by identity instead of by name."""
    if node.get("refdomain") != "py":
        return None
    wanted = _meant(node["reftarget"], env.docname.rpartition("/")[2])
    if wanted is None:
        return None
    for name, entry in env.domaindata["py"]["objects"].items():
        if found(name) is wanted:
            return make_refnode(app.builder, env.docname, entry.docname, entry.node_id, content, name)
    return content


def skip(app: Sphinx, what: str, name: str, obj: object, skipped: bool, options: object) -> bool | None:
    """Leave out the methods of scikit-learn's metadata routing."""
    return True if name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request")) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the resolver."""
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
