"""One request and its response, as metrics and the access log see them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"))


@dataclass
class Exchange:
    """A request and its response.

    Nothing of it is chosen freely by the client: no path, query string, header or name of a photo.

    Parameters
    ----------
    client : str
        Address of the client.
    method : str, optional
        Request method; "other" for one that is not standard, None if the request could not be read.
    route : str, optional
        Template of the route, such as ``/classes/{name}``; None if there is none.
    status : int, optional
        Status of the response; None if there was no response.
    cause : str, optional
        Why the request was refused.
    seconds : float
        Time from the headers of the request to the end of the response.
    bytes_in, bytes_out : int
        Size of the bodies.
    images : int
        Number of images in the request.
    """

    client: str
    method: str | None = None
    route: str | None = None
    status: int | None = None
    cause: str | None = None
    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    images: int = 0


Observers = Iterable[Callable[[Exchange], None]]


def client_of(address: Any) -> str:
    """Name a client by its address; all addresses of an IPv6 network of 64 bits are one client.

    Parameters
    ----------
    address : (str, int) or None
        Address and port of the peer, as in an ASGI scope.

    Returns
    -------
    str
        Address or network, or "unknown" if it is not an IP address.

    Examples
    --------
    >>> client_of(("10.0.0.1", 5000)), client_of(("2001:db8::1:2", 5000)), client_of(("<b>", 0))
    ('10.0.0.1', '2001:db8::/64', 'unknown')
    """
    try:
        found = ip_address(address[0])
    except (ValueError, TypeError, IndexError):
        return "unknown"
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
