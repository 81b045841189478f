"""Identity: scopes, families, artifacts, revisions, and their URI."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self
from urllib.parse import quote, unquote_to_bytes

import attrs

from powerctx_core.errors import InvalidRequest, shown

__all__ = [
    "ARTIFACT_ID_BYTES",
    "SCOPE_ID_BYTES",
    "Address",
    "Key",
    "Partition",
    "check_family",
    "check_identifier",
    "parse_uri",
    "scope_base",
    "utf8_size",
]

SCOPE_ID_BYTES = 256
ARTIFACT_ID_BYTES = 128
_SHOWN = 400
"""Characters of a URI that an error message shows: what most of them have."""

Key = int
"""A store's own handle of one stored revision; opaque to core and valid while the store is open."""

_FAMILY = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_URI = re.compile(r"powerctx://([^/@?#\s]*)/([^/@?#\s]*)/([^@?#\s]*?)(?:@([0-9]{1,10}))?\Z")
_RELATIVE = re.compile(r"[a-z0-9-]+/[^@?#\s]+(?:@[0-9]{1,10})?\Z")
_WHOLE_FAMILY = re.compile(r"powerctx://[^/@?#\s]+/[a-z0-9-]+/?\Z")
_ENCODED = str.maketrans({"#": "%23", "?": "%3F", " ": "%20"})
"""Signs of names of files that a URI cannot hold as they are."""
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def check_identifier(field: str, value: object, limit: int) -> str:
    """Return *value* when it is a usable identifier of at most *limit* UTF-8 bytes.

    Raises:
        InvalidRequest: not a string, empty, too long, not encodable, or holding a control character.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{field} must be a string, not {type(value).__name__}.", field=field)
    if not value:
        raise InvalidRequest(f"{field} must not be empty.", field=field)
    size = utf8_size(field, value)
    if size > limit:
        raise InvalidRequest(f"{field} has {size} bytes; at most {limit} UTF-8 bytes are allowed.", field=field)
    if not value.isprintable() and any(unicodedata.category(char) == "Cc" for char in value):
        raise InvalidRequest(f"{field} {shown(value)} holds a control character; remove it.", field=field)
    return value


def utf8_size(field: str, value: str) -> int:
    """Return the UTF-8 length of *value*.

    Raises:
        InvalidRequest: it holds a lone surrogate.
    """
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{field} holds a lone surrogate at character {error.start}, which is not text; remove it.", field=field
        ) from None


def check_family(field: str, value: object) -> str:
    """Return *value* when it can name a family.

    Raises:
        InvalidRequest: it is not kebab-case of at most 64 characters.
    """
    if not isinstance(value, str) or not _FAMILY.match(value) or len(value) > 64:
        raise InvalidRequest(
            f"{field} {shown(value)} is not a family name: use lower-case words joined by '-', at most 64 characters.",
            field=field,
        )
    return value


@attrs.frozen(cache_hash=True)
class Address:
    """The exact identity of evidence: one revision of one artifact of one family in one scope."""

    scope_id: str
    family: str
    artifact_id: str
    revision: int

    @property
    def uri(self) -> str:
        """``powerctx://<scope>/<family>/<artifact>@<revision>``, percent-encoded; any id round-trips."""
        return f"{self.stem}@{self.revision}"

    @property
    def artifact(self) -> tuple[str, str, str]:
        """Scope id, family and artifact id, which all revisions share."""
        return self.scope_id, self.family, self.artifact_id

    @property
    def stem(self) -> str:
        """The URI without its revision: it means the latest revision."""
        return f"powerctx://{_part(self.scope_id)}/{_part(self.family)}/{_part(self.artifact_id, '/')}"

    def ref(self, scope_id: str | None = None) -> str:
        """Return the URI of the latest revision, relative to a scope when the artifact lies in it."""
        if scope_id != self.scope_id:
            return self.stem
        return f"{_part(self.family)}/{_part(self.artifact_id, '/')}"

    @classmethod
    def from_receipt(cls, value: Mapping[str, Any]) -> Self:
        """Build the address from a receipt's ``artifact_address`` (v1 writes ``memory`` as ``atomic-memory``)."""
        artifact = value["artifact"]
        family = artifact["family"]
        return cls(
            scope_id=value["scope_id"],
            family="memory" if family == "atomic-memory" else family,
            artifact_id=artifact["artifact_id"],
            revision=artifact["revision"],
        )

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse a URI that names an exact revision.

        Raises:
            InvalidRequest: not a powerctx URI, or without ``@revision``.
        """
        scope_id, family, artifact_id, revision = parse_uri(uri)
        if revision is None:
            raise InvalidRequest(f"{shown(uri, _SHOWN)} names no revision; append @1, @2, ….", field="uri")
        return cls(scope_id=scope_id, family=family, artifact_id=artifact_id, revision=revision)


def scope_base(scope_id: str) -> str:
    """Return what the URIs of one scope begin with."""
    return f"powerctx://{_part(scope_id)}/"


# A pack writes the URI of each of its entries several times, most of them of one scope.
@lru_cache(maxsize=1024)
def _part(value: str, safe: str = "") -> str:
    return quote(value, safe=safe)


def parse_uri(uri: str, scope_id: str | None = None) -> tuple[str, str, str, int | None]:
    """Split a URI into scope id, family, artifact id and revision (``None`` when it means the latest).

    Args:
        uri: whole, or with *scope_id* relative to that scope, as the text of a pack shows it: ``memory/a``.
        scope_id: checked, but of no effect on a whole URI.

    Raises:
        InvalidRequest: not a powerctx URI, or a part that is not a valid identifier.
    """
    relative = isinstance(uri, str) and _RELATIVE.match(uri) is not None
    if scope_id is not None:
        check_identifier("scope_id", scope_id, SCOPE_ID_BYTES)
    whole = scope_base(scope_id) + uri if relative and scope_id is not None else uri
    match = _URI.match(whole) if isinstance(whole, str) else None
    if match is None:
        raise InvalidRequest(f"{shown(uri, _SHOWN)} {_what_is_wrong(uri, relative=relative)}", field="uri")
    if _BAD_PERCENT.search(uri):
        raise InvalidRequest(
            f"{shown(uri, _SHOWN)} holds a % that no two hexadecimal digits follow; write %25.", field="uri"
        )
    try:
        scope_id, family, artifact_id = (unquote_to_bytes(part).decode() for part in match.groups()[:3])
    except UnicodeError:  # bytes that are not UTF-8, or a lone surrogate in the URI itself
        raise InvalidRequest(f"{shown(uri, _SHOWN)} holds bytes that are not UTF-8.", field="uri") from None
    check_identifier("scope_id", scope_id, SCOPE_ID_BYTES)
    check_family("family", family)
    check_identifier("artifact_id", artifact_id, ARTIFACT_ID_BYTES)
    revision = None if match[4] is None else int(match[4])
    if revision == 0 or (revision is not None and revision >= 1 << 31):
        raise InvalidRequest(f"{shown(uri, _SHOWN)}: revisions count from 1.", field="uri")
    return scope_id, family, artifact_id, revision


def _what_is_wrong(uri: object, *, relative: bool) -> str:
    if relative:
        return (
            "is not a powerctx URI, but relative to a scope: pass that scope too, or write the base of the pack before "
            "it."
        )
    if isinstance(uri, str) and _WHOLE_FAMILY.match(uri):
        return "is not a powerctx URI of an artifact, but names a family; write /<artifact> behind it."
    encoded = uri.translate(_ENCODED) if isinstance(uri, str) else ""
    if encoded != uri and (_URI.match(encoded) or _RELATIVE.match(encoded)):
        return f"is not a powerctx URI, since it holds a sign that has to be encoded; write {encoded!r}."
    return (
        "is not a powerctx URI; the form is powerctx://<scope>/<family>/<artifact>@<revision>, each part "
        "percent-encoded."
    )


@attrs.frozen
class Partition:
    """The unit of retrieval: one family of one scope."""

    scope_id: str
    family: str
