"""Plugin packages that are heavy, lenient, untidy or ill described: real distributions, made when they are tested."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

from kit_fakes.faults import declare

__all__: list[str] = []

PLUGIN = """
import attrs
from powerctx_core import EmbedderSpec, hookimpl

@attrs.frozen(kw_only=True)
class Settings:
    dimensions: int = attrs.field(default=16, validator=attrs.validators.instance_of(int))
    prefix: str = ""

@hookimpl
def powerctx_embedders():
    yield EmbedderSpec(name=NAME, factory=FACTORY, settings=Settings, about="Hashes, in a package")
"""
PART = """
from powerctx_core.hash_embed import HashEmbedder, HashSettings

class Embedder(HashEmbedder):
    def __init__(self, settings):
        super().__init__(HashSettings())

    def close(self):
        pass
"""
METADATA = """Metadata-Version: 2.1
Name: NAME
Version: 1.0
License-Expression: MIT
Requires-Dist: powerctx-core<2,>=CORE
"""
Files = Mapping[str, str]


def package(name: str) -> dict[str, str]:
    """Return the files of an honest package, by their path beside each other."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    core = importlib.metadata.version("powerctx-core")
    light = PLUGIN.replace("NAME", repr(name)).replace("FACTORY", repr(f"{module}.part:Embedder"))
    return {
        f"{module}/__init__.py": "",
        f"{module}/py.typed": "",
        f"{module}/plugin.py": light,
        f"{module}/part.py": PART,
        f"{info}/METADATA": METADATA.replace("NAME", name).replace("CORE", core),
        f"{info}/entry_points.txt": f"[powerctx.v1]\n{name} = {module}.plugin\n",
    }


def install(name: str, change: Callable[[dict[str, str]], object]) -> None:
    """Install a package with a fault beside the others of this run."""
    site = Path(os.environ["POWERCTX_BITES_REPORT"]).parent / "site"
    if str(site) not in sys.path:
        sys.path.insert(0, str(site))
    files = package(name)
    change(files)
    record = next(path for path in files if path.endswith("METADATA")).replace("METADATA", "RECORD")
    files[record] = "".join(f"{path},,\n" for path in [*files, record])
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")


def fields(name: str, change: Callable[[dict[str, str]], object], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Install the package and return what the subclass of the contract declares."""
    install(name, change)
    return {"distribution": name, **declared}


def broken(*fails: str, **declared: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function, which changes the files of an honest package, as a fault."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"broken-{function.__name__.replace('_', '-')}"
        declare(function, fails, "package:PluginContract", fields=partial(fields, name, function, declared))
        return function

    return decorate


def edit(files: dict[str, str], name: str, old: str, new: str) -> None:
    """Replace a text in one file."""
    path = next(path for path in files if path.endswith(name))
    assert old in files[path], (name, old)
    files[path] = files[path].replace(old, new)


def add(files: dict[str, str], name: str, text: str) -> None:
    """Append to one file."""
    path = next(path for path in files if path.endswith(name))
    files[path] += dedent(text)


@broken("test_about", "test_entry_point", "test_loads", "test_state")
def takes_another_name(files):
    """The entry point has an underscore in its name."""
    edit(files, "entry_points.txt", "broken-takes-another-name =", "broken_takes_another_name =")


@broken("test_state", "test_loads", "test_about")
def fails_to_load(files):
    """The module that the entry point names raises."""
    add(files, "plugin.py", "raise RuntimeError('no license key')\n")


@broken("test_loads", "test_made_and_closed_twice", "test_nothing_is_left")
def names_no_class(files):
    """The factory is in no module."""
    edit(files, "plugin.py", "part:Embedder", "part:Embeder")


@broken("test_light")
def imports_much(files):
    """The module that the entry point names imports a package that listing does not need."""
    add(files, "plugin.py", "import packaging.version\n")


@broken("test_few_modules")
def imports_many(files):
    """The module that the entry point names imports half of the standard library."""
    add(files, "plugin.py", "import asyncio, xml.dom.minidom, http.server, unittest.mock\n")


@broken("test_factories_wait")
def imports_its_part(files):
    """The module that the entry point names imports the part."""
    add(files, "plugin.py", "import broken_imports_its_part.part\n")


@broken("test_about")
def says_nothing(files):
    """A part does not say what it is."""
    edit(files, "plugin.py", 'about="Hashes, in a package"', 'about=" "')


@broken("test_settings_have_defaults", "test_loads", "test_made_and_closed_twice", "test_nothing_is_left")
def needs_a_key(files):
    """A setting has no default."""
    edit(files, "plugin.py", 'prefix: str = ""', "key: str")


@broken("test_settings_are_strict")
def converts_settings(files):
    """A setting has no type, and is converted."""
    edit(files, "plugin.py", 'prefix: str = ""', 'prefix = attrs.field(default="", converter=str)')


@broken("test_made_and_closed_twice")
def closes_once(files):
    """A second close is an error."""
    edit(files, "part.py", "pass", "del self._dimensions")


def keep(files: dict[str, str], what: str) -> None:
    """Let the part keep something when it is made."""
    made = "super().__init__(HashSettings())"
    edit(files, "part.py", made, f"{made}; KEPT.append({what})")
    add(files, "part.py", "import socket, threading, time\nKEPT = []\n")


@broken("test_nothing_is_left")
def leaves_a_thread(files):
    """A thread goes on after the host was closed."""
    keep(files, "threading.Thread(target=time.sleep, args=(20,), daemon=True).start()")


@broken("test_nothing_is_left")
def leaves_a_file(files):
    """A file stays open."""
    keep(files, "open(__file__)")


@broken("test_nothing_is_left")
def leaves_a_socket(files):
    """A socket stays open."""
    keep(files, "socket.socket()")


@broken("test_requires_core")
def requires_any_core(files):
    """Any version of the core will do."""
    edit(files, "METADATA", "powerctx-core<2,>=", "powerctx-core>=")


@broken("test_metadata")
def has_no_license(files):
    """The metadata names no license."""
    edit(files, "METADATA", "License-Expression: MIT\n", "")


@broken("test_typed")
def has_no_types(files):
    """The package holds no ``py.typed``."""
    files.pop("broken_has_no_types/py.typed")


@broken("test_top_level")
def brings_its_tests(files):
    """The wheel holds a top-level package ``tests``."""
    files["tests/__init__.py"] = ""


@broken("test_stores", outside={"broken-shows-a-password": "a database"})
def shows_a_password(files):
    """The example of a store's URL has a password."""
    add(
        files,
        "plugin.py",
        """
        from powerctx_core import StoreSpec
        from powerctx_core.ports import Capability

        @hookimpl
        def powerctx_stores():
            yield StoreSpec(
                name="broken-shows-a-password", factory="powerctx_core.memory_store:MemoryStore", about="a store",
                schemes=("broken-shows",), capabilities=frozenset({Capability.LEXICAL}),
                example="broken-shows://scott:tiger@localhost/db",
            )
        """,
    )
