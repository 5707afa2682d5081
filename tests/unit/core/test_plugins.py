"""Imports of plug-ins: names that a user gives, and names that a file gives."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightunseen.core import plugins
from sightunseen.core.errors import SettingsError
from sightunseen.core.plugins import METHODS, allow_plugins, import_path, is_path, load_object, load_recorded, plugin_of


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a class, which can be imported."""
    folder = tmp_path / "plugged_in"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "other.py").write_text("Thing = 1\n")
    (folder / "deep.py").write_text("class Thing:\n    def fail(self):\n        return {}['wings']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv(plugins.CONSENT, raising=False)
    monkeypatch.setattr(plugins, "_FOLDERS", {})
    plugins.plugins.cache_clear()
    yield tmp_path
    plugins.plugins.cache_clear()
    for name in ("plugged_in", "plugged_in.deep"):
        sys.modules.pop(name, None)


def install(package: Path, path: str = "plugged_in.deep:Thing") -> None:
    info = package / "plugged_in-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-in\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[sightunseen.methods]\nmine = {path}\n")


@pytest.mark.parametrize(
    "name", ["", ":", "module", "module:", ":name", "a b:c", "a.:c", "onnx:f.onnx", "a:b:c", "../a:b", "a:b.c"]
)
def test_other_names_are_no_paths(name: str) -> None:
    assert not is_path(name)
    with pytest.raises(SettingsError, match="neither an entry point"):
        load_object(name, METHODS)


def test_path_and_entry_point_give_the_same_object(package: Path) -> None:
    found = load_object("plugged_in.deep:Thing", METHODS)
    assert import_path(found) == "plugged_in.deep:Thing"
    install(package)
    plugins.plugins.cache_clear()
    assert load_object("mine", METHODS) is found
    assert plugins.plugins(METHODS)["mine"].dist.version == "2.0"


def test_current_folder_is_searched_last(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(package))])
    monkeypatch.chdir(package)
    (package / "json.py").write_text("raise RuntimeError\n")
    load_object("plugged_in.deep:Thing", METHODS)
    assert sys.path[-1] == str(package)
    assert load_object("json:loads", METHODS)("1") == 1


def test_file_may_not_name_a_plugin(package: Path) -> None:
    for path in ("plugged_in.deep:Thing", "os:abort", "os:system", "mine", "", "a b"):
        with pytest.raises(SettingsError, match="--allow-plugin"):
            load_recorded(path, METHODS)
    assert "plugged_in" not in sys.modules


def test_file_may_name_an_installed_plugin(package: Path) -> None:
    install(package)
    assert load_recorded("plugged_in.deep:Thing", METHODS).__name__ == "Thing"
    for path in ("plugged_in.deep:Other", "plugged_in.other:Thing"):
        with pytest.raises(SettingsError, match="--allow-plugin"):
            load_recorded(path, METHODS)
    assert "plugged_in.other" not in sys.modules


def test_entry_point_may_name_a_module_that_imports_the_plugin(package: Path) -> None:
    install(package, "plugged_in:Thing")
    (package / "plugged_in" / "__init__.py").write_text("from plugged_in.deep import Thing as Thing\n")
    assert import_path(load_object("mine", METHODS)) == "plugged_in.deep:Thing"
    assert load_recorded("plugged_in.deep:Thing", METHODS).__name__ == "Thing"


def test_file_may_name_an_allowed_plugin(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="--allow-plugin"):
        load_recorded("plugged_in.deep:Thing", METHODS, allow=["plugged_in.deep:Other"])
    assert load_recorded("plugged_in.deep:Thing", METHODS, allow=["plugged_in.deep:Thing"]).__name__ == "Thing"
    monkeypatch.setenv(plugins.CONSENT, "a:b")
    allow_plugins(["plugged_in.deep:Thing"])
    assert load_recorded("plugged_in.deep:Thing", METHODS).__name__ == "Thing"


def test_imported_subclasses_need_no_permission(package: Path) -> None:
    found = load_object("plugged_in.deep:Thing", METHODS)
    assert load_recorded("plugged_in.deep:Thing", METHODS, base=found) is found
    for path, base in (("plugged_in.deep:Thing", int), ("plugged_in.deep:Thing", None), ("os:abort", object)):
        with pytest.raises(SettingsError, match="--allow-plugin"):
            load_recorded(path, METHODS, base=base)


def test_error_belongs_to_the_plugin_in_whose_code_it_was_raised(package: Path) -> None:
    thing = load_object("plugged_in.deep:Thing", METHODS)()
    with pytest.raises(KeyError) as caught:
        thing.fail()
    assert plugin_of(caught.value) == ("plugged_in.deep:Thing", f"{package / 'plugged_in' / 'deep.py'}:3")
    with pytest.raises(KeyError) as caught:
        {}["wings"]
    assert plugin_of(caught.value) is None
