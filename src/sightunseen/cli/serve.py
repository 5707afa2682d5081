"""Serve a model as a web page and an HTTP API."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

    from sightunseen.features.backbones import Backbone

LOCAL = ("127.0.0.1", "localhost", "::1")
STDERR = Path("-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_trust_arguments

    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument("--host", default=LOCAL[0], help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000; 0: a free port)")
    parser.add_argument("--save", action="store_true", help="save added and removed classes and added examples to MODEL")
    access = parser.add_argument_group("access")
    what = "bearer token that requests must send (default: SIGHTUNSEEN_TOKEN, which the process list does not show)"
    access.add_argument("--token", default=os.environ.get("SIGHTUNSEEN_TOKEN"), help=what)
    what = "which requests need the token: changes of the model (default), or everything but the page itself"
    access.add_argument("--token-for", choices=("changes", "everything"), default="changes", help=what)
    what = "requests per second of one client (default: 0, any number)"
    access.add_argument("--rate", type=float, default=0.0, metavar="N", help=what)
    what = "accepted host name of requests (may be repeated; default: any, but on 127.0.0.1 only that of this machine)"
    access.add_argument("--host-name", action="append", default=[], metavar="NAME", help=what)
    network = parser.add_argument_group("network")
    network.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain in PEM format: serve HTTPS")
    network.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate in PEM format")
    what = "address of a reverse proxy whose header X-Forwarded-For names the client"
    network.add_argument("--trust-proxy", metavar="ADDRESS", help=what)
    watching = parser.add_argument_group("monitoring")
    what = "write one line of JSON per request to FILE (default without FILE: standard error)"
    watching.add_argument("--access-log", type=Path, nargs="?", const=STDERR, metavar="FILE", help=what)
    what = "serve Prometheus metrics at /metrics (default: yes)"
    watching.add_argument("--metrics", action=argparse.BooleanOptionalAction, default=True, help=what)
    add_trust_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the model until Ctrl-C or SIGTERM; returns the exit code."""
    from sightunseen.core.errors import MissingDependencyError

    try:
        from sightunseen.serve.access_log import AccessLog
        from sightunseen.serve.app import create_app
        from sightunseen.serve.limits import Limits
        from sightunseen.serve.server import Server
    except ImportError as error:
        raise MissingDependencyError(f"serving needs {error.name}: pip install 'sightunseen[serve]'") from error
    from sightunseen.methods import load_model

    _check(args)
    model = load_model(args.model)
    local = args.host in LOCAL
    log = None if args.access_log is None else AccessLog(None if args.access_log == STDERR else args.access_log)
    app = create_app(
        model,
        _backbone(model),
        args.token,
        Limits(rate=args.rate),
        folder=args.model if args.save else None,
        hosts=(*LOCAL, *(name.lower() for name in args.host_name)) if local or args.host_name else None,
        token_for=args.token_for,
        metrics=args.metrics,
        access_log=log,
    )
    server = Server(app, None if args.tls_cert is None else (args.tls_cert, args.tls_key), args.trust_proxy)
    with _listening(args.host, args.port) as listening:
        if log is not None:
            log.create()
        if not local and args.token is None:
            print(f"note: any client of {args.host} can change the model; give --token TOKEN to prevent it", file=sys.stderr)
        shown = f"[{args.host}]" if ":" in args.host else args.host
        address = f"{'http' if args.tls_cert is None else 'https'}://{shown}:{listening.getsockname()[1]}"
        print(f"serving {args.model} at {address} (Ctrl-C stops)", flush=True)
        server.serve_until_signal(listening)
    if log is not None:
        log.close()
    print("stopped")
    return 0


def _check(args: argparse.Namespace) -> None:
    from ipaddress import ip_address

    from sightunseen.core.errors import SettingsError

    if args.token is not None and not (args.token.strip() and args.token.isascii() and args.token.isprintable()):
        raise SettingsError("--token must be printable ASCII text, because it is sent in an HTTP header. Choose another token.")
    if args.token is None and args.token_for == "everything":
        raise SettingsError("--token-for everything needs a token. Give it as --token TOKEN.")
    if not 0 <= args.rate <= 1e6:
        raise SettingsError(f"--rate must be from 0 to 1000000 requests per second; got {args.rate:g}.")
    if (args.tls_cert is None) != (args.tls_key is None):
        raise SettingsError("--tls-cert and --tls-key belong together. Give both.")
    try:
        ip_address(args.trust_proxy or "::")
    except ValueError as error:
        raise SettingsError("--trust-proxy must be the IP address of the proxy, such as 127.0.0.1.") from error


def _listening(host: str, port: int) -> "socket.socket":
    """Open the listening socket."""
    import socket

    from sightunseen.core.errors import SettingsError

    if not 0 <= port <= 65535:
        raise SettingsError(f"--port must be from 0 to 65535; got {port}.")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
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
