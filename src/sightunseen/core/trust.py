"""Names of backbones and text encoders that come from a model folder or a data file: what may be opened without consent.

Whoever wrote a model folder chose these names. Packages such as sentence-transformers and timm take a name for a repository
on the internet, download it and may run code from it. So a name from a file opens only what was installed with this package, an
installed plug-in, a local ONNX file, or a local folder of transformers, whose weights are safetensors and whose code is not
run; anything else needs the consent of the user. Names that the user types need none.
"""

import os
from pathlib import Path

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.plugins import BACKBONES, TEXT_ENCODERS, is_path, load_recorded, plugins

CONSENT = "SIGHTUNSEEN_ALLOW_DOWNLOADS"
PACKAGED = ("all-MiniLM-L6-v2", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
FILE, FOLDER = "onnx:", "hf:"
PREFIXES = (FILE, FOLDER, "st:", "sentence-transformers:", "torchvision:", "timm:", "open_clip:")
GROUPS = {"backbone": BACKBONES, "text encoder": TEXT_ENCODERS}
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
    what : {"backbone", "text encoder"}
        What it names.

    Returns
    -------
    str
        The name.

    Raises
    ------
    SettingsError
        If opening it could download something or run code of others, and the user has not consented.

    Examples
    --------
    >>> check_recorded_name("efficientnet_lite0", "backbone")
    'efficientnet_lite0'
    """
    if name in PACKAGED or name in plugins(GROUPS[what]) or _is_local(name):
        return name
    if is_path(name) and not name.startswith(PREFIXES):  # a plug-in needs a consent of its own
        load_recorded(name, GROUPS[what])
        return name
    if downloads_allowed():
        return name
    raise SettingsError(
        f"the model asks for the {what} '{quoted(name)}'. Opening it may download and run someone else's model. If you trust "
        f"its origin, use --allow-downloads or set {CONSENT}=1."
    )


def _is_local(name: str) -> bool:
    """Tell whether a name is that of an ONNX file, or of an existing folder of transformers, that is not on another machine."""
    prefix = next((known for known in (FILE, FOLDER) if name.startswith(known)), None)
    path = name.removeprefix(prefix or "")
    if prefix is None or path.startswith(REMOTE) or "://" in path or not path.isprintable():
        return False
    return prefix == FILE or Path(path).is_dir()
