"""What is printed, and how: text and JSON on standard output, notes and errors on standard error."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click

__all__ = ["emit", "emit_json", "heading", "note", "pieces", "plain", "table", "text"]

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL_BUT_LINES = {code: shown for code, shown in _CONTROL.items() if code not in (9, 10)}


def plain(value: str) -> str:
    """Return *value* on one line, with control characters made visible."""
    return " ".join(value.split()).translate(_CONTROL)


def note(message: str) -> None:
    """Print one line on standard error."""
    click.echo(plain(message), err=True)


def emit(line: str = "") -> None:
    """Print one line on standard output."""
    click.echo(line)


def emit_json(value: Any) -> None:
    """Print *value* as JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


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
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    drawn = Table(title=Text(title) if title else None, title_justify="left", header_style="bold")
    for name, to_right in zip(names, right, strict=True):
        drawn.add_column(name, justify="right" if to_right else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout).print(drawn)
    return True


def _width(value: str) -> int:
    if value.isascii():
        return len(value)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in value
    )
