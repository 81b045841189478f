"""Every way a plugin can be broken ends as the failure table says, and the good one beside it keeps working."""

from __future__ import annotations

import json
import sys

import pytest

from powerctx_core import CapabilityError, ConfigError, PluginError, StoreUnavailable
from powerctx_core.config import structure
from powerctx_core.host import Host, PluginStatus

USES = "import attrs\nfrom powerctx_core import FamilySpec, RendererSpec, StoreSpec, hookimpl\n"

BROKEN = {
    # name: (source, state, what the reason says)
    "crash": ("raise RuntimeError('boom')", "failed", "cannot be imported: RuntimeError: boom"),
    "exit": ("import sys; sys.exit(3)", "failed", "cannot be imported: it called sys.exit(3)"),
    "dependency": ("import acme_not_there", "failed", "ModuleNotFoundError: No module named 'acme_not_there'"),
    "syntax": ("def (", "failed", "SyntaxError"),
    "module": (None, "failed", "ModuleNotFoundError"),
    "secret": ("raise RuntimeError('no access to db://me:hunter2@host')", "failed", "db://***@host"),
    "signature": (
        "@hookimpl\ndef powerctx_renderers(config, *, fast=False): ...",
        "failed",
        (
            "powerctx_renderers takes arguments; expected def powerctx_renderers() -> Iterable[RendererSpec], "
            "actual def powerctx_renderers(config, *, fast=False)"
        ),
    ),
    "unknown": (
        "@hookimpl\ndef powerctx_renderer(): ...",
        "incompatible",
        "powerctx_renderer is not a hook of powerctx-core (interface 1); did you mean 'powerctx_renderers'? upgrade",
    ),
    "async": ("@hookimpl\nasync def powerctx_renderers(): ...", "failed", "powerctx_renderers is 'async def'"),
    "async-generator": ("@hookimpl\nasync def powerctx_stores():\n yield 1", "failed", "is 'async def'"),
    "coroutine": (
        "async def later(): ...\n@hookimpl\ndef powerctx_stores(): return later()",
        "failed",
        "powerctx_stores returned coroutine",
    ),
    "tryfirst": (
        "@hookimpl(tryfirst=True)\ndef powerctx_renderers(): ...",
        "failed",
        "powerctx_renderers is marked tryfirst, which is refused: order is the user's, in settings",
    ),
    "trylast": ("@hookimpl(trylast=True)\ndef powerctx_renderers(): ...", "failed", "is marked trylast"),
    "wrapper": ("@hookimpl(wrapper=True)\ndef powerctx_renderers(): yield", "failed", "is marked wrapper"),
    "hookwrapper": ("@hookimpl(hookwrapper=True)\ndef powerctx_renderers(): yield", "failed", "is marked hookwrapper"),
    "nothing": ("", "failed", "it offers nothing; mark a function with @hookimpl: powerctx_families"),
    "unmarked": ("def powerctx_renderers(): ...", "failed", "powerctx_renderers is not marked; put @hookimpl"),
    "returns-none": (
        "@hookimpl\ndef powerctx_renderers(): ...",
        "failed",
        "powerctx_renderers returned nothing, not an iterable of RendererSpec; yield each record",
    ),
    "returns-record": (
        "@hookimpl\ndef powerctx_renderers(): return RendererSpec(name='a', factory='a:B')",
        "failed",
        "returned a RendererSpec, not an iterable",
    ),
    "returns-text": ("@hookimpl\ndef powerctx_renderers(): return 'plain'", "failed", "returned a str"),
    "wrong-record": (
        "@hookimpl\ndef powerctx_renderers(): yield StoreSpec(name='a', factory='a:B', schemes=('a',))",
        "failed",
        "powerctx_renderers yields a StoreSpec; expected RendererSpec",
    ),
    "raises-late": (
        """
@hookimpl
def powerctx_families():
    yield FamilySpec(name='late', factory='a:B')
@hookimpl
def powerctx_renderers():
    yield RendererSpec(name='late', factory='a:B')
    raise KeyError('gone')
""",
        "failed",
        "KeyError: 'gone'",
    ),
    "exits-late": (
        """
@hookimpl
def powerctx_renderers():
    yield RendererSpec(name='late', factory='a:B')
    raise SystemExit('no')
""",
        "failed",
        "it called sys.exit('no')",
    ),
    "endless": (
        "@hookimpl\ndef powerctx_renderers():\n while True: yield RendererSpec(name='a', factory='a:B')",
        "failed",
        "powerctx_renderers yields more than 1000 records",
    ),
    "twice": (
        "@hookimpl\ndef powerctx_renderers(): return [RendererSpec(name='a', factory='a:B')] * 2",
        "failed",
        "powerctx_renderers yields 'a' twice",
    ),
    "name": (
        "@hookimpl\ndef powerctx_renderers(): yield RendererSpec(name='My_Form', factory='a:B')",
        "failed",
        "name 'My_Form' is not lower-case words joined by '-'",
    ),
    "factory": (
        "@hookimpl\ndef powerctx_renderers(): yield RendererSpec(name='a', factory='a.B')",
        "failed",
        "powerctx_renderers 'a': factory 'a.B' is neither callable nor of the form 'package.module:Name'",
    ),
    "settings": (
        "class S: ...\n@hookimpl\ndef powerctx_renderers(): yield RendererSpec(name='a', factory='a:B', settings=S)",
        "failed",
        "is not a frozen attrs class; use @attrs.frozen",
    ),
    "mutable-settings": (
        """
@attrs.define
class S: ...
@hookimpl
def powerctx_renderers():
    yield RendererSpec(name='a', factory='a:B', settings=S)
""",
        "failed",
        "is not a frozen attrs class",
    ),
    "scheme": (
        "@hookimpl\ndef powerctx_stores(): yield StoreSpec(name='a', factory='a:B', schemes=('My DB',))",
        "failed",
        "powerctx_stores 'a': 'My DB' is not a URL scheme",
    ),
    "schemes": (
        "@hookimpl\ndef powerctx_stores(): yield StoreSpec(name='a', factory='a:B', schemes='acme')",
        "failed",
        "schemes 'acme' is not a tuple",
    ),
    "scheme-twice": (
        "@hookimpl\ndef powerctx_stores(): yield StoreSpec(name='a', factory='a:B', schemes=('a', 'a'))",
        "failed",
        "powerctx_stores 'a': schemes names one twice",
    ),
    "capabilities": (
        (
            "@hookimpl\ndef powerctx_stores():\n"
            " yield StoreSpec(name='a', factory='a:B', schemes=('a',), capabilities=frozenset({'lexical'}))"
        ),
        "failed",
        "capabilities is not a frozenset of Capability: LEXICAL",
    ),
    "layer": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', layer='L7')",
        "failed",
        "powerctx_families 'a': layer 'L7' is not one of L0, L1, L2, L3",
    ),
    "identity": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', identity='path')",
        "failed",
        "identity is not a tuple of field names",
    ),
    "identity-name": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', identity=('a b',))",
        "failed",
        "identity is not a tuple of field names: a lower-case letter",
    ),
    "identity-taken": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', identity=('text', 'ref'))",
        "failed",
        "identity names ref, text, which every citation has already",
    ),
    "admission": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', admission='')",
        "failed",
        "admission '' is not the name of an admission rule",
    ),
    "ceiling": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', ceiling='9')",
        "failed",
        "powerctx_families 'a': ceiling '9' is not a whole number from 1 up",
    ),
    "bucket": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', bucket='My bucket')",
        "failed",
        "powerctx_families 'a': bucket 'My bucket' is not lower-case words joined by '-'",
    ),
    "tiers": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', tiers='uri')",
        "failed",
        "powerctx_families 'a': tiers 'uri' is not one of abstract, overview, full",
    ),
    "text-bytes": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', text_bytes=1 << 21)",
        "failed",
        "powerctx_families 'a': text_bytes 2097152 is not a whole number from 1 to 1048576",
    ),
    "title": (
        "@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', title=None)",
        "failed",
        "powerctx_families 'a': title None is not text",
    ),
    **{
        f"section-range-{n}": (
            f"@hookimpl\ndef powerctx_families(): yield FamilySpec(name='a', factory='a:B', section_range={value})",
            "failed",
            f"section_range {value} is neither None nor a fewest and a most entries from 1 to 64",
        )
        for n, value in enumerate(["(0, 8)", "(3, 2)", "(1, 65)", "(True, 2)", "8", "(1,)", "[1, 2]"])
    },
    "shows": (
        "@hookimpl\ndef powerctx_renderers(): yield RendererSpec(name='a', factory='a:B', shows=('mood',))",
        "failed",
        "powerctx_renderers 'a': shows ('mood',) is not a tuple of confidence, recall_rank, score",
    ),
}


