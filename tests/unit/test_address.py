"""Addresses survive every URL library; whatever is not an address is refused in one clear sentence."""

import json
import os
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings, strategies as st

from powerctx_core.errors import InvalidRequest
from powerctx_core.types import Address, parse_uri

TEXT = st.characters(exclude_categories=["Cc", "Cs"])


def identifiers(limit: int) -> st.SearchStrategy[str]:
    """Make any identifier of at most *limit* bytes, with a bias to what URLs find hard."""
    hard = st.sampled_from(
        [*"/@?#%:&=+ .~_-[]\\|^`{}<>\"'*()!$;,", "%2F", "..", "北京", "e\u0301", "é", "Ａ", "👩\u200d👧"]
    )
    return (
        st.lists(st.one_of(hard, TEXT), min_size=1, max_size=24)
        .map("".join)
        .filter(lambda value: len(value.encode()) <= limit)
    )


FAMILIES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)
ADDRESSES = st.builds(Address, identifiers(256), FAMILIES, identifiers(128), st.integers(1, (1 << 31) - 1))


@given(ADDRESSES)
@settings(max_examples=500, deadline=None)
def test_round_trip(address: Address) -> None:
    """A URI gives back exactly its address; its stem gives the same without a revision."""
    parts = (address.scope_id, address.family, address.artifact_id)

    assert Address.parse(address.uri) == address
    assert parse_uri(address.stem) == (*parts, None)
    assert parse_uri(address.ref(address.scope_id), address.scope_id) == (*parts, None)
    assert parse_uri(address.uri, "elsewhere") == parse_uri(address.uri)


@given(ADDRESSES)
@settings(max_examples=300, deadline=None)
def test_standard_library(address: Address) -> None:
    """The standard library finds scheme and path, and nothing that it takes for a query, fragment, user or port."""
    split = urlsplit(address.uri)

    assert split.scheme == "powerctx"
    assert split.geturl() == address.uri
    assert (split.query, split.fragment, split.username, split.port) == ("", "", None, None)
    assert split.path.endswith(f"@{address.revision}")


@given(ADDRESSES)
@settings(max_examples=200, deadline=None)
def test_form(address: Address) -> None:
    """Everything but unreserved characters and the artifact's slashes is escaped, in upper-case hexadecimal."""
    scope, family, artifact = address.stem.removeprefix("powerctx://").split("/", 2)

    assert all(char.isalnum() or char in "-._~%" for char in scope + family)
    assert all(char.isalnum() or char in "-._~%/" for char in artifact)
    assert address.uri.isascii()
    assert artifact.count("/") == address.artifact_id.count("/")


def test_example() -> None:
    """The form is the documented one."""
    address = Address("project:demo", "memory", "docs/北京 1.md", 3)

    assert address.uri == "powerctx://project%3Ademo/memory/docs/%E5%8C%97%E4%BA%AC%201.md@3"


AWKWARD = [
    Address(scope, "topic-memory", artifact, revision)
    for revision, (scope, artifact) in enumerate(
        [
            ("project:demo", "plain"),
            ("a/b@c?d#e%f", "x/y@z?q#f%41"),
            ("北京", "大学/火锅 店"),
            ("[::1]", '\\back|pipe^`{}<>"'),
            (" lead and trail ", "~tilde*star'()!$&+,;="),
            ("e\u0301", "👩\u200d👩\u200d👧"),
            ("\u2028", "\u202e\ufeff\u200b"),
            ("ß.ẞ", "İı"),
            ("xn--", "//double//"),
            ("%", "%%25"),
            ("a" * 256, "é" * 64),
        ],
        start=1,
    )
]


def test_node() -> None:
    """Node's `new URL()` accepts every URI and leaves its parts alone."""
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("CI has to have node on its PATH for this test.")
        pytest.skip("node is not on the PATH")
    script = (
        "const uris = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "const parts = u => { const x = new URL(u); return [x.protocol, x.host, x.pathname, x.href]; };"
        "console.log(JSON.stringify(uris.map(parts)));"
    )
    uris = [address.uri for address in AWKWARD]
    found = subprocess.run(
        [node, "-e", script], input=json.dumps(uris), capture_output=True, text=True, encoding="utf-8", check=True
    )
    expected = []
    for uri in uris:
        host, path = uri.removeprefix("powerctx://").split("/", 1)
        expected.append(["powerctx:", host, "/" + path, uri])

    assert json.loads(found.stdout) == expected


def test_pydantic() -> None:
    """Pydantic's URL type (Rust's `url`), which many agents' models use, accepts every URI and leaves it alone."""
    import pydantic

    adapter = pydantic.TypeAdapter(pydantic.AnyUrl)

    assert [str(adapter.validate_python(address.uri)) for address in AWKWARD] == [address.uri for address in AWKWARD]


