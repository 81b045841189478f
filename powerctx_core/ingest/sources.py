"""Which files there are to read, and which id a document gets."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from powerctx_core.errors import InvalidRequest, PowerctxError
from powerctx_core.types import ARTIFACT_ID_BYTES

__all__ = ["KINDS", "BadLine", "Listing", "Source", "document_id", "find_sources", "system_reason"]

KINDS = {
    ".jsonl": "records",
    ".ndjson": "records",
    ".json": "records",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
}
"""File name ending -> how the file is read."""

_ID_BYTES = ARTIFACT_ID_BYTES - 8  # room for "#" and the number of a part
_SPACES = "\u00a0\u3000"


class BadLine(PowerctxError):
    """A line or a file that is not stored, and why.  Yielded as a value by the reader, so that the rest goes in.

    Attributes:
        source: name of the file as given.
        line: line number from 1, or ``None`` when the whole file is meant.
        reason: one sentence.
    """

    def __init__(self, source: str, line: int | None, reason: str) -> None:
        super().__init__(f"{source}: {reason}" if line is None else f"{source}:{line}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason


@attrs.frozen(kw_only=True)
class Source:
    """One file to read.

    Attributes:
        path: where it is; ``None`` is standard input.
        name: for messages.
        kind: ``records``, ``markdown`` or ``text``.
        artifact_id: id of the document; empty for records.
        size: bytes, 0 when unknown.
    """

    path: Path | None
    name: str
    kind: str
    artifact_id: str = ""
    size: int = 0


@attrs.frozen(kw_only=True)
class Listing:
    """The files below some paths.

    Attributes:
        sources: what is to be read, in order.
        bad: what cannot be read, as far as is known before reading.
        skipped: ending (``no ending``, ``no regular file``) -> number of files that were passed over.
    """

    sources: tuple[Source, ...]
    bad: tuple[BadLine, ...]
    skipped: Mapping[str, int]


def document_id(relative: str) -> str:
    """Return the artifact id of the file at *relative*, with ``/`` between its parts and room for ``#n``.

    A path that is too long or holds characters that do not print is changed and marked by a hash of the whole, so that
    two paths do not share an id.
    """
    text = relative.replace(os.sep, "/")
    safe = text if text.isprintable() else "".join(char if _plain(char) else "_" for char in text)
    if safe == text and len(safe.encode()) <= _ID_BYTES:
        return safe
    mark = "~" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return safe.encode()[: _ID_BYTES - len(mark)].decode(errors="ignore") + mark


def _plain(char: str) -> bool:
    return char.isprintable() or char in _SPACES


def find_sources(paths: Sequence[str]) -> Listing:
    """List the files that *paths* name; directories are walked, sorted, without hidden files and link loops.

    A document's id is its path below the walked directory; of a file named itself, its path as written (its name when
    that path is absolute).  ``-`` is JSON lines on standard input.

    Raises:
        InvalidRequest: a path does not exist.
    """
    found: dict[str, Source] = {}
    bad: list[BadLine] = []
    skipped: Counter[str] = Counter()
    for name in paths:
        path = Path(name)
        try:
            if name == "-":
                found["-"] = Source(path=None, name="<stdin>", kind="records")
            elif name and path.is_dir():
                for file, relative in _walk(path, bad):
                    if not file.is_file():
                        skipped["no regular file"] += 1
                    elif (kind := KINDS.get(file.suffix.lower())) is None:
                        skipped[file.suffix.lower() or "no ending"] += 1
                    else:
                        _add(found, bad, file, relative, kind)
            elif name and path.exists() and not path.is_file():
                bad.append(BadLine(name, None, "is no regular file; pipe it into `powerctx ingest -` instead."))
            elif name and path.exists():
                _add(found, bad, path, _written(path), KINDS.get(path.suffix.lower(), "text"))
            else:
                raise InvalidRequest(f"{name!r} does not exist; name a file, a folder or - for standard input.")
        except OSError as error:
            bad.append(BadLine(name, None, system_reason(error)))
    return Listing(sources=tuple(found.values()), bad=tuple(bad), skipped=skipped)


def _add(found: dict[str, Source], bad: list[BadLine], path: Path, relative: str, kind: str) -> None:
    """Add one file, unless it is there already or its id is another file's."""
    artifact_id = document_id(relative) if kind != "records" else ""
    key = artifact_id or f"\0{os.path.realpath(path)}"
    other = found.get(key)
    if other is None:
        size = path.stat().st_size
        found[key] = Source(path=path, name=str(path), kind=kind, artifact_id=artifact_id, size=size)
    elif other.path is not None and not other.path.samefile(path):
        reason = f"would get the same id {artifact_id!r} as {other.name}; name the folder above both instead."
        bad.append(BadLine(str(path), None, reason))


def _written(path: Path) -> str:
    if path.is_absolute():
        return path.name
    return "/".join(part for part in Path(os.path.normpath(path)).parts if part != os.pardir)


def _walk(root: Path, bad: list[BadLine]) -> Iterator[tuple[Path, str]]:
    """Yield what is no directory below *root* with their paths relative to it, each directory once."""
    real_root = Path(os.path.realpath(root))
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[Path, str]] = [(root, "")]
    while stack:
        path, relative = stack.pop()
        try:
            if path.is_dir():
                # What a link inside the tree leads to is met at its own place, so that its ids do not depend on links.
                if relative and path.is_symlink() and Path(os.path.realpath(path)).is_relative_to(real_root):
                    continue
                status = path.stat()
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    names = sorted((entry.name for entry in path.iterdir() if entry.name[0] != "."), reverse=True)
                    stack.extend((path / name, f"{relative}/{name}" if relative else name) for name in names)
            elif path.is_symlink() and not path.exists():
                bad.append(BadLine(str(path), None, "is a link to nothing."))
            else:
                yield path, relative
        except OSError as error:
            bad.append(BadLine(str(path), None, system_reason(error)))


def system_reason(error: OSError) -> str:
    """Return the reason for people, without the path."""
    return f"cannot be read: {error.strerror or type(error).__name__}."
