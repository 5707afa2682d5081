"""Replay cases of the corpus: reads their names from stdin, answers each with its failures as a line of JSON.

A process of its own, because cases run in forked processes, and a test runner has threads.
"""

import json
import sys
import tempfile
from pathlib import Path

from .fuzz_corpus import read_corpus
from .fuzz_property import failures_of, import_everything, run_case
from .fuzz_shelf import build_shelf


def main() -> None:
    """Answer until the end of stdin."""
    cases = read_corpus()
    import_everything()
    with tempfile.TemporaryDirectory(prefix="shelf-") as folder:
        shelf = Path(folder) / "shelf"
        build_shelf(shelf)
        for line in sys.stdin:
            case = cases[line.strip()]
            result = run_case(case, shelf)
            failures = [f"{failure.kind}: {failure.detail}" for failure in failures_of(case, result)]
            sys.stdout.write(json.dumps({"code": result.code, "failures": failures, "err": result.err[-2000:]}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
