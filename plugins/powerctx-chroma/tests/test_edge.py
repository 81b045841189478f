"""A server behind an edge that ends TLS and asks for a token, as hosted ones are: Chroma's own server knows neither."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from powerctx_core.errors import StoreError
from powerctx_core.testing.vector_words import PROFILE, Vectors, seeded

TOKEN = "s3cret-token"


class Edge(ThreadingHTTPServer):
    """Passes on to *behind* what has the token, over TLS, and remembers what was asked."""

    daemon_threads = True

    def __init__(self, behind: str, certificate: str, key: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.behind = behind
        self.seen: list[tuple[str, str | None, str | None]] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request, client_address):
        """A client that trusts nobody hangs up, which is no news."""


class Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Say nothing."""

    def passed(self):
        """Answer as the server behind does, or refuse."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = (self.headers.get("Authorization"), self.headers.get("X-Chroma-Token"))
        self.server.seen.append((self.path, *given))
        if given != (f"Bearer {TOKEN}", TOKEN):
            # What it was given stands in its answer, as careless servers have it.
            self.answered(401, f'{{"error":"AuthError","message":"bad token {given[1]}"}}'.encode())
            return
        request = urllib.request.Request(
            f"http://{self.server.behind}{self.path}",
            data=body or None,
            method=self.command,
            headers={"Content-Type": self.headers.get("Content-Type") or "application/json"},
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as found:
                self.answered(found.status, found.read())
        except urllib.error.HTTPError as error:
            self.answered(error.code, error.read())

    do_GET = do_POST = do_PUT = do_DELETE = passed  # noqa: N815 - the names that the class looks for

    def answered(self, status, body):
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for the loopback interface that nobody else trusts, and its key."""
    if shutil.which("openssl") is None:
        reason = "openssl, which makes the certificate, is not there"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    folder = tmp_path_factory.mktemp("certificate")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", *made.split(), *named, "-out", paths[0], "-keyout", paths[1]]
    subprocess.run(command, check=True, capture_output=True)
    return paths


@pytest.fixture
def edge(server, certificate):
    """An edge before the server of the tests."""
    edge = Edge(server, *certificate)
    thread = threading.Thread(target=edge.serve_forever)
    thread.start()
    yield edge
    edge.shutdown()
    thread.join()
    edge.server_close()


@pytest.fixture
def place(edge, tmp_path):
    """Give a function that returns the URL of a store behind the edge."""

    def place(token=TOKEN, **more):
        parameters = "&".join(f"{name}={value}" for name, value in {"token": token, **more}.items() if value)
        host = f"127.0.0.1:{edge.server_port}"
        return f"chroma+https://{host}?{parameters}{'&' if parameters else ''}companion=sqlite:///{tmp_path}/x.db"

    return place


@pytest.fixture
def trusted(certificate, monkeypatch):
    """Trust the certificate as users do that of their company."""
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])


@pytest.fixture
def vectors(place, opened):
    """Give a function that opens the store, told the model."""

    def opening(**parameters):
        vectors = Vectors(opened(place(**parameters)))
        vectors.index.attach(PROFILE)
        return vectors

    return opening


def test_token_tenant_database(edge, server, trusted, vectors):
    """Over TLS every request has the token in both headers; what is stored is in the tenant and database of the URL."""
    for path, name in (("tenants", "acme"), ("tenants/acme/databases", "notes")):
        body = json.dumps({"name": name}).encode()
        made = urllib.request.Request(
            f"http://{server}/api/v2/{path}", data=body, headers={"Content-Type": "application/json"}
        )
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(made, timeout=30).close()
    here, there = vectors(), vectors(tenant="acme", database="notes")
    here.add("a")
    there.names, there.store = here.names, there.store
    before = len(edge.seen)
    there.put(there.item("a", "other"))
    there.add("b")

    assert ["b"] == there.found(seeded("b"), 1)
    assert {(f"Bearer {TOKEN}", TOKEN)} == {each[1:] for each in edge.seen}
    written = [path for path, *_ in edge.seen if path.endswith("/upsert")]
    assert "/tenants/default_tenant/databases/default_database/" in written[0]
    assert all("/tenants/acme/databases/notes/" in path for path, *_ in edge.seen[before:] if "/collections" in path)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"token": "wr0ng-token"}, "the server refuses the token"),
        ({"token": ""}, "the server asks for a token"),
        ({"tenant": "nobody"}, "has no tenant nobody"),
        ({"database": "nothing"}, "has no database nothing"),
    ],
    ids=["wrong", "none", "tenant", "database"],
)
def test_refused(trusted, vectors, parameters, says):
    """One sentence says what the server has not or does not take; nothing shows a token."""
    opened = vectors(**parameters)
    with pytest.raises(StoreError) as caught:
        opened.add("a")

    told = str(caught.value)
    assert says in told
    assert told.count("; ") <= 1
    assert "\n" not in told
    for secret in ("wr0ng", TOKEN):
        assert secret not in told + str(opened.store.status()) + repr(opened.store.location)


def test_certificate_that_nobody_trusts(edge, vectors):
    """A certificate of an unknown authority is named, with what to set; the token is not sent."""
    opened = vectors()
    with pytest.raises(StoreError, match=r"certificate.*SSL_CERT_FILE"):
        opened.add("a")

    assert [] == edge.seen
