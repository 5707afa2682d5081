"""No module reads a format that can run code: checked on the syntax tree of every file of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightunseen

FILES = sorted(Path(sightunseen.__file__).parent.rglob("*.py"))
# Modules whose readers run what they read, and functions that run text.
FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "pandas"}
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "os.system", "os.popen", "torch.hub.load", "torch.jit.load", "torch.package.PackageImporter",
    "torch.serialization.add_safe_globals", "numpy.loads", "subprocess.run", "subprocess.Popen", "subprocess.call",
    "subprocess.check_output", "subprocess.check_call",
}  # fmt: skip
IMPORTING = ("import_module", "__import__", "needed")
# Readers that are safe only with a given value of a keyword.
REQUIRED_KEYWORDS = {
    "torch.load": ("weights_only", True),
    "numpy.load": ("allow_pickle", False),
    "numpy.save": ("allow_pickle", False),
    "numpy.lib.format.read_array": ("allow_pickle", False),
    "numpy.lib.format.write_array": ("allow_pickle", False),
    "numpy.lib.npyio.NpzFile": ("allow_pickle", False),
}


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Full names, by the local names that import statements give them."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name.partition(".")[0]: each.name if each.asname else each.name.partition(".")[0]
                      for each in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import, also of ``import_module("...")``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, each.name.partition(".")[0]) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(IMPORTING):
            yield from (
                (node.lineno, str(each.value).partition(".")[0]) for each in node.args if isinstance(each, ast.Constant)
            )


def unsafe(source: str) -> list[str]:
    """Lines of a module that read, or could read, a format that can run code."""
    tree = ast.parse(source)
    names = imported_names(tree)
    found = [f"line {line}: imports {module}" for line, module in imported_modules(tree) if module in FORBIDDEN_MODULES]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, _, rest = ast.unparse(node.func).partition(".")
        name = names.get(first, first) + (f".{rest}" if rest else "")
        if name in FORBIDDEN_CALLS:
            found.append(f"line {node.lineno}: calls {name}")
        keyword, value = REQUIRED_KEYWORDS.get(name, (None, None))
        if keyword and not any(
            each.arg == keyword and isinstance(each.value, ast.Constant) and each.value.value is value for each in node.keywords
        ):
            found.append(f"line {node.lineno}: calls {name} without {keyword}={value}")
    return found


def test_no_module_reads_a_format_that_can_run_code() -> None:
    found = {str(path): unsafe(path.read_text("utf-8")) for path in FILES}
    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import numpy as np\nnp.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=flag)",
        "from numpy import load as read\nread(path)",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "from torch import load\nload(path, None)",
        "import numpy as np\nnp.lib.format.read_array(file)",
        "from importlib import import_module\nimport_module('pickle')",
        "eval(text)",
        "import os\nos.system(text)",
    ],
)
def test_unsafe_readers_are_recognised(source: str) -> None:
    assert unsafe(source)


@pytest.mark.parametrize("source", ["import numpy as np\nnp.load(p, allow_pickle=False)", "import ast\nast.literal_eval(text)"])
def test_safe_readers_are_accepted(source: str) -> None:
    assert unsafe(source) == []
