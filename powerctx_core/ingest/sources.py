"""Which files there are to read, and which id a document gets."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs

from powerctx_core.errors import InvalidRequest, PowerctxError
from powerctx_core.types import ARTIFACT_ID_BYTES

__all__ = ["KINDS", "BadLine", "Listing", "Source", "document_id", "find_sources", "folder_id", "system_reason"]

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
_MARK_BYTES = 11
_SKILL_FILE = "skill.md"
_FILES_NAMED = 256
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
        kind: ``records``, ``markdown``, ``text`` or ``skill``.
        artifact_id: id of the document; empty for records.
        size: bytes, 0 when unknown.
        files: of a skill, what else its folder holds, at most 256 names.
    """

    path: Path | None
    name: str
    kind: str
    artifact_id: str = ""
    size: int = 0
    files: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Listing:
    """The files below some paths.

    Attributes:
        sources: what is to be read, in order.
        bad: what cannot be read, as far as is known before reading.
        skipped: ending (``no ending``, ``no regular file``, ``link out of the folder``, ``link to what is hidden``) ->
            number of files that were passed over.
        folders: ids of the folders that were walked, as far as they have one.
    """

    sources: tuple[Source, ...]
    bad: tuple[BadLine, ...]
    skipped: Mapping[str, int]
    folders: tuple[str, ...] = ()


def document_id(relative: str) -> str:
    """Return the artifact id of the file at *relative*, with ``/`` between its parts and room for ``#n``.

    Names that hold characters that do not print are changed and marked by a hash, so that two of them do not share an
    id.  Of a path that is too long the folders stay as far as there is room, and the rest is its last name with a mark:
    it lies below every folder above it that has an id (:func:`folder_id`).
    """
    text = relative.replace(os.sep, "/")
    names = [_safe(name) for name in text.split("/")]
    whole = "/".join(names)
    if len(whole.encode()) <= _ID_BYTES:
        return whole
    above = ""
    for name in names[:-1]:
        longer = f"{above}{name}/"
        if len(longer.encode()) + _MARK_BYTES > _ID_BYTES:
            break
        above = longer
    room = _ID_BYTES - _MARK_BYTES - len(above.encode())
    return above + names[-1].encode()[:room].decode(errors="ignore") + _mark(text)


def folder_id(relative: str) -> str | None:
    """Return the artifact id of the folder at *relative*, or ``None`` when it leaves no room for names below it."""
    whole = "/".join(map(_safe, relative.replace(os.sep, "/").split("/")))
    return whole if len(whole.encode()) + 1 + _MARK_BYTES <= _ID_BYTES else None


def _safe(name: str) -> str:
    if name.isprintable():
        return name
    safe = "".join(char if char.isprintable() or char in _SPACES else "_" for char in name)
    return safe if safe == name else safe + _mark(name)


def _mark(text: str) -> str:
    return "~" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: _MARK_BYTES - 1]


def find_sources(paths: Sequence[str], *, skills: bool = False) -> Listing:
    """List the files that *paths* name; directories are walked, sorted, without hidden files and loops.

    A document's id is its path below the walked directory; of a file named itself, its path as written (its name when
    that path is absolute).  ``-`` is JSON lines on standard input.  Links out of a walked directory are passed over.

    Args:
        paths: files and directories.
        skills: a directory with a ``SKILL.md`` is one source with the id of the directory; its other files are none.

    Raises:
        InvalidRequest: a path does not exist.
    """
    finder = _Finder(skills)
    for name in paths:
        try:
            finder.take(name)
        except OSError as error:
            finder.bad.append(BadLine(name, None, system_reason(error)))
    return Listing(
        sources=tuple(finder.found.values()),
        bad=tuple(finder.bad),
        skipped=finder.skipped,
        folders=tuple(finder.folders),
    )


