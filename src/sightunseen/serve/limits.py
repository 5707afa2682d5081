"""What a server takes on, and the refusal of what goes beyond it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The most that is read, kept waiting or remembered; what goes beyond is refused with a reason."""

    body_bytes: int = 20 << 20  # of one request
    pixels: int = 60_000_000  # of one photo
    photos: int = 16  # in one request
    images: int = 256  # given as features in one request
    waiting: int = 128  # photos under way
    requests: int = 128  # with a body, under way
    seconds: float = 30.0  # for one request, with the reading of its body
    batch: int = 32  # photos that the backbone is given at once
    gather_seconds: float = 0.004  # waited for more photos before the backbone begins
    added_classes: int = 1000
    name_length: int = 200
    description_length: int = 2000
    described: int = 8  # classes described in one question


LIMITS = Limits()


class Refused(Exception):
    """A request that is answered with a status of 4xx and a reason."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