def status_of(host: Host, name: str) -> PluginStatus:
    """Return the one row of the plugin *name*."""
    (status,) = [each for each in host.report() if each.name == name]
    return status


def assert_good_works(host: Host) -> None:
    """The plugin beside the broken one is there and its part can be made."""
    assert "ok" == status_of(host, "good").state
    assert "a" == host.part("powerctx_renderers", "good-plain").escape("a")


@pytest.mark.parametrize("name", BROKEN)
def test_broken(site, name):
    """A broken plugin is reported with state, version and one line of reason, contributes nothing and stops nobody."""
    source, state, reason = BROKEN[name]
    source = None if source is None else USES + source
    site.install(name, source, version="2.5")

    host = Host.compose()

    status = status_of(host, name)
    assert (state, f"acme-{name}", "2.5", {}) == (
        status.state,
        status.distribution,
        status.version,
        dict(status.hooks),
    )
    assert reason in status.reason
    assert 1 == len(status.reason.splitlines())
    assert "hunter2" not in status.reason
    assert "late" not in host.names("powerctx_renderers") + host.names("powerctx_families")
    assert_good_works(host)


@pytest.mark.parametrize("name", ["crash", "exit", "raises-late"])
def test_check_shows_the_original_error(site, name):
    """``check`` of a broken plugin raises an error that names it, caused by what the plugin itself raised."""
    source, _, reason = BROKEN[name]
    site.install(name, USES + source)

    with pytest.raises(PluginError, match=f"{name} \\(acme-{name} 1.0\\) failed: ") as caught:
        Host.compose().check(name)

    cause = caught.value.__cause__
    assert type(cause).__name__ in ("RuntimeError", "SystemExit", "KeyError")
    assert cause.__traceback__ is not None
    assert reason in str(caught.value)


