"""Build hook: the README of the package, in which links and pictures work outside the repository.

Relative links need the address of the repository: ``SIGHTUNSEEN_REPOSITORY=https://HOST/OWNER/NAME python -m build``.
Without it, links become plain text and pictures are left out.
"""

import os
import re
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def readme_for_index(text: str, repository: str | None, tag: str) -> str:
    """Replace relative links by absolute ones.

    Parameters
    ----------
    text : str
        Markdown with links relative to the root of the repository.
    repository : str or None
        Address of the repository. None: links become plain text, and pictures are left out.
    tag : str
        Tag or branch that the links point to.

    Returns
    -------
    str
        Markdown without relative links.
    """

    def absolute(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        if repository is None:
            return "" if picture else label
        return f"{picture}[{label}]({repository.rstrip('/')}/{'raw' if picture else 'blob'}/{tag}/{target})"

    return LINK.sub(absolute, text)


class ReadmeHook(MetadataHookInterface):
    """Set the field ``readme`` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md and replace its relative links."""
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            text = file.read()
        repository = os.environ.get("SIGHTUNSEEN_REPOSITORY")
        readme = readme_for_index(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        if repository is not None:
            metadata["urls"] = {"Repository": repository}
