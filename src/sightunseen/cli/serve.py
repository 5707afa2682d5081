"""Serve a model as a web page and an HTTP API."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

    from sightunseen.features.backbones import Backbone

LOCAL = ("127.0.0.1", "localhost", "::1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument("--host", default=LOCAL[0], help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000; 0: a free port)")
    parser.add_argument("--token", help="bearer token that requests to change the model must send")
    parser.add_argument("--save", action="store_true", help="save added and removed classes and added examples to MODEL")


def run(args: argparse.Namespace) -> int:
    """Serve the model until Ctrl-C; returns the exit code."""
    from sightunseen.core.errors import MissingDependencyError, SettingsError

    try:
        import uvicorn

        from sightunseen.serve.app import create_app
    except ImportError as error:
        raise MissingDependencyError(f"serving needs {error.name}: pip install 'sightunseen[serve]'") from error
    from sightunseen.methods import load_model

    if args.token is not None and not (args.token.strip() and args.token.isascii() and args.token.isprintable()):
        raise SettingsError("--token must be printable ASCII text, because it is sent in an HTTP header. Choose another token.")
    model = load_model(args.model)
    listening = _listening(args.host, args.port)
    hosts = LOCAL if args.host in LOCAL else None
    app = create_app(model, _backbone(model), args.token, folder=args.model if args.save else None, hosts=hosts)
    if args.host not in LOCAL and args.token is None:
        print(f"note: any client of {args.host} can change the model; give --token TOKEN to prevent it", file=sys.stderr)
    shown = f"[{args.host}]" if ":" in args.host else args.host
    print(f"serving {args.model} at http://{shown}:{listening.getsockname()[1]} (Ctrl-C stops)", flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=5)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
    print("stopped")
    return 0


def _listening(host: str, port: int) -> "socket.socket":
    """Open the listening socket."""
    import socket

    from sightunseen.core.errors import SettingsError

    if not 0 <= port <= 65535:
        raise SettingsError(f"--port must be from 0 to 65535; got {port}.")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = error.strerror or error
        raise SettingsError(f"cannot listen on {host}:{port} ({why}). Choose another --port or --host.") from error


def _backbone(model: Any) -> "Backbone | None":
    """Open the backbone that the model was trained with; None, with a note, if it is unknown or not available."""
    from sightunseen.core.errors import SettingsError
    from sightunseen.pipeline.data import known_backbone, open_for_photos

    if known_backbone(model) is None:
        print("note: the backbone of the model is unknown; the service accepts features, not photos", file=sys.stderr)
        return None
    try:
        return open_for_photos(None, model)
    except SettingsError as error:
        print(f"note: {error} The service accepts features, not photos.", file=sys.stderr)
        return None