def test_switched_off(site):
    """A plugin that is switched off is named where a part is missed, and ``check`` says how to switch it on."""
    host = Host.compose(allow=[])

    with pytest.raises(CapabilityError, match=r"Switched off by POWERCTX_PLUGINS: (.*, )?good"):
        host.spec("powerctx_renderers", "good-plain")
    with pytest.raises(CapabilityError, match="run POWERCTX_PLUGINS=good powerctx check good"):
        host.check("acme-good")
    assert "good_plugin" not in sys.modules


def test_unknown_part_mentions_failed_plugin(site):
    """Naming a part that a failed plugin might have offered says so, and how to look into it."""
    site.install("crash", BROKEN["crash"][0])

    with pytest.raises(CapabilityError) as caught:
        Host.compose(allow=["crash", "good"]).part("powerctx_renderers", "fancy")

    message = str(caught.value)
    assert message.startswith(
        "No renderer 'fancy' is installed; installed renderers: prepared, flat-xml, sections, plain, good-plain."
    )
    assert (
        "Plugin 'crash' failed to load: crash_plugin cannot be imported: RuntimeError: boom; "
        "run `powerctx check crash`."
    ) in message


def test_interrupt_is_not_caught(site):
    """Ctrl-C while plugins are imported ends the program."""
    site.install("interrupted", "raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        Host.compose()


@pytest.mark.parametrize(
    ("group", "advice"), [("powerctx.v2", "upgrade powerctx-core"), ("powerctx.v0", "upgrade acme-other-api")]
)
def test_other_interface(site, group, advice):
    """A plugin of another interface version is not imported; its row says what to upgrade."""
    site.install("other-api", "raise RuntimeError('imported')", group=group)

    host = Host.compose()

    status = status_of(host, "other-api")
    number = group[-1]
    assert ("incompatible", f"made for plugin interface {number}, this powerctx-core has 1; {advice}") == (
        status.state,
        status.reason,
    )
    assert_good_works(host)


def test_plugin_for_several_interfaces(site):
    """A distribution that also serves a later interface is used through this one and gets one row."""
    site.install("both", "raise RuntimeError('imported')", group="powerctx.v2")
    points = next(site.folder.glob("acme_both*/entry_points.txt"))
    points.write_text("[powerctx.v2]\nboth = both_plugin\n[powerctx.v1]\nboth = good_plugin\n")

    assert "ok" == status_of(Host.compose(allow=["both"]), "both").state


@pytest.mark.parametrize(("name", "reason"), [("core", "which is the core's own"), ("My_Plugin", "lower-case words")])
@pytest.mark.parametrize("allow", [None, ["core", "My_Plugin", "good"]])
def test_entry_point_name(site, name, reason, allow):
    """An entry point that could not be told apart in settings is refused, unimported, and core's own parts stay."""
    site.install(name, "raise RuntimeError('imported')")

    host = Host.compose(allow=allow)
    states = {(each.name, each.distribution): (each.state, each.reason) for each in host.report()}

    assert "failed" == states[name, f"acme-{name}"][0]
    assert reason in states[name, f"acme-{name}"][1]
    assert ("ok", "") == states["core", "powerctx-core"]
    assert_good_works(host)


RENDERER = "from powerctx_core import RendererSpec, hookimpl\n@hookimpl\ndef powerctx_renderers():\n"


def test_same_name_as_core(site):
    """A part named as one of core's makes both unusable, and the error names both distributions and versions."""
    site.install("usurper", f"{RENDERER} yield RendererSpec(name='prepared', factory='a:B')", version="3.1")

    host = Host.compose()

    with pytest.raises(PluginError) as caught:
        host.part("powerctx_renderers", "prepared")
    assert "acme-usurper 3.1 (plugin 'usurper')" in str(caught.value)
    assert "by powerctx-core" in str(caught.value)
    assert str(caught.value).endswith("uninstall 'usurper' or leave it out of POWERCTX_PLUGINS.")
    assert ["clash", "clash"] == [status_of(host, name).state for name in ("core", "usurper")]
    assert (str(caught.value),) == host.problems()
    assert_good_works(host)
    assert "floor" in host.names("powerctx_admissions")


def test_same_name_of_two_plugins(site):
    """Two plugins with a part of one name: neither is used, both are named, the rest of both works."""
    for name in ("left", "right"):
        site.install(
            name,
            f"{RENDERER} yield RendererSpec(name='shared', factory='good_plugin:Plain')\n"
            f" yield RendererSpec(name='{name}', factory='good_plugin:Plain')",
        )

    host = Host.compose()

    with pytest.raises(PluginError, match=r"acme-left 1.0 .*acme-right 1.0"):
        host.spec("powerctx_renderers", "shared")
    with pytest.raises(PluginError, match="'shared'"):
        host.check("left")
    assert "shared" not in host.names("powerctx_renderers")
    assert "" == host.part("powerctx_renderers", "left").open(None)
    assert_good_works(host)


def test_same_scheme_of_two_stores(site):
    """Two stores for one URL scheme: opening such a URL names both; their other schemes work."""
    for name in ("left", "right"):
        site.install(
            name,
            f"""
            from powerctx_core import StoreSpec, hookimpl
            @hookimpl
            def powerctx_stores():
                yield StoreSpec(
                    name='{name}', schemes=('shared', '{name}'), factory='powerctx_core.memory_store:MemoryStore'
                )
            """,
        )

    host = Host.compose()

    with pytest.raises(PluginError, match=r"The URL scheme 'shared' is offered by acme-left 1.0 .* acme-right 1.0"):
        host.open_store("shared://x")
    assert "left" == host.store_for("left://x").name
    assert "clash" == status_of(host, "right").state
    assert_good_works(host)


@pytest.mark.parametrize(
    ("factory", "cause"),
    [
        ("acme_not_there.deep:Thing", "ModuleNotFoundError: No module named 'acme_not_there'"),
        ("good_plugin:Nothing", "AttributeError: module 'good_plugin' has no attribute 'Nothing'"),
    ],
)
def test_factory_that_cannot_be_imported(site, factory, cause):
    """A factory is imported when its part is used; then the error names distribution, version, hook, part and cause."""
    site.install("hollow", f"{RENDERER} yield RendererSpec(name='hollow', factory='{factory}')", version="0.9")

    host = Host.compose()

    assert "ok" == status_of(host, "hollow").state
    with pytest.raises(PluginError) as caught:
        host.part("powerctx_renderers", "hollow")
    assert (
        f"The renderer 'hollow' of acme-hollow 0.9 (powerctx_renderers) could not be loaded from {factory}: {cause}; "
        "run `powerctx check hollow`, then upgrade or uninstall acme-hollow."
    ) == str(caught.value)
    with pytest.raises(PluginError, match="could not be loaded") as checked:
        host.check("hollow")
    assert str(checked.value).endswith(f"{cause}; upgrade or uninstall acme-hollow.")
    assert checked.value.__cause__ is not None
    assert_good_works(host)


def test_factory_that_raises(site):
    """What advises to check a plugin is found by checking it: the part is made, and its own error shown."""
    site.install(
        "picky",
        "def make(settings): raise ValueError('no licence for db://me:hunter2@host')\n"
        f"{RENDERER} yield RendererSpec(name='picky', factory='picky_plugin:make')",
    )

    host = Host.compose()
    with pytest.raises(PluginError, match=r"could not be made: ValueError: no licence .*run `powerctx check picky`"):
        host.part("powerctx_renderers", "picky")
    with pytest.raises(PluginError, match=r"could not be made: ValueError: no .*; upgrade or uninstall") as caught:
        host.check("picky")
    ended = site.run("from powerctx_core.cli.program import program; program(['check', 'picky'])")

    assert isinstance(caught.value.__cause__, ValueError)
    assert 1 == ended.returncode
    assert "in make" in ended.stderr
    assert "hunter2" not in ended.stderr


STORE = """
from powerctx_core import StoreSpec, StoreUnavailable, hookimpl

class Cellar:
    def __init__(self, url, settings):
        {body}

@hookimpl
def powerctx_stores():
    yield StoreSpec(name="cellar", schemes=("cellar",), factory=Cellar)
"""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise OSError(f'no route to {url}, password s3cret')", "could not be made: OSError: no route to"),
        ("raise SystemExit", "could not be made: it called sys.exit(None)"),
        ("raise StoreUnavailable('the cellar is locked; ask for the key')", "the cellar is locked; ask for the key"),
        ("pass", "its factory returned a Cellar without the method status"),
    ],
)
def test_store_that_does_not_open(site, body, says):
    """A store that fails to open raises one error with URL (no secrets), distribution, version, cause, next step."""
    site.install("cellar", STORE.format(body=body), version="4.0")

    with pytest.raises(StoreUnavailable) as caught:
        Host.compose().open_store("cellar://me:s3cret@host/db?token=abcdef")

    message = str(caught.value)
    assert "cellar://***@host/db?token=***" in message
    assert "acme-cellar 4.0" in message
    assert says in message
    assert "s3cret" not in message
    assert "abcdef" not in message
    assert caught.value.__cause__ is not None


