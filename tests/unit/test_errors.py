"""No message shows a secret."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from powerctx_core.errors import blanked, redacted, redacted_url, url_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://u:hunter2@h/db", "mysql://***@h/db"),
        ("mysql://u:hun/ter2@h/db", "mysql://***@h/db"),
        ("mysql://u:hun#ter2@h/db", "mysql://***@h/db"),
        ("mysql://u:hun?ter2@h/db", "mysql://***@h/db"),
        ("mysql://u:hun?a=ter2@h/db", "mysql://***@h/db"),
        ("mysql://u:hun@ter/2@h/db", "mysql://***@h/db"),
        ("mysql://u:hun ter2@h/db", "mysql://***@h/db"),
        ("mysql://u:123/45@h/db", "mysql://***@h/db"),
        ("mysql://u:/hunter2@h/db", "mysql://***@h/db"),
        ("mysql://root@sys#cluster:hunter2@h:2881/db", "mysql://***@h:2881/db"),
        ("mysql://u:hunter2@[::1]:3306/db", "mysql://***@[::1]:3306/db"),
        ("postgresql://u:hunter2@h1:5432,h2:5432/db", "postgresql://***@h1:5432,h2:5432/db"),
        ("oracle://scott/hunter2@h/x", "oracle://***@h/x"),
        ("http://token@h/x", "http://***@h/x"),
        ("memory://u:hunter2@h", "memory://***@h"),
        ("mysql://u:hunter2@h/db?mail=a@b", "mysql://***@h/db?mail=a@b"),
        ("http://h.org/?next=http://u:hunter2@h/", "http://h.org/?next=http://***@h/"),
        ("http://u:hunter2@h/http://v:hunter2@i/", "http://***@i/"),
        *((f"http://h/?a=1&{name}=hunter2&b=2", f"http://h/?a=1&{name}=***&b=2") for name in (
            "password", "passphrase", "PWD", "api_key", "sig", "X-Amz-Signature", "signature", "access_token", "bearer",
        )),
        ("http://h/?password=hun;ter2@x#y", "http://h/?password=***"),
        ("http://h/#access_token=hunter2", "http://h/#access_token=***"),
    ],
)  # fmt: skip
def test_secrets_of_urls_are_hidden(url: str, shown: str) -> None:
    """User info ends at the last ``@`` that can end it, whatever a password holds; secret parameters go by name."""
    assert shown == redacted_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///home/me@work/x.db",
        "sqlite:////home/me@work/x.db?mode=ro",
        "sqlite:///C:/me@work/x.db",
        "https://registry.example.org/@scope/name",
        "https://example.org/users/me@example.org/inbox",
        "https://localhost/@me",
        "http://localhost:9200/index?mail=a@b",
        "http://[::1]:9200/index?mail=a@b",
        "http://h/?design=1&monk=2",
        "memory://",
        "no URL at all, me@example.org",
    ],
)
def test_what_is_no_secret_stays(url: str) -> None:
    """An ``@`` in a path or a query is no user info, and a parameter that only sounds like a secret is none."""
    assert url == redacted_url(url)


# What reads as host and query of a URL, as in "u:p@h?a=b@c" and "u:1?a=b@c", is taken for that.
PASSWORDS = st.text(st.sampled_from("ab1:/?#@&=%;,.[]~ü"), min_size=1, max_size=12).filter(
    lambda password: not re.search(r"(\A\d|@).*\?[\w.~-]+=", password)
)


@given(PASSWORDS, st.sampled_from(["h", "h:1", "[::1]:2", "h.example.org"]), st.sampled_from(["", "/db", "/db?x=1"]))
def test_no_password_shows(password: str, host: str, rest: str) -> None:
    """Whatever a password is made of, nothing of it stays, and host and path stay readable."""
    url = f"mysql://user:{password}S3CRET@{host}{rest}"

    assert f"mysql://***@{host}{rest}" == redacted_url(url)
    assert f"{password}S3CRET" in url_secrets(url)


def test_messages() -> None:
    """Each URL in a message is treated by itself, and the rest stays as it is."""
    message = "from 'mysql://u:a/b@h/x' to http://u:b@h, a@b, see sqlite:///me@work"

    assert "from 'mysql://***@h/x' to http://***@h, a@b, see sqlite:///me@work" == redacted(message)


def test_given_secrets_are_blanked() -> None:
    """A given secret goes wherever it stands, a short one only as a word; the longer one of two goes first."""
    assert "*** *** abc x*** ***" == blanked(
        "hunter2-long hunter2 abc xhunter2 ab", ["hunter2", "hunter2-long", "ab", ""]
    )


def test_item_uris_are_shown_whole() -> None:
    """The ``@`` of a powerctx URI stands before the revision; nothing of it is a password."""
    message = "powerctx://project%3Ademo/memory/a/b@1 is not stored; powerctx://s/memory/x@12 neither."

    assert message == redacted(message)
