"""Names of backbones and text encoders that come from a model folder or a data file: what may be opened without consent.

Whoever wrote a model folder chose these names. Packages such as sentence-transformers and timm take a name for a repository
on the internet, download it and may run code from it. So a name from a file opens only what was installed with this package,
or a local ONNX file; anything else needs the consent of the user. Names that the user types need none.
"""

import os

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError

CONSENT = "SIGHTUNSEEN_ALLOW_DOWNLOADS"
PACKAGED = ("all-MiniLM-L6-v2", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
LOCAL = "onnx:"
REMOTE = ("//", "\\\\", "/\\", "\\/")  # beginnings of paths that Windows opens over the network


def downloads_allowed() -> bool:
    """Return whether the user has consented to open what files of others name: ``SIGHTUNSEEN_ALLOW_DOWNLOADS=1``."""
    return os.environ.get(CONSENT) == "1"


def allow_downloads() -> None:
    """Consent, for this process and those it starts, to open what files of others name."""
    os.environ[CONSENT] = "1"


def check_recorded_name(name: str, what: str) -> str:
    """Check the name of a backbone or text encoder that a model folder or a data file asks for.

    Parameters
    ----------
    name : str
        The name.
    what : str
        Kind of thing it names, for the error message.

    Returns
    -------
    str
        The name.

    Raises
    ------
    SettingsError
        If opening it could download something and the user has not consented.

    Examples
    --------
    >>> check_recorded_name("efficientnet_lite0", "backbone")
    'efficientnet_lite0'
    """
    path = name.removeprefix(LOCAL)
    local = name.startswith(LOCAL) and not path.startswith(REMOTE) and "://" not in path and path.isprintable()
    if name in PACKAGED or local or downloads_allowed():
        return name
    raise SettingsError(
        f"the model asks for the {what} '{quoted(name)}'. Opening it may download and run someone else's model. If you trust "
        f"its origin, use --allow-downloads or set {CONSENT}=1."
    )
