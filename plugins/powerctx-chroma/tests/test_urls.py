"""What a URL names, what is refused, and that nothing secret is shown."""

from __future__ import annotations

import logging

import pytest

from powerctx_chroma.location import parsed
from powerctx_chroma.settings import ChromaSettings
from powerctx_core.config import structure
from powerctx_core.errors import ConfigError, StoreUnavailable
from powerctx_core.host import Host

DEFAULTS = ChromaSettings()


@pytest.fixture
def host():
    """Give a host with the plugins that are needed."""
    with Host.compose(structure({}), allow=["chroma", "sqlite"]) as host:
        yield host


def test_directory(tmp_path, monkeypatch):
    """Three slashes name a directory of the working directory, four an absolute one; the companion lies beside it."""
    monkeypatch.chdir(tmp_path)
    relative, absolute = parsed("chroma:///notes", DEFAULTS), parsed(f"chroma:///{tmp_path}/notes", DEFAULTS)

    assert relative.directory == absolute.directory == (tmp_path / "notes").resolve()
    assert relative.companion == absolute.companion == f"sqlite:///{(tmp_path / 'notes.powerctx.db').resolve()}"
    assert not relative.shared


@pytest.mark.parametrize("name", ["with space", "100%", "a?b", "a#b", "北京", "é", "x@y:z", "a&companion"])
def test_any_directory(tmp_path, monkeypatch, host, name):
    """A directory may have any name, written with percent signs in a URL; both files are made beside each other."""
    from urllib.parse import quote

    monkeypatch.chdir(tmp_path)
    store = host.open_store(f"chroma:///{quote(name)}")
    from powerctx_core import Item

    store.catalogue.put([Item(scope_id="s", text="t")])
    store.close()

    assert {f"{name}.powerctx.db"} == {path.name for path in tmp_path.iterdir()}


def test_server():
    """A server's URL has host, port, tenant, database and token; all that follows companion= is the other URL."""
    companion = "oceanbase://me:pass@db:2881/x?pool=3&tls=verify"
    found = parsed(f"chroma+https://chroma.example/?tenant=t&database=d&token=s3cret&companion={companion}", DEFAULTS)

    assert ("chroma.example", 443, True) == (found.host, found.port, found.tls)
    assert ("t", "d", "s3cret", companion) == (found.tenant, found.database, found.token, found.companion)
    assert found.shared
    assert "s3cret" not in repr(found) + found.name
    plain = parsed("chroma+http://h?companion=sqlite:///x.db", ChromaSettings(token="s3cret", tenant="other"))
    assert (8000, "other", "s3cret", "default_database") == (plain.port, plain.tenant, plain.token, plain.database)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("chroma:///", "it names no directory"),
        ("chroma://host", "it names a host; a server is chroma+http://host:8000?companion=URL"),
        ("chroma://?companion=sqlite:///x.db", "it names no directory"),
        ("chroma:///x?token=s3cret", "the parameter token is not known; the parameters are companion"),
        ("chroma:///x#y", "a # in it must be written %23"),
        ("chroma:///a%00b", "a path holds no NUL"),
        ("chroma:///no/such/folder", "does not exist; create it"),
        ("chroma+http://host", "the companion is missing"),
        ("chroma+http://host:8000?companion=", "the companion is missing"),
        ("chroma+http://?companion=sqlite:///x.db", "the host is missing"),
        ("chroma+http://host/path?companion=sqlite:///x.db", "it has a path"),
        ("chroma+http://me:s3cret@host?companion=sqlite:///x.db", "it names a user; a token is written ?token="),
        ("chroma+http://host:99999?companion=sqlite:///x.db", "it is no URL"),
        ("chroma+http://host?databse=x&companion=sqlite:///x.db", "the parameter databse is not known"),
        ("chroma+http://host?companion=sqlite://", "cannot be the companion"),
        ("chroma+http://host?companion=memory://", "cannot be the companion"),
        ("chroma+http://host?companion=chroma:///x", "cannot be the companion"),
        ("chroma+http://host?token=s3cret&companion=nobody://me:s3cret@h/x", "No installed store serves nobody://"),
    ],
)
def test_refused(host, tmp_path, monkeypatch, url, says):
    """What cannot be meant is refused with what to write, without a secret, and makes nothing."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreUnavailable) as caught:
        host.open_store(url)

    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert [] == list(tmp_path.iterdir())


def test_other_directories(host, tmp_path):
    """A file, and a directory of something else, are refused and left alone."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("x")

    with pytest.raises(StoreUnavailable, match="is not a directory"):
        host.open_store(f"chroma:///{tmp_path}/file")
    with pytest.raises(StoreUnavailable, match="is a directory of something else"):
        host.open_store(f"chroma:///{tmp_path}/folder")
    assert {"file", "folder"} == {path.name for path in tmp_path.iterdir()}


def test_private_companion_of_a_server(host, tmp_path, caplog):
    """Who keeps the items of a shared server in a file of this machine is told that others will not see them."""
    with caplog.at_level(logging.WARNING):
        host.open_store(f"chroma+http://127.0.0.1:1?companion=sqlite:///{tmp_path}/x.db").close()

    assert "which only this machine has" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"), [("timeout_s", 0), ("exact_below", -1), ("ef_search", 0), ("vector_memory_mb", -1)]
)
def test_settings(name, value):
    """A setting outside its limits names them."""
    host = Host.compose(structure({"parts": {"chroma": {name: value}}}), allow=["chroma", "sqlite"])
    with host, pytest.raises(ConfigError, match="must be from"):
        host.open_store("chroma://")
