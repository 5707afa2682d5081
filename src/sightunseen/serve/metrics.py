"""Metrics of a service in the format of Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from sightunseen.serve.exchange import Exchange

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PHOTOS = (1, 2, 4, 8, 16, 32)


class Metrics:
    """Counters, gauges and histograms of one application, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "sightunseen_requests", "Requests by route and status.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "sightunseen_request_seconds", "Duration of requests.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self._refused = Counter(
            "sightunseen_refused", "Requests and connections that were refused.", ("cause",), registry=self.registry
        )
        self._images = Counter("sightunseen_images", "Images of answered requests.", registry=self.registry)
        self._changes = Counter("sightunseen_model_changes", "Changes of the model.", ("change",), registry=self.registry)
        self._batches = Histogram(
            "sightunseen_batch_photos", "Photos per batch of the backbone.", buckets=PHOTOS, registry=self.registry
        )
        ProcessCollector(registry=self.registry)  # memory, processor time and open files, where /proc exists

    def __call__(self, exchange: Exchange) -> None:
        """Count a request."""
        if exchange.status is not None:
            route = exchange.route or "none"
            self._requests.labels(exchange.method or "none", route, str(exchange.status)).inc()
            self._seconds.labels(route).observe(exchange.seconds)
            if exchange.status < 400:
                self._images.inc(exchange.images)
        if exchange.cause is not None:
            self._refused.labels(exchange.cause).inc()

    def changed(self, change: str) -> None:
        """Count a change of the model."""
        self._changes.labels(change).inc()

    def batched(self, photos: int) -> None:
        """Count a batch of the backbone."""
        self._batches.observe(photos)

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge.

        Parameters
        ----------
        name : str
            Name without the prefix ``sightunseen_``.
        description : str
            What it measures.
        value : callable
            Returns the current value.
        """
        Gauge(f"sightunseen_{name}", description, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """Format all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
