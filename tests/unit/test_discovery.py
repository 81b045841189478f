"""Finding plugins: what is switched off is not imported, order is stable, records are checked."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from powerctx_core import RendererSpec, hookimpl
from powerctx_core.discovery import Disabled, Failed, Loaded, discover, given, registrar, take_records

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with one entry point; its module notes that it was imported in ``sys.modules``."""
    modules = []

    def install_one(distribution: str, entry: str, *, folder: str = "site", version: str = "1.0") -> None:
        site = tmp_path / folder
        if not site.exists():
            site.mkdir()
            monkeypatch.syspath_prepend(str(site))
        module = f"discovered_{entry.replace('-', '_')}"
        modules.append(module)
        (site / f"{module}.py").write_text("")
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[powerctx.v1]\n{entry} = {module}\n")
        importlib.invalidate_caches()

    yield install_one
    for module in modules:
        sys.modules.pop(module, None)


def mine(found: tuple[object, ...]) -> list[Loaded | Failed | Disabled]:
    """Leave out what happens to be installed where the tests run."""
    return [each for each in found if each.distribution.startswith("zz-")]


def test_order_and_facts(install):
    """Plugins come in the order of their distributions' names and know name, distribution and version."""
    for distribution, entry in (("zz-pear", "a"), ("zz-apple", "c"), ("zz-Fig", "b")):
        install(distribution, entry, version="2.0")

    found = mine(discover(None))

    assert [("zz-apple", "c", "2.0"), ("zz-Fig", "b", "2.0"), ("zz-pear", "a", "2.0")] == [
        (each.distribution, each.name, each.version) for each in found
    ]
    assert ["ok", "ok", "ok"] == [each.state for each in found]


def test_not_allowed_is_not_imported(install):
    """With a list of names only these are imported; the others are reported as disabled."""
    install("zz-apple", "apple")
    install("zz-pear", "pear")

    found = mine(discover(["pear"]))

    assert [("apple", "disabled"), ("pear", "ok")] == [(each.name, each.state) for each in found]
    assert "discovered_apple" not in sys.modules
    assert "discovered_pear" in sys.modules


def test_empty_list_imports_nothing(install):
    """An empty list is safe mode: everything installed is disabled."""
    install("zz-apple", "apple")

    assert {"disabled"} == {each.state for each in discover([])}
    assert "discovered_apple" not in sys.modules


def test_allowed_but_not_installed(install):
    """A name in the list that nothing provides is reported, with a similar name if there is one."""
    install("zz-apple", "apple")

    (failed,) = [each for each in discover(["aple"]) if each.state == "failed"]

    assert ("aple", "") == (failed.name, failed.distribution)
    assert failed.reason.startswith("named in POWERCTX_PLUGINS but not installed; did you mean 'apple'? installed: ")


def test_first_on_the_path_wins(install):
    """A distribution that is found twice, under spellings of one name, is the one that an import finds."""
    install("zz_apple", "apple", folder="behind", version="1.0")
    install("zz-apple", "apple", folder="before", version="2.0")

    assert ["2.0"] == [each.version for each in discover(None) if each.name == "apple"]


def spec(name: str = "plain", **fields: object) -> RendererSpec:
    """Build a record."""
    return RendererSpec(name=name, factory="acme:Plain", **fields)


def taken(plugin: object) -> Loaded | Failed:
    """Check *plugin* with a fresh manager."""
    return take_records(registrar(), given(plugin))


class Plain:
    """A plugin that is an object."""

    def __init__(self, name: str) -> None:
        self.name = name

    @hookimpl
    def powerctx_renderers(self):
        """Offer one."""
        return [spec(self.name)]


def test_an_object_is_a_plugin():
    """An instance with marked methods is as good as a module."""
    assert {"powerctx_renderers": (spec("loud"),)} == dict(taken(Plain("loud")).records)


def test_two_objects_of_one_class():
    """One manager takes several plugins of one name and keeps their records apart."""
    manager = registrar()

    first, second = (take_records(manager, given(Plain(name))) for name in ("a", "b"))

    assert [(spec("a"),), (spec("b"),)] == [each.records["powerctx_renderers"] for each in (first, second)]


def test_one_object_twice():
    """An object that two entry points name counts once; the second says why."""
    manager, plugin = registrar(), Plain("a")

    first, second = (take_records(manager, given(plugin)) for _ in range(2))

    assert ("ok", "failed") == (first.state, second.state)
    assert "what its entry point names is loaded already, by another entry point; remove one" == second.reason


def test_a_class_is_no_plugin():
    """A class instead of an instance is refused by name."""
    failed = taken(Plain)

    assert ("failed", "its entry point names the class Plain; name a module or an instance") == (
        failed.state,
        failed.reason,
    )


def test_optional_hook_of_a_later_version():
    """A hook that is unknown here but marked optional is passed over; the rest of the plugin is used."""

    @hookimpl
    def powerctx_renderers():
        yield spec()

    @hookimpl(optionalhook=True)
    def powerctx_telepathy():
        raise RuntimeError

    loaded = taken(SimpleModule(powerctx_renderers=powerctx_renderers, powerctx_telepathy=powerctx_telepathy))

    assert {"powerctx_renderers": (spec(),)} == dict(loaded.records)


class SimpleModule:
    """Holds functions as a module does."""

    def __init__(self, **functions: object) -> None:
        vars(self).update(functions)


def test_record_of_another_name():
    """A function may implement the hook that it names by ``specname``."""

    @hookimpl(specname="powerctx_renderers")
    def forms():
        yield spec()

    assert {"powerctx_renderers": (spec(),)} == dict(taken(SimpleModule(forms=forms)).records)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "x" * 65}, "at most 64 characters"),
        ({"name": "-a"}, "is not lower-case words joined by '-'"),
        ({"name": 3}, "name 3 is not"),
        ({"name": "a\n"}, "is not lower-case words"),
        ({"name": "a", "about": "two\nlines"}, "about is not one line of text"),
        ({"name": "a", "settings": None}, "settings None is not a frozen attrs class"),
        ({"name": "a", "settings": SimpleNamespace}, "is not a frozen attrs class"),
    ],
)
def test_record_checks(fields, reason):
    """A record whose fields break a rule fails its plugin, and the reason names hook, part and rule."""

    @hookimpl
    def powerctx_renderers():
        yield spec(**fields)

    failed = taken(SimpleModule(powerctx_renderers=powerctx_renderers))

    assert "failed" == failed.state
    assert failed.reason.startswith("powerctx_renderers")
    assert reason in failed.reason


def test_failed_plugin_leaves_no_trace():
    """A manager that refused a plugin does not call it for anybody."""

    @hookimpl
    def powerctx_renderers():
        raise RuntimeError("late")

    manager = registrar()

    failed = take_records(manager, given(SimpleModule(powerctx_renderers=powerctx_renderers)))

    assert "RuntimeError: late" == failed.reason
    assert [] == [plugin for plugin in manager.get_plugins() if isinstance(plugin, SimpleModule)]
