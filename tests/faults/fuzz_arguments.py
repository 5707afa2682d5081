"""Random command lines, from the parser of the command line: every option of every command with odd values."""

import argparse
import random
from functools import cache
from typing import Any

from .fuzz_case import Case
from .fuzz_shelf import BACKBONE
from .fuzz_values import odd_number, odd_text

PATHS = (
    *(
        "{shelf}/data",
        "{shelf}/data/features.npz",
        "{shelf}/data/classes.csv",
        "{shelf}/benchmark",
        "{shelf}/model",
        "{shelf}/seer",
    ),
    *("{shelf}/results", "{shelf}/photos", "{shelf}/colours.csv", "{shelf}/photos/seen/red/0.png", "{shelf}/mean.onnx"),
    *(
        "nowhere",
        "empty",
        "file",
        "file.csv",
        "file.npz",
        "file.json",
        "file.html",
        "pipe",
        "pipe.csv",
        "pipe.npy",
        "link",
        ".",
        "..",
        "/",
        "/dev/null",
    ),
    *(
        "/dev/zero",
        "/dev/null/x",
        "/proc/self/environ",
        "/proc/1/mem",
        "file/below",
        "a" * 300,
        "a/" * 3000,
        "\x00",
        "é",
        "",
        " ",
    ),
)
FILES: dict[str, Any] = {
    **dict.fromkeys(("file", "file.csv", "file.npz", "file.json", "file.html"), b"text"),
    "empty": {"kind": "folder"},
    "pipe": {"kind": "fifo"},
    "pipe.csv": {"kind": "fifo"},
    "pipe.npy": {"kind": "fifo"},
    "link": {"kind": "link", "to": "link"},
}
# Valid work of these commands has no bound, or does not end: they get arguments that are refused.
ENDLESS = {"serve": ["--port", "-1"], "demo": ["--out", "file"], "ablate": ["--out", "file"]}
LONG_NAMES = ("n_steps", "rounds", "steps_per_round")


@cache
def commands() -> dict[tuple[str, ...], tuple[argparse.Action, ...]]:
    """Options and positional arguments of each command."""
    from sightunseen.cli import build_parser

    found: dict[tuple[str, ...], tuple[argparse.Action, ...]] = {}

    def visit(parser: argparse.ArgumentParser, name: tuple[str, ...]) -> None:
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for action in below:
            for verb, other in action.choices.items():
                visit(other, (*name, verb))
        if not below:
            found[name] = tuple(action for action in parser._actions if action.dest not in ("help", "debug"))

    visit(build_parser(), ())
    return found


def random_arguments(r: random.Random) -> Case:
    """A command with odd values for some of its options."""
    name = r.choice(list(commands()))
    actions = commands()[name]
    given: list[str] = []
    outputs: list[str] = []
    for action in actions:
        if not action.option_strings:
            given += _positional(r, name, action)
        elif action.required or r.random() < 0.25:
            option = _option(r, name, action)
            if action.dest in ("out", "onnx", "linear", "figures", "save"):
                outputs.append(option[-1] if len(option) > 1 else option[0].partition("=")[2] or "new")
            given += option
    if name[0] in ENDLESS:
        given += ENDLESS[name[0]]
    if name[0] == "classes" and "--out" not in given and len(name) > 1 and name[1] != "list":
        given += ["--out", "new"]
        outputs.append("new")
    if r.random() < 0.1:
        given.insert(r.randrange(len(given) + 1), r.choice((odd_text(r), "--", "--help", "--nonsense", "-", "--debug=1")))
    arguments = [*name, *given]
    arguments = [argument.replace("\x00", "") for argument in arguments]  # no process gets such an argument
    arguments = [argument for argument in arguments if argument != "--debug"]
    return Case(arguments, dict(FILES), [*outputs, "new"], long=name[0] in ("train", "adapt", "benchmark", "ablate", "report"))


def _positional(r: random.Random, name: tuple[str, ...], action: argparse.Action) -> list[str]:
    valid = {
        "model": ["{shelf}/model", "{shelf}/seer"],
        "subject": ["{shelf}/model", "{shelf}/results"],
        "data": ["{shelf}/data", "{shelf}/benchmark", "{shelf}/photos"],
        "images": ["{shelf}/data/features.npz", "{shelf}/photos"],
        "results": ["{shelf}/results"],
        "plan": ["robustness", "two-cores", "nowhere.toml"],
    }
    if action.nargs == "?" and r.random() < 0.5:
        return []
    if name[0] == "ablate":
        return [r.choice(PATHS[11:])]
    return [r.choice(valid.get(action.dest, list(PATHS))) if r.random() < 0.7 else r.choice((*PATHS, odd_text(r)))]


def _option(r: random.Random, name: tuple[str, ...], action: argparse.Action) -> list[str]:
    option = r.choice(action.option_strings)
    if action.nargs == 0:
        return [option]
    if action.choices is not None:
        value = r.choice([str(choice) for choice in action.choices]) if r.random() < 0.8 else odd_text(r)
    elif action.dest in ("set", "search"):
        value = _setting(r)
    elif action.dest == "backbone":
        value = BACKBONE if r.random() < 0.5 else odd_text(r)
    elif action.dest == "out" and r.random() < 0.7:
        value = "new" + r.choice(("", ".csv", ".npz", ".html", ".json", ".parquet"))
    elif action.dest == "seeds" and r.random() < 0.5:
        value = r.choice(("1", "100000001", "99999999999999999999", "0", "-1"))
    elif r.random() < 0.4:
        value = r.choice(PATHS)
    else:
        value = str(odd_number(r)) if r.random() < 0.6 else odd_text(r)
    return [f"{option}={value}"] if r.random() < 0.3 else [option, value]


def _setting(r: random.Random) -> str:
    names = (
        "shrinkage",
        "noise",
        "generator",
        "feature_scaling",
        "hidden",
        "seed",
        "device",
        "learning_rate",
        "q",
        odd_text(r, 50),
    )
    values = (
        str(odd_number(r)),
        odd_text(r),
        "[" * 300,
        "(" * 5000,
        "1," * 30,
        "[1,2]",
        "{'a':1}",
        "'x'",
        "0.1",
        "linear",
        "1_000",
        "1j",
    )
    return f"{r.choice(names)}={r.choice(values)}"
