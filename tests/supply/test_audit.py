"""The audit tells a known vulnerability from a database that cannot be reached; pip-audit's exit code does not."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("pip_audit", reason="pip install 'sightunseen[supply]'")

from release.audit import audit, judge
from release.lock import read_lock

ADVISORY = {
    "id": "TEST-1",
    "summary": "an advisory that exists only in this test",
    "affected": [
        {"package": {"name": "numpy", "ecosystem": "PyPI"}, "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "99.0"}]}]}
    ],
}


class Database(BaseHTTPRequestHandler):
    """Vulnerability database with the interface of OSV: one advisory, about numpy; another address always fails."""

    asked: list[str] = []  # noqa: RUF012

    def do_POST(self) -> None:
        package = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
        self.asked.append(package)
        content = json.dumps({"vulns": [ADVISORY]} if package == "numpy" and self.path == "/advisory" else {}).encode()
        self.send_response(503 if self.path == "/failing" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Database) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def osv(address: str) -> list[str]:
    return ["--vulnerability-service", "osv", "--osv-url", address]


def test_a_known_vulnerability_is_found(database: str) -> None:
    code, message = audit(osv(f"{database}/advisory"))
    assert code == 1
    assert "numpy" in message
    assert "TEST-1, fixed in 99.0" in message


def test_without_a_vulnerability_every_locked_package_and_torch_were_asked_for(database: str) -> None:
    Database.asked.clear()
    code, message = audit(osv(database))
    assert (code, message) == (0, f"no known vulnerability in {len(read_lock()) + 1} packages")
    assert {*Database.asked} == {package.name for package in read_lock()} | {"torch"}


def test_a_vulnerability_can_be_ignored_by_its_name(database: str) -> None:
    assert audit([*osv(f"{database}/advisory"), "--ignore-vuln", "TEST-1"])[0] == 0


def test_a_failing_database_is_not_reached(database: str) -> None:
    code, message = audit(osv(f"{database}/failing"))
    assert code == -1
    assert "cannot be reached" in message


def test_a_closed_port_is_not_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, message = audit(osv(f"http://127.0.0.1:{port}"))
    assert (code, message) == (-1, "the database cannot be reached (requests.exceptions.ConnectionError)")


def test_a_silent_database_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        code, message = audit(osv(f"http://127.0.0.1:{silent.getsockname()[1]}"), seconds=3)
    assert code == -1
    assert "within 3 s" in message


def test_a_wrong_option_is_a_failure() -> None:
    code, message = audit(["--no-such-option"])
    assert code == 2
    assert "--no-such-option" in message


def test_a_database_that_knows_no_package_is_no_audit() -> None:
    unknown = {"name": "numpy", "skip_reason": "Dependency not found"}
    known = {"name": "scipy", "version": "1.17.1", "vulns": []}
    assert judge({"dependencies": [unknown]})[0] == -1
    assert judge({"dependencies": [unknown, known]}) == (0, "no known vulnerability in 1 packages; not in the database: numpy")
