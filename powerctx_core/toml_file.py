"""Reads TOML, files of it above all, and says in one sentence what is wrong with one."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

from powerctx_core.errors import ConfigError

__all__ = ["NotToml", "expanded", "parse_toml", "read_toml"]

_DEEPEST = 32
"""Levels of tables and lists; what is deeper than any setting would only exhaust the stack of whoever reads it."""


class NotToml(ValueError):
    """Text cannot be read as TOML; the message says why, and names no value."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return what TOML text holds.

    Raises:
        NotToml: it is none, is nested more than 32 levels deep, or holds a number of thousands of digits.
    """
    import tomllib  # only a machine with a file, or with such a variable, needs it

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause = str(error).replace("end of document", f"line {len(text.splitlines())}, the last")
        raise NotToml(f"{cause}; correct that line") from None
    except RecursionError:
        raise NotToml(_TOO_DEEP) from None
    except ValueError:  # Python converts 4300 digits at most
        line = next((at for at, each in enumerate(text.splitlines(), 1) if re.search(r"\d[\d_]{4300}", each)), 1)
        raise NotToml(f"the number at line {line} is far too long; TOML has whole numbers of 64 bits") from None
    if _is_deep(table):
        raise NotToml(_TOO_DEEP)
    return table


_TOO_DEEP = f"it is nested more than {_DEEPEST} levels deep; write it flatter"


def _is_deep(table: dict[str, Any]) -> bool:
    level: list[Any] = [table]
    for _ in range(_DEEPEST):
        below = [each for value in level for each in (value.values() if isinstance(value, dict) else value)]
        level = [each for each in below if isinstance(each, dict | list)]
    return bool(level)


def expanded(file: Path) -> Path:
    """Return the path with ``~`` and ``~user`` replaced.

    Raises:
        ConfigError: there is no such user, or that one has no home.
    """
    try:
        return file.expanduser()
    except RuntimeError:
        raise ConfigError(f"{file} is not there: no home is known for {file.parts[0]}; correct its path.") from None


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds.

    Raises:
        ConfigError: it cannot be read, or is no TOML; the message names file and line.
    """
    try:
        return parse_toml(_text(file))
    except NotToml as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from None


def _text(file: Path) -> str:
    try:
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return file.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{file} is not UTF-8 text (line {line}); save it as UTF-8.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{file} is not there; correct its path.") from None
    except IsADirectoryError:
        raise ConfigError(f"{file} is a folder; name a file in it.") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}; correct its permissions or remove it.") from None
    except ValueError:  # of the path: it holds a NUL
        raise ConfigError(f"{str(file)!r} is no path of a file.") from None
    raise ConfigError(f"{file} is no regular file; name a file of TOML.")  # reading a pipe or a device may never end
