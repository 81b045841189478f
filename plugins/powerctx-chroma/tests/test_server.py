"""A server that is killed, that is not there, or that hangs."""

from __future__ import annotations

import logging
import socket
import threading

import pytest

import powerctx_core as powerctx
from powerctx_core.errors import CapabilityError, StoreError
from powerctx_core.testing.vector_words import PROFILE, Vectors, seeded
from powerctx_core.types import Deadline


@pytest.fixture
def place(own_server, tmp_path):
    """The URL of a store on the test's own server."""
    return f"chroma+http://{own_server.place}?companion=sqlite:///{tmp_path}/x.db"


def test_killed_server(own_server, place, opened):
    """While the server is down vectors fail with a sentence and words go on; afterwards all that was told is there."""
    own_server.start()
    vectors = Vectors(opened(place))
    vectors.index.attach(PROFILE)
    told: list[str] = []
    failures: list[str] = []
    timer = threading.Timer(0.5, own_server.kill)
    for number in range(2000):
        try:
            vectors.add(f"a{number}")
        except StoreError as error:
            failures.append(str(error))
            break
        told.append(f"a{number}")
        if number == 2:
            timer.start()
    timer.join()
    vectors.put(vectors.item("words"))

    assert told
    assert own_server.place in failures[0]
    assert "cannot be reached" in failures[0] or "the connection broke" in failures[0]
    with pytest.raises(StoreError, match="cannot be reached"):
        vectors.index.upsert({vectors.put(vectors.item("b"))[0]: seeded("b")})
    own_server.start()
    assert [[name] for name in told] == [vectors.found(seeded(name), 1) for name in told]
    assert len(told) == vectors.index.count()
    vectors.add("after")
    assert ["after"] == vectors.found(seeded("after"), 1)


def test_words_alone(own_server, place, caplog):
    """Without its server the store opens, says why there are no vectors, and finds by words; asked for vectors, it says
    that it has none; with the server it has them again.
    """
    own_server.start()
    with powerctx.open(place, embedder="hash") as context:
        context.put([powerctx.Item(scope_id="s", text="We chose Chroma.")])
    own_server.kill()
    with caplog.at_level(logging.WARNING), powerctx.open(place, embedder="hash") as context:
        context.put([powerctx.Item(scope_id="s", text="We kept SQLite.")])
        prepared = context.prepare("Why Chroma?", scope_id="s")
        with pytest.raises(CapabilityError, match="cannot be reached"):
            context.find("Why Chroma?", scope_id="s", search_type="vector")

    assert "We chose Chroma." in prepared.content
    assert "searching by words alone: Vectors cannot be used" in caplog.text
    own_server.start()
    with powerctx.open(place, embedder="hash") as context:
        list(context.embed())
        assert 2 == context.store.vectors.count()


def test_hanging_server(opened, tmp_path):
    """A server that takes the connection and says nothing is given up after the time of the settings."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = opened(f"chroma+http://127.0.0.1:{port}?companion=sqlite:///{tmp_path}/x.db", timeout_s=0.5)
        vectors = Vectors(store)
        vectors.index.attach(PROFILE)
        with pytest.raises(StoreError, match=r"no answer came within 0\.5 s"):
            vectors.add("a")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"0.6.3"', "no Chroma server of version 1 or later"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "no Chroma server of version 1 or later"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "no Chroma server of version 1 or later"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "503"),
        (b"SSH-2.0-OpenSSH\r\n", "the connection broke"),
    ],
    ids=["old", "page", "nothing", "busy", "ssh"],
)
def test_other_servers(opened, tmp_path, answer, says):
    """What answers there and is no server of Chroma's is told in one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answered():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=answered)
        thread.start()
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        vectors = Vectors(opened(f"chroma+http://{place}?companion=sqlite:///{tmp_path}/x.db"))
        vectors.index.attach(PROFILE)
        with pytest.raises(StoreError) as caught:
            vectors.add("a")
        thread.join()

    assert says in str(caught.value)
    assert place in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_host(opened, tmp_path):
    """A host that no name server knows is told from one where nothing answers."""
    vectors = Vectors(opened(f"chroma+http://nobody.invalid?companion=sqlite:///{tmp_path}/x.db"))
    vectors.index.attach(PROFILE)
    with pytest.raises(StoreError, match="no host of this name is known"):
        vectors.add("a")


def test_no_tls_there(opened, tmp_path, own_server):
    """Asked for TLS, a server without it is told, and what to write."""
    own_server.start()
    vectors = Vectors(opened(f"chroma+https://{own_server.place}?companion=sqlite:///{tmp_path}/x.db"))
    vectors.index.attach(PROFILE)
    with pytest.raises(StoreError, match=r"does not speak TLS there; write chroma\+http://"):
        vectors.add("a")


def test_no_server_tells_no_token(opened, tmp_path):
    """A refused connection names the server, and neither token nor password of the companion."""
    vectors = Vectors(opened(f"chroma+http://127.0.0.1:1?token=s3cret-token&companion=sqlite:///{tmp_path}/x.db"))
    vectors.index.attach(PROFILE)
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        vectors.add("a")

    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in str(vectors.store.status())


@pytest.mark.parametrize("listening", [True, False], ids=["silent", "nobody"])
def test_a_check_tells_a_server_that_does_not_answer(opened, tmp_path, listening):
    """Once, though all that the companion knows is there; a status alone asks no server."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if listening else 1
        store = opened(
            f"chroma+http://127.0.0.1:{port}?token=s3cret-token&companion=sqlite:///{tmp_path}/x.db", timeout_s=0.5
        )
        checked, told = store.check(Deadline.after(10.0)), store.status()

    said = "no answer came within 0.5 s" if listening else "cannot be reached: no Chroma server answers there"
    assert 1 == sum(said in problem for problem in checked.problems) == len(checked.problems)
    assert "s3cret" not in str(checked)
    assert () == told.problems
    assert told.facts.keys() <= checked.facts.keys()
