"""Access log: one line of JSON per request."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

from sightunseen.core.errors import SettingsError
from sightunseen.serve.exchange import Exchange


class AccessLog:
    """Writes requests to a file or to standard error.

    A line has the time, client, method, route, status, duration, sizes and number of images. It never has paths, query strings,
    tokens, or names and contents of photos. A file that is renamed by log rotation is opened again.

    Parameters
    ----------
    path : Path, optional
        File to append to. Default: standard error.

    Raises
    ------
    SettingsError
        If the file cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        try:
            self._handler = logging.StreamHandler(sys.stderr) if path is None else WatchedFileHandler(path, encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"cannot write the access log {path} ({error.strerror}). Choose another file.") from error
        # A full disk must not fail requests, nor print an exception for each of them.
        self._handler.handleError = self._lost  # type: ignore[method-assign]
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self.lost = 0

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
        self._handler.handle(logging.LogRecord("access", logging.INFO, "", 0, json.dumps(line), None, None))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()

    def _lost(self, record: logging.LogRecord) -> None:
        if self.lost == 0:
            print("warning: the access log cannot be written; requests are not logged", file=sys.stderr)  # noqa: T201
        self.lost += 1
