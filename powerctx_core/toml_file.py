"""Reads TOML files, and says in one sentence what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from powerctx_core.errors import ConfigError

__all__ = ["read_toml"]


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds.

    Raises:
        ConfigError: it cannot be read, or is no TOML; the message names file and line.
    """
    import tomllib  # only a machine with a file needs it

    text = ""
    try:
        text = file.read_text(encoding="utf-8-sig")  # editors of some systems begin a file with a mark
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause = str(error).replace("end of document", f"line {len(text.splitlines())}, the last")
        raise ConfigError(f"{file} is not valid TOML: {cause}; correct that line.") from None
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
