"""Limits of a service, and the error of requests that exceed them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits on requests and on added classes; requests beyond them are rejected with a 4xx status.

    Parameters
    ----------
    body_bytes : int
        Size of a request body.
    pixels : int
        Pixels of a photo.
    photos : int
        Photos per request.
    images : int
        Images given as features per request.
    waiting : int
        Photos of all requests that wait for the backbone.
    requests : int
        Requests with a body that are processed at the same time.
    seconds : float
        Time to process a request, including reading its body.
    batch : int
        Photos per batch of the backbone.
    gather_seconds : float
        Time that the backbone waits for more photos before it starts a batch.
    added_classes : int
        Classes that clients can add.
    name_length, description_length : int
        Characters of the name and of the description of a class.
    described : int
        Temporary classes per prediction request (``also``).
    """

    body_bytes: int = 20 << 20
    pixels: int = 60_000_000
    photos: int = 16
    images: int = 256
    waiting: int = 128
    requests: int = 128
    seconds: float = 30.0
    batch: int = 32
    gather_seconds: float = 0.004
    added_classes: int = 1000
    name_length: int = 200
    description_length: int = 2000
    described: int = 8


LIMITS = Limits()


class RequestError(Exception):
    """Error of a request, answered with a 4xx status and ``{"error": reason}``.

    Parameters
    ----------
    status : int
        HTTP status code.
    reason : str
        What was found, what was expected and what to do.
    headers : dict of str to str, optional
        Additional response headers.
    """

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
