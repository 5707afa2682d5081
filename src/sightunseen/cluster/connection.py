"""Connection to a Ray cluster: its address, how Ray is imported, and errors."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from sightunseen.core.documents import quoted
from sightunseen.core.errors import MissingDependencyError, SettingsError, SightUnseenError
from sightunseen.core.limits import MESSAGE_LENGTH

LOCAL = "ray"  # the address of a cluster on this machine
ADDRESS = re.compile(r"(?P<client>ray://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+):(?P<port>\d{1,5})", re.ASCII)
REACH_SECONDS = 5.0  # to reach a head node; Ray itself tries for minutes


class ClusterError(SightUnseenError):
    """A cluster cannot be reached, or has lost a worker too often."""


def connect(address: str) -> tuple[Any, str, bool]:
    """Connect this process to a cluster; see :meth:`~sightunseen.cluster.map_reduce.Cluster.connect`.

    Parameters
    ----------
    address : str
        ``ray``, ``ray://HOST:PORT`` or ``HOST:PORT``.

    Returns
    -------
    ray : module
        Ray, connected.
    address : str
        Address of the cluster.
    ours : bool
        Whether this call made the connection.

    Raises
    ------
    SettingsError
        If the address has another form.
    MissingDependencyError
        If Ray is not installed.
    ClusterError
        If the cluster cannot be reached.
    """
    found = ADDRESS.fullmatch(address)
    if address != LOCAL and not (found and 0 < int(found["port"]) < 1 << 16):
        raise SettingsError(f"--cluster must be ray, ray://HOST:PORT or HOST:PORT; got '{quoted(address)}'.")
    ray = _imported(bool(found and found["client"]))
    if ray.is_initialized():
        return ray, address, False
    submitted = os.environ.get("RAY_ADDRESS")  # Ray sets it for submitted jobs
    if found:
        _reach(found["host"].strip("[]"), int(found["port"]))
    elif submitted:
        address = submitted
    try:
        with _silent():
            ray.init(**_options(address))
    except Exception as error:  # Ray raises exceptions of many types
        raise ClusterError(
            f"cannot connect to the cluster '{quoted(address)}': {first_line(error)}. It must run the same versions of "
            "Ray and Python; if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
        ) from error
    return ray, address, True


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, shortened; Ray appends logs and advice to it."""
    lines = str(error).strip().splitlines()
    return quoted(lines[0] if lines else type(error).__name__, MESSAGE_LENGTH // 2)


def _imported(client: bool) -> Any:
    """Import Ray, silent: failures arrive as exceptions, and stdout is for results."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # else a late call, after the connection has ended, starts a new cluster
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "CRITICAL")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # it prints on stdout which workers were lost
    try:
        if client:
            import_module("grpc")
        return import_module("ray")
    except ImportError as error:
        raise MissingDependencyError(f"--cluster needs {error.name}: pip install 'sightunseen[ray]'") from error


def _options(address: str) -> dict[str, Any]:
    """Arguments of ``ray.init``."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address != LOCAL:
        return {"address": address, **quiet}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"address": "local", "num_cpus": cores, "include_dashboard": False, **quiet}


def _reach(host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host
        raise ClusterError(
            f"there is no cluster at {quoted(host)}:{port} ({error}). Start one, or check the address and the firewall."
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Close stderr to Ray's backend while it starts: it prints the level of its log there."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
