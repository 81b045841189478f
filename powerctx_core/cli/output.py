"""What is printed, and how: text and JSON on standard output, notes and errors on standard error."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click

__all__ = ["emit", "emit_json", "heading", "json_note", "note", "notes", "pieces", "plain", "table", "text"]

_FREE_TEXT = ("abstract", "parts", "value", "from")
"""Columns that are folded or cut on a narrow terminal."""
_FREE_TEXT_LEAST = 24
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL_BUT_LINES = {code: shown for code, shown in _CONTROL.items() if code not in (9, 10)}
_FORMAT = (
    *(0xAD, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F, 0xFEFF, 0xE0001),
    *(*range(0x2028, 0x202F), *range(0x2060, 0x2070), *range(0xFFF9, 0xFFFC), *range(0xE0020, 0xE0080)),
)
"""What turns the direction of text or is not seen.  Joiners, which scripts and emoji need, are not among it."""
_ONE_LINE = _CONTROL | {code: f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}" for code in _FORMAT}


def plain(value: str) -> str:
    """Return *value* on one line, with control and format characters made visible."""
    return " ".join(value.split()).translate(_ONE_LINE)


def note(message: str) -> None:
    """Print one line on standard error."""
    click.echo(plain(message), err=True)


def notes(messages: Iterable[str]) -> None:
    """Print each message as one line on standard error."""
    for message in messages:
        note(message)


def emit(line: str = "") -> None:
    """Print one line on standard output."""
    click.echo(line)


def emit_json(value: Any) -> None:
    """Print *value* as JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def json_note(value: Any) -> None:
    """Print *value* as one line of JSON on standard error; on a terminal with nothing that could steer it."""
    click.echo(json.dumps(value, ensure_ascii=sys.stderr.isatty()), err=True)


def text(value: str) -> None:
    """Print stored text: as it is into a pipe or file, without control characters that could steer a terminal."""
    shown = value.translate(_CONTROL_BUT_LINES) if sys.stdout.isatty() else value
    click.echo(shown, nl=not shown.endswith("\n"))


def heading(line: str) -> None:
    """Print one line that stands out on a terminal."""
    click.secho(plain(line), bold=True)


def pieces(number: int, noun: str) -> str:
    """Return ``1 item``, ``2 items``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table on standard output: drawn on a terminal, aligned columns elsewhere.

    A column whose name ends in ``>`` is aligned to the right.
    """
    names = [name.removesuffix(">") for name in columns]
    right = [name.endswith(">") for name in columns]
    cells = [[plain("" if value is None else str(value)) for value in row] for row in rows]
    if sys.stdout.isatty() and _drawn(names, right, cells, title):
        return
    if title:
        emit(title)
    widths = [max([_width(name), *(_width(row[index]) for row in cells)]) for index, name in enumerate(names)]
    for row in [names, *cells]:
        padded = (
            " " * (width - _width(cell)) + cell if to_right else cell + " " * (width - _width(cell))
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        emit("  ".join(padded).rstrip())


def _drawn(names: Sequence[str], right: Sequence[bool], cells: Sequence[Sequence[str]], title: str | None) -> bool:
    try:
        from rich.box import SIMPLE_HEAD
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    console = Console(file=sys.stdout)
    widths = [max(cell_len(cell) for cell in column) for column in zip(names, *cells, strict=True)]
    # Only free text gives way to a narrow terminal: a URI is there to be copied.
    fixed = sum(width + 3 for name, width in zip(names, widths, strict=True) if name not in _FREE_TEXT)
    loose = sum(name in _FREE_TEXT for name in names)
    room = max(_FREE_TEXT_LEAST, (console.width - fixed) // max(1, loose) - 3)
    console.width = max(console.width, fixed + loose * (_FREE_TEXT_LEAST + 3) + 1)
    drawn = Table(title=Text(title) if title else None, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for name, width, to_right in zip(names, widths, right, strict=True):
        drawn.add_column(
            name,
            justify="right" if to_right else "left",
            overflow="fold",
            min_width=None if name in _FREE_TEXT else width,
        )
    for row in cells:
        texts = [Text(cell) for cell in row]
        for name, abstract in zip(names, texts, strict=True):
            if name == "abstract":
                abstract.truncate(room, overflow="ellipsis")
        drawn.add_row(*texts)
    console.print(drawn, crop=False)
    return True


def _width(value: str) -> int:
    if value.isascii():
        return len(value)
    return sum(
        0
        if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in value
    )
