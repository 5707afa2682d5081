"""Fuzzing of the HTTP API by requests made from its OpenAPI schema."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any


def application(folder: Path, token: str | None = None) -> Any:
    """The application of a model folder of the shelf, with its backbone."""
    from sightunseen.methods import load_model
    from sightunseen.pipeline.data import open_for_photos
    from sightunseen.serve.app import create_app

    model = load_model(folder)
    return create_app(model, open_for_photos(None, model), token)


def schema_failures(app: Any, examples: int, seed: int, mode: str) -> list[str]:
    """Send requests made from the schema to every operation; returns the checks that fail.

    Parameters
    ----------
    app : FastAPI
        The application.
    examples : int
        Number of requests for each operation.
    seed : int
        Seed of the requests.
    mode : {"positive", "negative"}
        Whether requests follow the schema or violate it.
    """
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.failures import Failure, FailureGroup
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    found: Counter[str] = Counter()
    for operation in [result.ok() for result in schema.get_all_operations()]:
        strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

        @seeded(seed)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def send(case: Any) -> None:
            try:
                case.call_and_validate(checks=checks)
            except (Failure, FailureGroup) as error:
                for one in getattr(error, "exceptions", None) or [error]:
                    found[f"{case.operation.label}: {type(one).__name__}: {str(one).splitlines()[0][:200]}"] += 1

        try:
            send()
        except Exception as error:  # an operation without violations of its schema has no negative requests
            if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
                found[f"{operation.label}: {type(error).__name__}: {str(error)[:300]}"] += 1
    return [f"{text} ({count} times)" for text, count in found.most_common()]


def main() -> None:
    """Send requests made from the schema for a time: ``python -m tests.faults.fuzz_http MODEL SECONDS SEED``."""
    import torch

    torch.set_num_threads(1)
    folder, seconds, seed = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    app, until, sent = application(folder), time.monotonic() + seconds, 0
    found: set[str] = set()
    while time.monotonic() < until:
        for mode in ("positive", "negative"):
            for text in schema_failures(app, 20, seed, mode):
                if text.partition(" (")[0] not in found:
                    found.add(text.partition(" (")[0])
                    sys.stdout.write(f"FAIL {text}\n")
            sent += 20 * len(app.openapi()["paths"])
        seed += 1
    sys.stdout.write(f"sent {sent} requests\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
