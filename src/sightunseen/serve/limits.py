"""Limits of a service, and the error of requests that exceed them."""

from dataclasses import dataclass

# Limits that are part of the request schemas.
NAME_LENGTH = 200  # characters of the name of a new class
DESCRIPTION_LENGTH = 2_000  # characters of its description
DESCRIBED = 8  # temporary classes of a prediction request (``also``)
CANDIDATES = 100_000  # classes listed in a request
TOP = 10**12  # number of classes per image that can be asked for; at most all are returned


@dataclass(frozen=True)
class Limits:
    """Limits on connections, requests and added classes; requests beyond them are rejected with a 4xx status.

    Parameters
    ----------
    connections, client_connections : int
        Open connections, and those of one client. Beyond it the connection that has waited longest for a request is closed.
    head_seconds : float
        Time from the opening of a connection, or from the first byte of a further request, to the end of the headers.
    keep_alive_seconds : float
        Time that an idle connection is kept after a response.
    headers, head_bytes : int
        Number of headers of a request, and their size with the request target.
    chunk_bytes : int
        Mean size of the chunks of a chunked body after the first ``small_chunks``.
    small_chunks : int
        Chunks of a chunked body that may be smaller.
    body_bytes : int
        Size of a request body.
    body_seconds : float
        Time to receive a request body.
    pause_seconds : float
        Time without any byte of a body that is being received.
    client_bodies : int
        Bodies of one client that are being received. Beyond it the body that was begun first is rejected.
    buffered_bytes : int
        Bytes of all bodies in memory. Beyond it a body of the client that holds most is rejected.
    requests, client_requests : int
        Requests whose body is complete and that are being processed, and those of one client.
    seconds : float
        Time to process a request after its body was received.
    write_seconds : float
        Time that a client has to read a response.
    stop_seconds : float
        Time to finish the requests in hand when the server stops.
    rate : float
        Requests per second of one client; 0: any number. Up to twice as many at once.
    clients : int
        Clients whose rate is remembered.
    pixels : int
        Pixels of a photo.
    photos : int
        Photos per request.
    images : int
        Images given as features per request.
    waiting : int
        Photos of all requests that wait for the backbone.
    batch : int
        Photos per batch of the backbone.
    gather_seconds : float
        Time that the backbone waits for more photos before it starts a batch.
    explained_texts : int
        Descriptions with a word left out that a request may encode for its reasons, about; further images have fewer reasons.
    added_classes : int
        Classes that clients can add.
    attribute_factor : float
        Largest absolute value of an attribute, relative to the largest of that attribute in the model or to 1.
    feature_magnitude : float
        Largest absolute value of a feature: the square of the norm must be finite in single precision.
    """

    connections: int = 1000
    client_connections: int = 500
    head_seconds: float = 10.0
    keep_alive_seconds: float = 20.0
    headers: int = 100
    head_bytes: int = 32 << 10
    chunk_bytes: int = 64
    small_chunks: int = 500
    body_bytes: int = 20 << 20
    body_seconds: float = 30.0
    pause_seconds: float = 10.0
    client_bodies: int = 64
    buffered_bytes: int = 256 << 20
    requests: int = 256
    client_requests: int = 128
    seconds: float = 30.0
    write_seconds: float = 30.0
    stop_seconds: float = 15.0
    rate: float = 0.0
    clients: int = 10_000
    pixels: int = 60_000_000
    photos: int = 16
    images: int = 256
    waiting: int = 128
    batch: int = 32
    gather_seconds: float = 0.004
    explained_texts: int = 200
    added_classes: int = 1000
    attribute_factor: float = 1000.0
    feature_magnitude: float = 1e15


LIMITS = Limits()


class RequestError(Exception):
    """Error of a request, answered with its status and ``{"error": reason}``.

    Parameters
    ----------
    status : int
        HTTP status code.
    reason : str
        What was found, what was expected and what to do.
    headers : dict of str to str, optional
        Additional response headers.
    cause : str, default="content"
        Short name of the reason, for the metric of refused requests.
    """

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None, cause: str = "content") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        self.cause = cause


def busy(reason: str, cause: str) -> RequestError:
    """Build the error of a request that a client can repeat later.

    Parameters
    ----------
    reason : str
        Why it is refused now.
    cause : str
        Short name of the reason.

    Returns
    -------
    RequestError
        Error of status 429 with the header ``Retry-After``.
    """
    return RequestError(429, f"{reason} Try again later.", {"Retry-After": "1"}, cause)
