"""Files of a release agree with the package: README of the package index, containers, citation, changelog, extras."""

import json
import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import yaml

from sightunseen import __version__
from sightunseen.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
RELATIVE = re.compile(r"\]\((?!https?://|#)[^)]+\)")
REPOSITORY = "https://example.org/team/sightunseen"


def build_hook() -> Any:
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def extras() -> dict[str, list[str]]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["optional-dependencies"]


def test_readme_of_the_index_has_absolute_links_and_pictures() -> None:
    assert RELATIVE.search(README)
    text = build_hook().readme_for_index(README, REPOSITORY, "v1")
    assert not RELATIVE.search(text)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture.removeprefix(f"{REPOSITORY}/raw/v1/")).is_file()


def test_readme_without_repository_has_neither_pictures_nor_dead_links() -> None:
    text = build_hook().readme_for_index(README, None, "v1")
    assert not RELATIVE.search(text)
    assert "![" not in text
    assert "Glossary" in text


def test_dockerfile_copies_existing_files_and_starts_an_existing_command() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    start = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith(("ENTRYPOINT", "CMD"))]
    program, *arguments = start[0] + start[1]
    assert program == "sightunseen"
    args = build_parser().parse_args(arguments)
    assert (arguments[0], args.model, args.host) == ("serve", Path("/models/model"), "0.0.0.0")
    wanted = next(line for line in lines if line.startswith("ARG EXTRAS=")).partition("=")[2].split(",")
    assert set(wanted) <= set(extras())


def test_compose_file_starts_an_existing_command() -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["sightunseen"]
    args = build_parser().parse_args(["serve", "--host", "0.0.0.0", *service["command"]])
    assert args.save
    assert service["volumes"][0].endswith(f":{args.model.parent}")


def test_citation_and_changelog_name_the_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == __version__
    assert re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[0] == __version__


def test_extra_all_contains_every_extra_for_users() -> None:
    for_developers = {"all", "dev", "docs", "fuzz", "supply"}
    (everything,) = extras()["all"]
    listed = everything.removeprefix("sightunseen[").removesuffix("]").split(",")
    assert set(listed) == set(extras()) - for_developers