@pytest.mark.parametrize("base", ["powerctx://project%3Ademo/", ""])
@pytest.mark.parametrize("name", ["notes.md#1", "a b.md", "why?.md", "a b/c#2"])
def test_what_has_to_be_encoded_is_told(base: str, name: str) -> None:
    """The name of a file or of a part of it, typed as it is, is answered with the URI that was meant."""
    with pytest.raises(InvalidRequest) as refused:
        parse_uri(f"{base}memory/{name}", "project:demo")
    meant = str(refused.value).rpartition("write '")[2].removesuffix("'.")

    assert parse_uri(meant, "project:demo") == ("project:demo", "memory", name, None)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("", "not a powerctx URI"),
        ("powerctx://", "not a powerctx URI"),
        ("powerctx://s/memory", "names a family; write /<artifact> behind it"),
        ("memory/a@1", "pass that scope too"),
        ("http://s/memory/a@1", "not a powerctx URI"),
        ("POWERCTX://s/memory/a@1", "not a powerctx URI"),
        ("powerctx:/s/memory/a@1", "not a powerctx URI"),
        (" powerctx://s/memory/a@1", "not a powerctx URI"),
        ("powerctx://s/memory/a@1 ", "not a powerctx URI"),
        ("powerctx://s/memory/a@1\n", "not a powerctx URI"),
        ("powerctx://s/memory/a b@1", "not a powerctx URI"),
        ("powerctx://s/memory/a@", "not a powerctx URI"),
        ("powerctx://s/memory/a@x", "not a powerctx URI"),
        ("powerctx://s/memory/a@-1", "not a powerctx URI"),
        ("powerctx://s/memory/a@1@2", "not a powerctx URI"),
        ("powerctx://s/memory/a@١", "not a powerctx URI"),  # an Arabic digit
        ("powerctx://s/memory/a@" + "9" * 5000, "not a powerctx URI"),
        ("powerctx://s/memory/a?x=1@1", "not a powerctx URI"),
        ("powerctx://s/memory/a#x@1", "not a powerctx URI"),
        ("powerctx://s/memory/a@0", "count from 1"),
        ("powerctx://s/memory/a@2147483648", "count from 1"),
        ("powerctx:///memory/a@1", "scope_id must not be empty"),
        ("powerctx://s//a@1", "family '' is not a family name"),
        ("powerctx://s/Memory/a@1", "family 'Memory' is not a family name"),
        ("powerctx://s/memory/@1", "artifact_id must not be empty"),
        ("powerctx://s/memory/a%00@1", "control character"),
        ("powerctx://s%0A/memory/a@1", "control character"),
        ("powerctx://s/memory/100%@1", "%25"),
        ("powerctx://s/memory/%zz@1", "%25"),
        ("powerctx://s/memory/%FF@1", "not UTF-8"),
        ("powerctx://s/memory/%ED%A0%80@1", "not UTF-8"),
        ("powerctx://s/memory/\ud800@1", "not UTF-8"),
        ("powerctx://" + "s" * 257 + "/memory/a@1", "scope_id has 257 bytes; at most 256"),
        ("powerctx://s/memory/" + "%C3%A9" * 65 + "@1", "artifact_id has 130 bytes; at most 128"),
        (None, "not a powerctx URI"),
        (b"powerctx://s/memory/a@1", "not a powerctx URI"),
    ],
)
def test_bad_uri(uri: str, says: str) -> None:
    """Whatever is wrong with a URI is one InvalidRequest that says so."""
    with pytest.raises(InvalidRequest) as raised:
        parse_uri(uri)

    assert says in str(raised.value)
    assert raised.value.field in {"uri", "scope_id", "family", "artifact_id"}


@given(st.one_of(st.text(), st.text("powerctx:/@%?#0aF"), st.text().map("powerctx://s/memory/{}".format)))
@settings(max_examples=500, deadline=None)
def test_any_uri(uri: str) -> None:
    """Any string is a URI or an InvalidRequest, nothing else; what is accepted can be written again."""
    try:
        scope_id, family, artifact_id, revision = parse_uri(uri)
    except InvalidRequest:
        return

    assert parse_uri(Address(scope_id, family, artifact_id, revision or 1).uri) == (
        scope_id,
        family,
        artifact_id,
        revision or 1,
    )


def test_parse_wants_revision() -> None:
    """An exact address needs a revision; the message shows how to write one."""
    with pytest.raises(InvalidRequest, match="append @1"):
        Address.parse("powerctx://s/memory/a")


def test_receipt_family() -> None:
    """A version 1 receipt's `atomic-memory` is the memory family."""
    value = {"scope_id": "s", "artifact": {"family": "atomic-memory", "artifact_id": "a", "revision": 2}}

    assert Address.from_receipt(value) == Address("s", "memory", "a", 2)
