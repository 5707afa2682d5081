"""Write and read the lock file of releases: every dependency with its version and the SHA-256 of its wheels.

Run ``python -m release.lock`` from the root of the repository, with the index of packages that pip is configured for. The
versions are those of ``constraints.txt``. PyTorch is left out: its builds for CPUs and for GPUs have one version but different
files, and which of them is wanted depends on the machine.
"""

import json
import os
import re
import ssl
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.request import Request, urlopen

from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "release" / "requirements.txt"
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = ("deep", "hdf5", "onnx", "photos", "ray", "report", "sentence-transformers", "serve", "text", "transformers")
BUILDS_OF_TORCH = re.compile(r"torch|triton|(nvidia|cuda)-.*")
PYTHONS = ("py3", "cp311", "cp312", "cp313", "cp314")
PLATFORMS = re.compile(r"any|manylinux.*_(x86_64|aarch64)|macosx_.*|win_amd64")
HEADER = """\
# Dependencies of sightunseen[{extras}] with the SHA-256 of their wheels.
# Written by: make lock. Resolved for CPython {python} on Linux. PyTorch is not listed; install it first:
#   pip install torch=={torch}
#   pip install --require-hashes --no-deps -r release/requirements.txt
#   pip install --no-deps sightunseen
#   pip check
--only-binary :all:
"""


@dataclass(frozen=True)
class Locked:
    """A locked dependency.

    Parameters
    ----------
    name : str
        Normalised name of the package.
    version : str
        Exact version.
    hashes : tuple of str
        SHA-256 of the wheels that may be installed, sorted.
    """

    name: str
    version: str
    hashes: tuple[str, ...] = ()


def read_lock(path: Path = LOCK) -> list[Locked]:
    """Read a lock file.

    Parameters
    ----------
    path : Path, optional
        The lock file, or a list of exact versions such as ``constraints.txt``.

    Returns
    -------
    list of Locked
        Its dependencies, in the order of the file.

    Raises
    ------
    ValueError
        If a line is not of the form that ``make lock`` writes.
    """
    found = []
    for line in path.read_text("utf-8").replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith(("#", "--only-binary")):
            continue
        matched = re.fullmatch(r"([\w.-]+)==([\w.+!]+)((?:\s+--hash=sha256:[0-9a-f]{64})*)\s*", line)
        if matched is None:
            raise ValueError(f"{path}: expected NAME==VERSION --hash=sha256:..., found {line[:100]!r}. Run: make lock")
        name, version, hashes = matched.groups()
        found.append(Locked(canonicalize_name(name), version, tuple(re.findall(r"[0-9a-f]{64}", hashes))))
    return found


def is_torch(name: str) -> bool:
    """Test whether a package is PyTorch or comes with one of its builds for GPUs.

    Parameters
    ----------
    name : str
        Normalised name of the package.

    Returns
    -------
    bool
        Whether the lock file leaves it out.
    """
    return BUILDS_OF_TORCH.fullmatch(name) is not None


def torch_version() -> str:
    """Look up the version of PyTorch in ``constraints.txt``, without a suffix that names a build."""
    return next(package.version for package in read_lock(CONSTRAINTS) if package.name == "torch").partition("+")[0]


def usable(tag: Tag) -> bool:
    """Test whether wheels with a tag run on CPython 3.11 to 3.14 on 64-bit Linux, macOS or Windows.

    Parameters
    ----------
    tag : packaging.tags.Tag
        Python, ABI and platform of a wheel.

    Returns
    -------
    bool
        Whether the lock file lists the wheel.
    """
    if PLATFORMS.fullmatch(tag.platform) is None:
        return False
    if tag.abi == "abi3":
        return tag.interpreter.startswith("cp3") and int(tag.interpreter[3:]) <= 14
    return tag.interpreter in PYTHONS and tag.abi in ("none", tag.interpreter)


class _Files(HTMLParser):
    """Wheels and their SHA-256 on a page of an index (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.hashes: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the file name and the hash from the address of a link."""
        matched = re.search(r"/([^/#]+\.whl)#sha256=([0-9a-f]{64})$", dict(attrs).get("href") or "")
        if tag == "a" and matched is not None:
            self.hashes[matched[1].replace("%2B", "+")] = matched[2]


def main() -> None:
    """Resolve the dependencies and write the lock file."""
    resolved = _resolve()
    locked = [Locked(name, version, _hashes(name, version, chosen)) for name, version, chosen in sorted(resolved)]
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    header = HEADER.format(extras=",".join(EXTRAS), python=python, torch=torch_version())
    lines = [" \\\n    ".join([f"{p.name}=={p.version}", *(f"--hash=sha256:{h}" for h in p.hashes)]) for p in locked]
    LOCK.write_text(header + "\n".join(lines) + "\n", "utf-8")
    print(f"{LOCK.relative_to(ROOT)}: {len(locked)} packages, {sum(len(p.hashes) for p in locked)} wheels")


def _resolve() -> list[tuple[str, str, str]]:
    """Name, version and SHA-256 of every file that pip would install."""
    options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "-qq", "--report", "-"]
    given = ["--constraint", str(CONSTRAINTS), f"{ROOT}[{','.join(EXTRAS)}]"]
    answer = subprocess.run([*_pip("install"), *options, *given], stdout=subprocess.PIPE, check=True)
    found: list[tuple[str, str, str]] = []
    for item in json.loads(answer.stdout)["install"]:
        name = canonicalize_name(item["metadata"]["name"])
        if name != "sightunseen" and not is_torch(name):
            found.append((name, item["metadata"]["version"], item["download_info"]["archive_info"]["hashes"]["sha256"]))
    return found


def _hashes(name: str, version: str, chosen: str) -> tuple[str, ...]:
    """SHA-256 of all usable wheels of a version; the one that pip chose must be among them."""
    page = _Files()
    page.feed(_page(name))
    hashes = {sha256 for file, sha256 in page.hashes.items() if _is_of(file, version)}
    if chosen not in hashes:
        raise SystemExit(f"{name} {version}: pip found a file that the index does not list. Remove local wheels and try again.")
    return tuple(sorted(hashes))


def _is_of(file: str, version: str) -> bool:
    """Whether a wheel is of a version and of a platform that is listed."""
    if f"-{version}-" not in file:  # most files; names of old files may not follow the standard
        return False
    _, found, _, tags = parse_wheel_filename(file)
    return str(found) == version and any(usable(tag) for tag in tags)


def _page(name: str) -> str:
    """Page of a package on the index that pip is configured for."""
    index, certificates = _configured("index-url"), _configured("cert")
    if index is None:
        from pip._internal.models.index import PyPI  # pip has no public way to ask for its default index

        index = PyPI.simple_url
    request = Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": "text/html"})
    with urlopen(request, timeout=60, context=ssl.create_default_context(cafile=certificates)) as answer:
        return str(answer.read().decode("utf-8"))


@cache
def _configured(option: str) -> str | None:
    """Look up an option of pip in its environment variable and its configuration."""
    variable = os.environ.get(f"PIP_{option.upper().replace('-', '_')}")
    if variable:
        return variable
    answer = subprocess.run([*_pip("config"), "get", f"global.{option}"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def _pip(command: str) -> list[str]:
    return [sys.executable, "-m", "pip", command]


if __name__ == "__main__":
    main()
