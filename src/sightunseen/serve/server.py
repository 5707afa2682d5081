"""The server: an application on a listening socket, with TLS, limits on connections, and a graceful stop."""

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from sightunseen.core.errors import SettingsError
from sightunseen.serve.protocol import Connections, LimitedProtocol

STOP_MARGIN = 5.0  # seconds beyond the time of the last request in hand
FILES = 4096  # open files, if the system allows as many: connections, and photos that are spooled to disk


class Server(uvicorn.Server):
    """Server that stops without losing a request in hand.

    Parameters
    ----------
    app : FastAPI
        Application of :func:`sightunseen.serve.app.create_app`.
    tls : (Path, Path), optional
        Files of the certificate chain and of the private key, in PEM format. Default: plain HTTP.
    proxy : str, optional
        Address of a proxy whose headers ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are trusted. Default: none.

    Raises
    ------
    SettingsError
        If the certificate or the key cannot be read.
    """

    def __init__(self, app: FastAPI, tls: tuple[Path, Path] | None = None, proxy: str | None = None) -> None:
        self.admission = app.state.admission
        limits = self.admission.limits
        connections = Connections(limits, app.state.observers, proxy)
        app.state.metrics.gauge("connections", "Open connections.", lambda: len(connections))
        # Malformed requests are counted by the metrics; a line for each would let strangers fill the log.
        logging.getLogger("python_multipart").setLevel(logging.ERROR)
        protocol: Any = partial(LimitedProtocol, connections=connections)
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=proxy is not None,
            forwarded_allow_ips=proxy,
            timeout_keep_alive=int(limits.keep_alive_seconds),
            timeout_graceful_shutdown=int(limits.stop_seconds + STOP_MARGIN),
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
            ssl_keyfile_password="-",  # an encrypted key is an error, not a question on the terminal
        )
        try:
            config.load()
        except OSError as error:  # also of ssl
            why = error.strerror or type(error).__name__
            raise SettingsError(f"the certificate or its key cannot be used ({why}). Give two matching PEM files.") from error
        super().__init__(config)

    def serve_until_signal(self, listening: socket.socket) -> None:
        """Serve until SIGINT or SIGTERM, then finish the requests in hand.

        Parameters
        ----------
        listening : socket
            Listening socket; it is closed.
        """
        _allow_files()
        with _handled(self), suppress(KeyboardInterrupt):
            self.run(sockets=[listening])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections and finish the requests in hand."""
        self.admission.stop()
        await super().shutdown(sockets)


@contextmanager
def _handled(server: Server) -> Iterator[None]:
    """Handle signals also after uvicorn, which raises those that stopped it once more."""
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _allow_files() -> None:
    """Raise the limit on open files, where there is one."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
