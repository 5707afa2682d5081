"""Checkpoints of transformers and sentence-transformers: a local folder, or a repository on the Hugging Face hub.

Only weights in safetensors files are loaded, and no code of a checkpoint is run.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError, SightUnseenError
from sightunseen.core.extras import needed

PREFIX = "hf:"
INSTALL = "'sightunseen[transformers]'"
SECONDS = 5  # until a hub that does not answer counts as unreachable
REPOSITORY = re.compile(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?", re.ASCII)


@dataclass(frozen=True)
class Origin:
    """Location of a checkpoint.

    Parameters
    ----------
    place : str
        Local folder, or name of a repository on the hub.
    revision : str, default=None
        Commit, tag or branch of the repository.
    local : bool, default=False
        Whether nothing is downloaded: the place is a local folder, or the hub cannot be reached.
    """

    place: str
    revision: str | None = None
    local: bool = False

    @classmethod
    def of(cls, name: str) -> "Origin":
        """Parse ``PREFIX:FOLDER``, ``PREFIX:REPOSITORY`` or ``PREFIX:REPOSITORY@REVISION``.

        Parameters
        ----------
        name : str
            Name of a backbone or text encoder.

        Returns
        -------
        Origin
            The location.

        Raises
        ------
        SettingsError
            If there is no such folder and the name cannot be that of a repository.

        Examples
        --------
        >>> Origin.of("hf:google/siglip2-base-patch16-224@main")
        Origin(place='google/siglip2-base-patch16-224', revision='main', local=False)
        """
        place = name.partition(":")[2]
        if place and Path(place).is_dir():
            return cls(place, local=True)
        repository, _, revision = place.partition("@")
        if not REPOSITORY.fullmatch(repository):
            raise SettingsError(
                f"'{quoted(name)}' is neither an existing folder nor a repository such as openai/clip-vit-large-patch14. "
                "Correct the path or the name."
            )
        return cls(repository, revision or None)

    def reached(self) -> "Origin":
        """Ask the hub for the repository, with a short time limit.

        The packages themselves ask many times, with long pauses, before they use files of an earlier download.

        Returns
        -------
        Origin
            This location; if the hub cannot be reached, one that is restricted to files of earlier downloads.

        Raises
        ------
        SettingsError
            If the hub has no such repository or revision.
        """
        if self.local:
            return self
        hub = needed("huggingface_hub", INSTALL)
        absent = (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError)
        try:
            hub.HfApi().model_info(self.place, revision=self.revision, timeout=SECONDS)
        except absent as error:
            raise SettingsError(
                f"the Hugging Face hub has no repository '{quoted(self.place)}' with revision "
                f"'{quoted(self.revision or 'main')}', or you have no access to it. Correct the name."
            ) from error
        except Exception:  # no connection, offline mode, an error of the server
            return replace(self, local=True)
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of ``from_pretrained``: no code of others, and no download of what is local."""
        return {"revision": self.revision, "local_files_only": self.local, "trust_remote_code": False}


@dataclass(frozen=True)
class Checkpoint:
    """A network of transformers with its weights.

    Parameters
    ----------
    name : str
        Name that it was opened by.
    origin : Origin
        Location of its files.
    network : torch.nn.Module
        The network in single precision, for inference.
    digest : str
        SHA-256 of the parameters in the order of their names.
    is_dual : bool
        Whether it is a dual encoder: images and texts are embedded in one space.
    """

    name: str
    origin: Origin
    network: Any
    digest: str
    is_dual: bool


@lru_cache(maxsize=2)
def open_checkpoint(name: str, device: str = "auto") -> Checkpoint:
    """Open a network of transformers; the two most recent ones stay in memory, shared by image and text side.

    Parameters
    ----------
    name : str
        ``hf:FOLDER``, ``hf:REPOSITORY`` or ``hf:REPOSITORY@REVISION``.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device that the caller moves the network to. Networks on different devices are not shared.

    Returns
    -------
    Checkpoint
        The network.

    Raises
    ------
    SettingsError
        If the checkpoint cannot be loaded, has no safetensors files or lacks weights.
    MissingDependencyError
        If transformers or torch is not installed.
    """
    needed("torch", INSTALL, f"'{quoted(name)}'")
    transformers = needed("transformers", INSTALL, f"'{quoted(name)}'")
    origin = Origin.of(name).reached()
    load = transformers.AutoModel.from_pretrained
    options = {**origin.options, "use_safetensors": True, "dtype": "float32", "output_loading_info": True}
    network, info = loaded(name, lambda: load(origin.place, **options))
    unused = {key for key in info["missing_keys"] if "pooler.dense" in key}  # of ViT: not part of the features
    lacking = sorted({*info["missing_keys"]} - unused)
    if lacking:
        raise SettingsError(
            f"the checkpoint '{quoted(name)}' lacks {len(lacking)} weights (first: {quoted(lacking[0])}), which would be "
            "random. Choose a complete checkpoint."
        )
    network = network.eval().requires_grad_(False)
    is_dual = all(hasattr(network, f"get_{side}_features") for side in ("image", "text"))
    return Checkpoint(name, origin, network, parameter_digest(network, unused), is_dual)


def loaded(name: str, load: Callable[[], Any]) -> Any:
    """Load a part of a checkpoint without messages; every failure becomes a ``SettingsError``.

    Parameters
    ----------
    name : str
        Name of the checkpoint, for the error message.
    load : callable
        Loads the part.

    Returns
    -------
    object
        The part.

    Raises
    ------
    SettingsError
        If it cannot be loaded.
    """
    try:
        with _quiet():
            return load()
    except SightUnseenError:
        raise
    except Exception as error:  # a missing or damaged file, an unknown architecture, a failed download
        raise SettingsError(
            f"the checkpoint '{quoted(name)}' cannot be opened ({type(error).__name__}: {quoted(error, 240)}). Expected a "
            "folder or repository of transformers with safetensors weights."
        ) from error


def parameter_digest(network: Any, without: Collection[str] = ()) -> str:
    """Compute the SHA-256 of all parameters and buffers, in the order of their names.

    Parameters
    ----------
    network : torch.nn.Module
        The network.
    without : collection of str, default=()
        Names of parameters to leave out.

    Returns
    -------
    str
        The digest.
    """
    byte = needed("torch", INSTALL).uint8
    digest = hashlib.sha256()
    for key, tensor in sorted((key, tensor) for key, tensor in network.state_dict().items() if key not in without):
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(byte).numpy().data)
    return digest.hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tables and progress bars of transformers; bars of downloads stay."""
    logging = needed("transformers.utils.logging", INSTALL)
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    needed("huggingface_hub.utils", INSTALL).enable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
