"""Run the Python and shell blocks of a tutorial page in order, in the current folder, and write the pages' outputs anew.

``python tutorial_runner.py PAGE`` prints the outputs of the blocks as JSON. It needs the standard library only, so it runs in
any environment in which sightunseen is installed. ``--update`` replaces the outputs that the pages show:

    python tests/docs/tutorial_runner.py --update docs/tutorials/*.md
"""

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
PORTS = ("8000", "8001")  # of servers in the tutorials; free ones are taken instead


@dataclass
class Block:
    """A fenced block: what is run, or the output (``text``) of the block before it."""

    language: str
    content: str
    span: tuple[int, int]


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [Block(found["language"], found["content"], found.span("content")) for found in FENCE.finditer(page)]


def shown_outputs(page: str) -> list[tuple[int, Block]]:
    """Return the outputs that a page shows, each with the index of the block that prints it."""
    blocks = blocks_of(page)
    return [(k - 1, block) for k, block in enumerate(blocks) if block.language == "text" and k and is_run(blocks[k - 1])]


def is_run(block: Block) -> bool:
    """Return whether a block is run: Python, or commands other than the installation."""
    return block.language == "python" or (block.language == "bash" and bool(_commands(block.content).strip()))


def _commands(content: str) -> str:
    """Commands without the installation, which the environment of the test is."""
    return "".join(line for line in content.splitlines(keepends=True) if not line.startswith("pip install"))


def run_page(path: Path) -> list[str]:
    """Run a page in the current folder.

    Parameters
    ----------
    path : Path
        The Markdown file.

    Returns
    -------
    list of str
        Output of every block; empty for blocks that are not run.
    """
    ports = dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
    namespace: dict[str, object] = {"__name__": "__main__"}
    outputs, groups = [], []
    sys.path.insert(0, os.getcwd())
    try:
        for number, block in enumerate(blocks_of(path.read_text("utf-8"))):
            if not is_run(block):
                outputs.append("")
                continue
            content = _replaced(block.content, ports)
            if block.language == "python":
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(content, f"{path.name}, block {number}", "exec"), namespace)
                outputs.append(output.getvalue())
            else:
                outputs.append(_run_commands(_commands(content), groups))
    finally:
        for group in groups:  # servers that were left running
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
    return [_replaced(output, {free: port for port, free in ports.items()}) for output in outputs]


def _run_commands(commands: str, groups: list[int]) -> str:
    # A file instead of a pipe: a server in the background would keep a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        shell = ["bash", "-e", "-o", "pipefail", "-c", commands]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "110"}
        process = subprocess.Popen(shell, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        groups.append(process.pid)
        code = process.wait()
        output.seek(0)
        text = output.read()
    if code:
        raise SystemExit(f"exit code {code} of:\n{commands}\n{text}")
    return text


def _free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [str(listener.getsockname()[1]) for listener in listeners]


def _replaced(text: str, words: dict[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def update(path: Path) -> None:
    """Replace the outputs that a page shows by those of a run in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outputs = run_page(path)
    page = path.read_text("utf-8")
    for index, block in reversed(shown_outputs(page)):
        start, end = block.span
        page = page[:start] + _tidy(outputs[index]) + page[end:]
    path.write_text(page, "utf-8")


def _tidy(output: str) -> str:
    lines = [line.rstrip() for line in output.replace(tempfile.gettempdir(), "/tmp").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


if __name__ == "__main__":
    if sys.argv[1] == "--update":
        for name in sys.argv[2:]:
            update(Path(name).resolve())
    else:
        sys.stdout.write(json.dumps(run_page(Path(sys.argv[1]).resolve())) + "\n")
