"""Compare the dependencies of a release with a database of known vulnerabilities, by pip-audit.

Run ``python -m release.audit`` from the root of the repository. Exit codes: 0, no known vulnerability, or the database cannot
be reached, which is said; 1, a known vulnerability; 2, pip-audit failed, or the audit is ``--required`` and was not made.

pip-audit's own exit code cannot be used: it is 1 both for a vulnerability and for a failed connection, and 0 if the database
knows none of the packages, as where a mirror of the index stands in for it. So its report is read.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from release.lock import read_lock, torch_version

CONNECTION_SECONDS = 10  # for one answer of the database
ALL_SECONDS = 300
# The exception at the end of pip-audit's traceback, or its own message.
NOT_REACHED = re.compile(
    r"^requests\.exceptions\.\w+|^pip_audit\._service\.interface\.(Connection|Service)Error|Could not connect to .*",
    re.MULTILINE,
)


def judge(report: dict[str, Any]) -> tuple[int, str]:
    """Decide from a report of pip-audit.

    Parameters
    ----------
    report : dict
        Report in the format ``json``.

    Returns
    -------
    code : int
        1 if there is a known vulnerability, 0 if there is none, -1 if no package was audited.
    message : str
        What was found.
    """
    packages = report["dependencies"]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    found = [(package, vulnerability) for package in packages for vulnerability in package.get("vulns", [])]
    if found:
        lines = [
            f"{package['name']} {package['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no release'}"
            for package, one in found
        ]
        return 1, "known vulnerabilities:\n  " + "\n  ".join(lines)
    if len(unknown) == len(packages):
        return -1, f"the database knows none of the {len(packages)} packages"
    note = f"; not in the database: {', '.join(unknown)}" if unknown else ""
    return 0, f"no known vulnerability in {len(packages) - len(unknown)} packages{note}"


def audit(options: list[str], seconds: float = ALL_SECONDS) -> tuple[int, str]:
    """Audit the locked packages and PyTorch.

    Parameters
    ----------
    options : list of str
        Further options of pip-audit, such as ``--ignore-vuln ID``.
    seconds : float, optional
        Time after which the database counts as not reached.

    Returns
    -------
    code : int
        1 if there is a known vulnerability, 0 if there is none, -1 if the database was not reached, 2 if pip-audit failed.
    message : str
        What was found.
    """
    versions = [f"{package.name}=={package.version}" for package in read_lock()] + [f"torch=={torch_version()}"]
    with tempfile.TemporaryDirectory() as folder:
        given, report = Path(folder, "packages.txt"), Path(folder, "report.json")
        given.write_text("\n".join(versions), "utf-8")
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(given), "--no-deps", "--disable-pip"]
        command += ["--format", "json", "--output", str(report), "--progress-spinner", "off"]
        command += ["--timeout", str(CONNECTION_SECONDS), *options]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return -1, f"no answer of the database within {seconds:g} s"
        if report.is_file() and report.stat().st_size:
            return judge(json.loads(report.read_text("utf-8")))
    reason = NOT_REACHED.search(answer.stderr)
    if reason is not None:
        return -1, f"the database cannot be reached ({reason[0]})"
    return 2, f"pip-audit exited with code {answer.returncode}:\n{answer.stderr[-2000:]}"


def main() -> int:
    """Audit, say what was found, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the dependencies of a release with known vulnerabilities.")
    parser.add_argument("--required", action="store_true", help="exit with code 2 if the database cannot be reached")
    args, options = parser.parse_known_args()
    code, message = audit(options)
    print(f"NOT AUDITED: {message}" if code == -1 else message)
    return 2 * args.required if code == -1 else code


if __name__ == "__main__":
    sys.exit(main())