@attrs.define
class _Finder:
    """The files found so far."""

    skills: bool
    found: dict[str, Source] = attrs.field(factory=dict)
    bad: list[BadLine] = attrs.field(factory=list)
    skipped: Counter[str] = attrs.field(factory=Counter)
    folders: dict[str, None] = attrs.field(factory=dict)

    def take(self, name: str) -> None:
        """Find what one path names."""
        path = Path(name)
        if name == "-":
            self.found["-"] = Source(path=None, name="<stdin>", kind="records")
        elif name and path.is_dir():
            for file, relative in self._walk(path, skills=self.skills):
                self._take_file(file, relative)
        elif name and path.exists() and not path.is_file():
            self.bad.append(BadLine(name, None, "is no regular file; pipe it into `powerctx ingest -` instead."))
        elif name and path.exists():
            if self.skills and path.name.lower() == _SKILL_FILE:
                self._add_skill(path, "")
            else:
                self._add(path, document_id(_written(path)), KINDS.get(path.suffix.lower(), "text"))
        else:
            raise InvalidRequest(f"{name!r} does not exist; name a file, a folder or - for standard input.")

    def _take_file(self, file: Path, relative: str) -> None:
        if self.skills and file.name.lower() == _SKILL_FILE:
            self._add_skill(file, relative.rpartition("/")[0])
        elif (kind := KINDS.get(file.suffix.lower())) is None:
            self.skipped[file.suffix.lower() or "no ending"] += 1
        else:
            self._add(file, document_id(relative), kind)

    def _add_skill(self, file: Path, relative: str) -> None:
        """Add the package around *file*; one that is no part of a walk has the name of its folder."""
        artifact_id = document_id(relative or file.parent.resolve().name or "skill")
        others = (document_id(name) for each, name in self._walk(file.parent, skills=False) if each != file)
        self._add(file, artifact_id, "skill", tuple(islice(others, _FILES_NAMED)))

    def _add(self, path: Path, artifact_id: str, kind: str, files: tuple[str, ...] = ()) -> None:
        """Add one file, unless it is there already or its id is another file's."""
        if kind == "records":
            artifact_id = ""
        key = artifact_id or f"\0{os.path.realpath(path)}"
        other = self.found.get(key)
        if other is None:
            size = path.stat().st_size
            self.found[key] = Source(
                path=path, name=str(path), kind=kind, artifact_id=artifact_id, size=size, files=files
            )
        elif other.path is not None and not other.path.samefile(path):
            reason = f"would get the same id {artifact_id!r} as {other.name}; name the folder above both instead."
            self.bad.append(BadLine(str(path), None, reason))

    def _walk(self, root: Path, *, skills: bool) -> Iterator[tuple[Path, str]]:
        """Yield the files below *root*, of a skill its SKILL.md, with their paths relative to it."""
        real_root = Path(os.path.realpath(root))
        seen: set[tuple[int, int]] = set()
        stack: list[tuple[Path, str]] = [(root, "")]
        while stack:
            path, relative = stack.pop()
            try:
                if relative and path.is_symlink() and not self._follows(path, real_root):
                    continue
                if path.is_dir():
                    status = path.stat()
                    if (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                    names = sorted((entry.name for entry in path.iterdir() if entry.name[0] != "."), reverse=True)
                    if skills and (skill := _skill(path, names)):
                        names = [skill]
                    elif relative and not self.skills and (folder := folder_id(relative)):
                        self.folders[folder] = None
                    stack.extend((path / name, f"{relative}/{name}" if relative else name) for name in names)
                elif path.is_file():
                    yield path, relative
                else:
                    self.skipped["no regular file"] += 1
            except OSError as error:
                self.bad.append(BadLine(str(path), None, system_reason(error)))

    def _follows(self, link: Path, root: Path) -> bool:
        """Tell whether a link in the tree is to be read: one to a file of the tree.

        A directory of the tree is met at its own place, so that its ids do not depend on links; and whoever made a tree
        must not decide by a link what else of this machine is stored.
        """
        if not link.exists():
            self.bad.append(BadLine(str(link), None, "is a link to nothing."))
        elif not (target := Path(os.path.realpath(link))).is_relative_to(root):
            self.skipped["link out of the folder"] += 1
        elif any(name.startswith(".") for name in target.relative_to(root).parts):
            self.skipped["link to what is hidden"] += 1
        else:
            return not link.is_dir()
        return False


def _skill(folder: Path, names: Sequence[str]) -> str | None:
    """Return the name of the file that makes *folder* a skill; of several the one in capitals."""
    files = sorted(name for name in names if name.lower() == _SKILL_FILE and (folder / name).is_file())
    return files[0] if files else None


def _written(path: Path) -> str:
    if path.is_absolute():
        return path.name
    return "/".join(part for part in Path(os.path.normpath(path)).parts if part != os.pardir)


def system_reason(error: OSError) -> str:
    """Return the reason for people, without the path."""
    return f"cannot be read: {error.strerror or type(error).__name__}."
