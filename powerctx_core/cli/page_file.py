"""The file of a page: checked before anything is asked, and written whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final

import click

__all__ = ["STANDARD_OUTPUT", "place", "write"]

STANDARD_OUTPUT: Final = "-"
_BEGINNING: Final = b"<!doctype html"


def place(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Return the place that an option names for a page, if one can be written there.

    A file that is there is replaced when it is a page or empty, so that no store or settings are ever lost.

    Raises:
        click.BadParameter: none can; one sentence says why.
    """
    if value is None or value == STANDARD_OUTPUT:
        return value
    try:
        fault = _fault(value)
    except OSError as error:
        fault = f"{value!r} cannot be used: {error.strerror}; name another file."
    except ValueError:  # it holds a NUL
        fault = f"{value!r} is no path of a file."
    if fault is not None:
        raise click.BadParameter(fault)
    return value


def _fault(name: str) -> str | None:
    """Return what is wrong with the file of that name."""
    file = Path(name)
    if not name.strip():
        return "it names no file; name one, such as why.html, or - for standard output."
    if file.is_dir():
        return f"{name} is a folder; name a file in it, such as {file / 'why.html'}."
    if name.endswith(("/", os.sep)) or not file.parent.is_dir():
        return f"the folder of {name} is not there; make it, or name another file."
    if not os.access(file.parent, os.W_OK):
        return f"the folder of {name} may not be written to; name a file in another."
    if not os.path.lexists(file.resolve()):
        return None
    if not file.is_file():
        return f"{name} is no regular file; name one, or - for standard output."
    with file.open("rb") as opened:
        beginning = opened.read(len(_BEGINNING))
    if beginning and beginning.lower() != _BEGINNING:
        return f"{name} is there and is no HTML page, so it is left as it is; name another file."
    return None


def write(name: str, page: str) -> None:
    """Write *page* to a new file beside the one of that name, then take its place.

    Raises:
        click.ClickException: that fails; what was there is there as before.
    """
    file = Path(name).resolve()  # a link goes on pointing there
    beside = file.with_name(f".powerctx-{uuid.uuid4().hex}.html")
    try:
        try:
            with beside.open("x", encoding="utf-8") as opened:
                opened.write(page)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise click.ClickException(f"{name} cannot be written: {error.strerror}; name another file.") from None
