"""Write a CycloneDX bill of materials of the installed environment and of the weights that packages contain.

Run ``python -m release.sbom FILE`` from the root of the repository, with the Python of the environment. The same environment
gives the same bytes: there is no serial number, and a time only if ``SOURCE_DATE_EPOCH`` is set. External references are left
out, because they may name the index or the folder that a package was installed from.
"""

import argparse
import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from release.lock import ROOT, is_torch, read_lock
from sightunseen._version import __version__
from sightunseen.core.weights import PINNED


def describe() -> dict[str, Any]:
    """Describe the environment of this Python.

    Returns
    -------
    dict
        Bill of materials in CycloneDX 1.6. Packages that only development needs have the scope ``excluded``.
    """
    options = ["--mc-type", "library", "--output-reproducible", "--short-PURLs", "--no-validate", "--sv", "1.6"]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *options, "--pyproject", str(ROOT / "pyproject.toml")]
    answer = subprocess.run([*command, sys.prefix], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"cyclonedx-py exited with code {answer.returncode}:\n{answer.stderr}")
    found: dict[str, Any] = _without_references(json.loads(answer.stdout))
    found["metadata"]["component"]["version"] = __version__
    locked = {package.name for package in read_lock()}
    for component in found["components"]:
        name = canonicalize_name(component["name"])
        component["scope"] = "required" if name in locked or is_torch(name) else "excluded"
    found["components"] += _weights()
    return found


def validate(content: str) -> None:
    """Check a bill of materials against the schema of CycloneDX.

    Parameters
    ----------
    content : str
        The JSON document.

    Raises
    ------
    ValueError
        If it is not valid.
    """
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(content)
    if error is not None:
        raise ValueError(f"the bill of materials does not follow the schema of CycloneDX 1.6: {error}")


def _weights() -> list[dict[str, Any]]:
    """Components of the pinned weights whose package is installed: origin, licence and the SHA-256 of every file."""
    installed = {canonicalize_name(each.name) for each in distributions()}
    return [
        {
            "type": "machine-learning-model",
            "bom-ref": f"weights:{name}",
            "name": name,
            "version": weights.version,
            "scope": "required",
            "description": f"{weights.origin}. In the package {weights.package}.",
            "licenses": [{"license": {"name": weights.licence}}],
            "components": [
                {"type": "file", "name": file, "hashes": [{"alg": "SHA-256", "content": sha256}]}
                for file, sha256 in sorted(weights.files.items())
            ],
        }
        for name, weights in sorted(PINNED.items())
        if canonicalize_name(weights.package) in installed
    ]


def _without_references(value: Any) -> Any:
    """Copy of a document without its external references."""
    if isinstance(value, list):
        return [_without_references(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_references(item) for key, item in value.items() if key != "externalReferences"}
    return value


def main() -> None:
    """Write the bill of materials to the file that was named."""
    parser = argparse.ArgumentParser(description="Write a CycloneDX bill of materials of the installed environment.")
    parser.add_argument("file", metavar="FILE", type=Path, help="JSON file to write")
    file = parser.parse_args().file
    described = describe()
    content = json.dumps(described, indent=2, sort_keys=True) + "\n"
    validate(content)
    file.write_text(content, "utf-8")
    print(f"{file}: {len(described['components'])} components")


if __name__ == "__main__":
    main()
