"""What a plugin package must hold to: light to list, strict to configure, clean to leave, honest in its metadata."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from powerctx_core.config import part_settings, structure
from powerctx_core.errors import ConfigError
from powerctx_core.hookspecs import GROUP
from powerctx_core.host import Host
from powerctx_core.records import StoreSpec
from powerctx_core.testing.contract import Contract, agree
from powerctx_core.testing.leftovers import make

__all__ = ["PluginContract"]

LISTING = """
import importlib, json, sys
from powerctx_core.host import Host
Host.compose(allow=()).report()
names, modules = json.loads(sys.argv[1])
before = set(sys.modules)
for module in modules:
    importlib.import_module(module)
light = sorted(set(sys.modules) - before)
Host.compose(allow=names).report()
print(json.dumps([light, sorted(set(sys.modules) - before)]))
"""
FREE = frozenset({"powerctx_core", "attr", "attrs", "pluggy"})
"""Top-level packages that listing loads anyway."""
COMMON = frozenset(
    "benchmarks build common conftest data dist docs example examples helpers plugin scripts setup src test tests tools"
    " utils".split()
)
"""Top-level names that every second wheel would claim."""
WRONG: Mapping[type, tuple[object, ...]] = {
    bool: ("false", 1, "no"),
    int: ("1", True, 1.5, "many"),
    float: ("1.5", True),
    str: (1, True, ["a"]),
}
"""Type of a setting -> values that somebody might write for one, and that are not of it."""


class PluginContract(Contract):
    """What every installed distribution with an entry point in ``powerctx.v1`` must hold to.

    Example::

        class TestPackage(PluginContract):
            distribution = "powerctx-acme"

    Attributes:
        distribution: its name on the package index; it must be installed.
        entry_points: name -> module, for a distribution that is not found by its metadata.
        settings: as in ``powerctx.toml``, for parts that cannot be made without.
        imports: package -> why the light module needs it, beyond powerctx_core, attrs and the standard library.
        most_modules: modules that listing may load beyond those of core's own parts.
        outside: part -> why it is not made here: what service it needs.
        beside: entry points of the plugins whose parts its own are composed of.
    """

    guide = "docs/plugins/family.md#when-a-test-fails"
    distribution: ClassVar[str] = ""
    entry_points: ClassVar[Mapping[str, str]] = {}
    settings: ClassVar[Mapping[str, Any]] = {}
    imports: ClassVar[Mapping[str, str]] = {}
    most_modules: ClassVar[int] = 20
    outside: ClassVar[Mapping[str, str]] = {}
    beside: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture
    def installed(self) -> importlib.metadata.Distribution:
        """Give the distribution."""
        if not self.distribution:
            raise NotImplementedError(f"{type(self).__name__} needs the class attribute distribution")
        return importlib.metadata.distribution(self.distribution)

    @pytest.fixture
    def points(self, installed: importlib.metadata.Distribution) -> Mapping[str, str]:
        """Give its plugins: name -> module."""
        found = {each.name: each.value for each in installed.entry_points if each.group == GROUP}
        return {**found, **self.entry_points}

    @pytest.fixture
    def host(self, points: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
        """Give a host with these plugins only, and those they are composed of, in an empty folder."""
        monkeypatch.chdir(tmp_path)
        with Host.compose(structure(self.settings), allow=[*points, *self.beside]) as host:
            yield host

    @pytest.fixture
    def records(self, host: Host, points: Mapping[str, str]) -> list[tuple[str, Any]]:
        """Give hook and record of every part."""
        return [
            (hook, host.spec(hook, name))
            for status in host.report()
            if status.name in points
            for hook, names in status.hooks.items()
            for name in names
        ]

    @pytest.fixture
    def loaded(self, points: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Give the modules that the entry points load, and those that listing loads, in a fresh interpreter."""
        modules = sorted({value.partition(":")[0] for value in points.values()})
        light, listed = json.loads(fresh(LISTING, json.dumps([sorted(points), modules])))
        return light, listed

    def test_entry_point(self, installed: importlib.metadata.Distribution) -> None:
        """It has an entry point in the group ``powerctx.v1``; each name is kebab-case, and none is ``core``."""
        names = [each.name for each in installed.entry_points if each.group == GROUP]
        wrong = [name for name in names if name == "core" or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)]

        assert names, f"{self.distribution} has no entry point in the group {GROUP}"
        agree("entry points that are not kebab-case, or core", [], wrong)

    def test_state(self, host: Host, points: Mapping[str, str]) -> None:
        """Every plugin of it is listed as ``ok``: it imports, its records are valid, no name is taken."""
        states = {status.name: (status.state, status.reason) for status in host.report() if status.name in points}

        agree("states and reasons of the plugins", dict.fromkeys(points, ("ok", "")), states)

    def test_loads(self, host: Host, points: Mapping[str, str]) -> None:
        """``powerctx check`` passes: every factory can be imported, all settings are read."""
        for name in points:
            host.check(name)

    def test_light(self, loaded: tuple[list[str], list[str]], points: Mapping[str, str]) -> None:
        """The module that the entry point names loads nothing beyond powerctx_core, attrs and the standard library."""
        own = {value.partition(":")[0].partition(".")[0] for value in points.values()}
        packages = {module.partition(".")[0] for module in loaded[0]}

        heavy = sorted(packages - own - FREE - set(self.imports) - set(sys.stdlib_module_names))

        agree("packages that the light module imports", [], heavy)

    def test_few_modules(self, loaded: tuple[list[str], list[str]]) -> None:
        """It loads few modules: everybody who has it installed pays for them at every start."""
        light = loaded[0]

        assert len(light) <= self.most_modules, f"{len(light)} modules: {', '.join(light)}"

    def test_factories_wait(self, loaded: tuple[list[str], list[str]], records: list[tuple[str, Any]]) -> None:
        """Listing loads no module of a factory."""
        factories = {record.factory.partition(":")[0] for _, record in records if isinstance(record.factory, str)}

        agree("modules of factories that listing loads", [], sorted(factories & set(loaded[1])))

    def test_about(self, records: list[tuple[str, Any]]) -> None:
        """Every part says in one line what it is."""
        assert records, f"{self.distribution} offers no part"
        agree("parts that do not say what they are", [], [each.name for _, each in records if not each.about.strip()])

    def test_settings_have_defaults(self, records: list[tuple[str, Any]]) -> None:
        """A part can be listed and checked before anything is configured."""
        required = [record.name for _, record in records if not _has_defaults(record.settings)]

        agree("parts with a setting that has no default", [], required)

    def test_settings_are_strict(self, records: list[tuple[str, Any]]) -> None:
        """A wrong type is refused, not converted: ``"false"`` is not true; a setting that does not exist, too."""
        taken = [
            f"parts.{record.name}.{key} = {value!r}"
            for _, record in records
            for key, value in [*_wrong_values(record.settings), ("no_such_setting", 1)]
            if not _refuses(record, key, value)
        ]

        agree("settings of a wrong type that are taken", [], taken)

    def test_made_and_closed_twice(self, host: Host, records: list[tuple[str, Any]]) -> None:
        """Every part is made without a service, and closing it again does nothing."""
        for hook, record in self._inside(records):
            part = make(host, hook, record)
            if hook != "powerctx_renderers" and callable(getattr(part, "close", None)):
                part.close()
                part.close()

    def test_nothing_is_left(self, points: Mapping[str, str], records: list[tuple[str, Any]]) -> None:
        """After a part was made, used and closed, no thread of it runs, and no file or socket is open."""
        parts = [(hook, record.name) for hook, record in self._inside(records) if hook != "powerctx_commands"]
        task = {"names": [*points, *self.beside], "settings": dict(self.settings), "parts": parts}

        left = json.loads(fresh("from powerctx_core.testing.leftovers import main; main()", json.dumps(task)))

        agree("what is left after a close", [], left)

    def test_stores(self, records: list[tuple[str, Any]]) -> None:
        """A store says what it can, and shows a URL of its own that holds no password."""
        for record in [record for _, record in records if isinstance(record, StoreSpec)]:
            scheme, _, place = record.example.partition("://")
            assert record.capabilities, record.name
            assert scheme in record.schemes, record.name
            assert not re.match(r"[^/@]*:[^/@]*@", place), record.name

    def test_requires_core(self, installed: importlib.metadata.Distribution) -> None:
        """It requires powerctx-core, this version and none from 2 on: ``powerctx-core>=X.Y,<2``."""
        wanted = [Requirement(each) for each in installed.requires or ()]
        core = [each.specifier for each in wanted if each.name == "powerctx-core" and each.marker is None]

        assert core, "powerctx-core is not among its dependencies"
        assert all(each.contains(importlib.metadata.version("powerctx-core"), prereleases=True) for each in core)
        assert not any(each.contains(Version("2.0"), prereleases=True) for each in core)

    def test_metadata(self, installed: importlib.metadata.Distribution) -> None:
        """It has a version and names its license."""
        metadata = installed.metadata
        licences = [*(metadata.get_all("License-Expression") or ()), *(metadata.get_all("License") or ())]
        licences += [each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]

        assert Version(installed.version) > Version("0")
        assert any(licences), 'name its license in pyproject.toml: license = "…"'

    def test_typed(self, points: Mapping[str, str]) -> None:
        """Its packages hold ``py.typed``: who uses them gets its types."""
        packages = {value.partition(":")[0].partition(".")[0] for value in points.values()}

        agree("packages without py.typed", [], sorted(package for package in packages if not _is_typed(package)))

    def test_top_level(self, installed: importlib.metadata.Distribution) -> None:
        """Its wheel puts nothing beside its own packages: no ``tests``, no ``docs``, no ``utils``."""
        names = {Path(str(file)).parts[0] for file in installed.files or ()}

        common = sorted(name for name in names if name.removesuffix(".py") in COMMON)

        agree("names that the wheel puts beside its packages", [], common)

    def _inside(self, records: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return the parts that need nothing from outside."""
        unknown = sorted(set(self.outside) - {record.name for _, record in records})
        assert unknown == [], f"{type(self).__name__}.outside names no part of this package"
        return [(hook, record) for hook, record in records if record.name not in self.outside]


@functools.cache
def fresh(code: str, argument: str) -> str:
    """Run *code* in a new interpreter, in an empty folder, and return the last line that it prints."""
    import tempfile  # by this function alone

    path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path if each)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", code, argument],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def _has_defaults(settings: type) -> bool:
    try:
        settings()
    except TypeError:
        return False
    return True


def _wrong_values(settings: type) -> Iterator[tuple[str, object]]:
    """Give, for each setting, values of another type than its own; without an annotation its default tells the type."""
    fields = attrs.fields(attrs.resolve_types(settings))
    defaults = settings() if _has_defaults(settings) else None
    for field in fields:
        kind = field.type if field.type not in (None, Any) else type(getattr(defaults, field.name, None))
        yield from ((field.name, value) for value in WRONG.get(kind, ()))


def _refuses(record: Any, key: str, value: object) -> bool:
    try:
        part_settings(record.settings, structure({"parts": {record.name: {key: value}}}), record.name)
    except ConfigError:
        return True
    return False


def _is_typed(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and any(
        Path(place, "py.typed").is_file() for place in spec.submodule_search_locations or ()
    )
