"""Access log: one line of JSON per request."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from sightunseen.core.errors import SettingsError
from sightunseen.serve.exchange import Exchange


class AccessLog:
    """Writes requests to a file or to standard error.

    A line has the time, client, method, route, status, duration, sizes and number of images. It never has paths, query strings,
    tokens, or names and contents of photos. A file that is renamed by log rotation is opened again.

    Parameters
    ----------
    path : Path, optional
        File to append to. Default: standard error. It is created by :meth:`create` or the first request.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._handler: logging.StreamHandler[Any] | None = None
        self.lost = 0

    def create(self) -> None:
        """Open the file, so that an error is reported before the first request.

        Raises
        ------
        SettingsError
            If the file cannot be opened.
        """
        try:
            stderr = self._path is None
            handler = logging.StreamHandler(sys.stderr) if stderr else WatchedFileHandler(str(self._path), encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"cannot write the access log {self._path} ({error.strerror}). Choose another file.") from error
        # A full disk must not fail requests, nor print an exception for each of them.
        handler.handleError = self._lost  # type: ignore[method-assign]
        handler.setFormatter(logging.Formatter("%(message)s"))
        self._handler = handler

    def __call__(self, exchange: Exchange) -> None:
        """Write one request."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "client": exchange.client,
            "method": exchange.method,
            "route": exchange.route,
            "status": exchange.status,
            "milliseconds": round(exchange.seconds * 1000, 1),
            "bytes_in": exchange.bytes_in,
            "bytes_out": exchange.bytes_out,
            "images": exchange.images,
        }
        if exchange.cause is not None:
            line["refused"] = exchange.cause
        # JSON in ASCII: no character of the input can begin a new line.
        if self._handler is None:
            self.create()
        assert self._handler is not None
        self._handler.handle(logging.LogRecord("access", logging.INFO, "", 0, json.dumps(line), None, None))

    def close(self) -> None:
        """Close the file."""
        if self._handler is not None:
            self._handler.close()

    def _lost(self, record: logging.LogRecord) -> None:
        if self.lost == 0:
            print("warning: the access log cannot be written; requests are not logged", file=sys.stderr)  # noqa: T201
        self.lost += 1