def test_settings_of_a_part_are_strict(site):
    """A wrong setting of a part is an error when the part is used, and names key, place and allowed names."""
    site.install(
        "tuned",
        f"import attrs\n@attrs.frozen\nclass S:\n    depth: int = 3\n{RENDERER}"
        " yield RendererSpec(name='tuned', factory='good_plugin:Plain', settings=S)",
    )

    host = Host.compose(structure({"parts": {"tuned": {"dept": 4}}}))

    with pytest.raises(ConfigError) as caught:
        host.part("powerctx_renderers", "tuned")
    assert "Bad setting @ $.parts.tuned.dept in argument: is unknown; did you mean 'depth'? allowed: depth." == str(
        caught.value
    )
    with pytest.raises(ConfigError):
        host.check("tuned")
    assert_good_works(host)


def test_command_with_the_name_of_a_built_in_one(site):
    """It is never run, which `plugins` says; the built-in one works."""
    site.install(
        "usurper",
        """
        from powerctx_core import CommandSpec, hookimpl
        @hookimpl
        def powerctx_commands():
            yield CommandSpec(name='plugins', factory='usurper_plugin:run', about='Run instead.')
        """,
    )

    ended = site.run("from powerctx_core.cli.program import program; program(['plugins'])")

    assert 0 == ended.returncode
    assert (
        "The command 'plugins' of acme-usurper 1.0 is never run, since powerctx has one of that name; ask its author "
        "to rename it.\n"
    ) == ended.stderr
    assert "acme-good" in ended.stdout


def test_damaged_metadata(site):
    """Metadata that cannot be parsed hides no other distribution."""
    site.install("damaged", "")
    next(site.folder.glob("acme_damaged*/entry_points.txt")).write_bytes(b"[powerctx.v1]\n\xff\xfe broken")

    assert_good_works(Host.compose())


def test_program_starts_with_every_broken_plugin(site):
    """A fresh interpreter with all broken plugins at once lists them all and ends normally."""
    for name, (source, _, _) in BROKEN.items():
        site.install(name, None if source is None else USES + source)

    ended = site.run(
        """
        import json
        from powerctx_core.host import Host
        print(json.dumps({each.name: each.state for each in Host.compose().report()}))
        """
    )

    assert (0, "") == (ended.returncode, ended.stderr)
    states = json.loads(ended.stdout)
    assert {name: state for name, (_, state, _) in BROKEN.items()} == {name: states[name] for name in BROKEN}
    assert ("ok", "ok") == (states["core"], states["good"])
