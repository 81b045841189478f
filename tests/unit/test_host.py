"""The host: parts are made late and once, errors name who and what next, everything made is closed."""

from __future__ import annotations

import logging
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import attrs
import pytest

from powerctx_core import (
    CapabilityError,
    CommandSpec,
    ConfigError,
    Deadline,
    FamilySpec,
    InvalidRequest,
    PluginError,
    PowerctxError,
    RendererSpec,
    SinkSpec,
    StoreError,
    StoreSpec,
    StoreUnavailable,
    TokenEstimatorSpec,
    hookimpl,
)
from powerctx_core.config import structure
from powerctx_core.hookspecs import HOOKS
from powerctx_core.host import Host, PluginStatus
from powerctx_core.offers import NOUNS
from powerctx_core.vetting import METHODS


class Offers:
    """A plugin that offers the records it is given."""

    def __init__(self, *records: object) -> None:
        self._records = records

    def _of(self, kind: type) -> list[object]:
        return [each for each in self._records if isinstance(each, kind)]

    @hookimpl
    def powerctx_families(self):
        """Offer the families among them."""
        return self._of(FamilySpec)

    @hookimpl
    def powerctx_renderers(self):
        """Offer the renderers among them."""
        return self._of(RendererSpec)

    @hookimpl
    def powerctx_stores(self):
        """Offer the stores among them."""
        return self._of(StoreSpec)

    @hookimpl
    def powerctx_token_estimators(self):
        """Offer the token estimators among them."""
        return self._of(TokenEstimatorSpec)

    @hookimpl
    def powerctx_sinks(self):
        """Offer the sinks among them."""
        return self._of(SinkSpec)

    @hookimpl
    def powerctx_commands(self):
        """Offer the commands among them."""
        return self._of(CommandSpec)


class Recorder:
    """A sink that notes, in a list shared by several, when it is closed."""

    def __init__(self, name: str, closed: list[str], *, error: BaseException | None = None) -> None:
        self.name, self.closed, self.error = name, closed, error

    def observe(self, event: object) -> None:
        """Ignore the event."""

    def close(self) -> None:
        """Note it, then fail if told to."""
        self.closed.append(self.name)
        if self.error is not None:
            raise self.error


def hosted(*records: object, settings: dict[str, object] | None = None) -> Host:
    """Compose a host of core's own parts and *records*."""
    return Host.compose(structure(settings or {}), allow=[], extra=[Offers(*records)])


def enabled(host: Host) -> list[PluginStatus]:
    """Return the rows of the report that are not about plugins installed here by chance and switched off."""
    return [row for row in host.report() if row.state != "disabled"]


@attrs.frozen
class Tuning:
    """Settings of a part."""

    depth: int = 3
    names: tuple[str, ...] = ()


def sink(name: str, made: list[object], settings: type = Tuning) -> SinkSpec:
    """Offer a sink that notes the settings it was made with."""

    def factory(given: object) -> Recorder:
        made.append(given)
        return Recorder(name, [])

    return SinkSpec(name=name, factory=factory, settings=settings)


def test_every_hook_has_its_words():
    """Each hook that yields parts has a noun for messages and a list of required methods."""
    assert set(HOOKS) == set(NOUNS)
    assert set(HOOKS) == {*METHODS, "powerctx_commands"}


def test_own_families():
    """Core's families have the ceilings, pools and entries of the compatible policy, and the layers of their kind."""
    host = Host.compose(allow=[])
    specs = [host.spec("powerctx_families", name) for name in host.names("powerctx_families")]

    assert [
        ("memory", 16, 64, 8, "current+references", "L1", "memories", "full"),
        ("topic-memory", 8, 32, 8, "current", "L2", "memories", "full"),
        ("experience", 8, 32, 2, "current+references", "L1", "experiences", "full"),
        ("profile", 32, 1, 8, "current+references", "L3", "profile", "full"),
        ("resource", 8, 32, 8, "current", "L1", "resources", "abstract"),
        ("skill", 8, 32, 4, "current", "L3", "skills", "abstract"),
    ] == [
        (each.name, each.ceiling, each.pool, each.entries, each.searched, each.layer, each.bucket, each.tiers)
        for each in specs
    ]
    assert ["profile"] == [each.name for each in specs if not each.searchable]


def test_own_parts():
    """Without any plugin the host offers core's own parts, each of which can be made."""
    host = Host.compose(allow=[])

    families = ("memory", "topic-memory", "experience", "profile", "resource", "skill")
    assert families == host.names("powerctx_families")
    assert ("floor",) == host.names("powerctx_admissions")
    assert ("prepared", "flat-xml", "sections", "plain") == host.names("powerctx_renderers")
    assert ("memory",) == host.names("powerctx_stores")
    assert ("seed", "o200k", "qwen", "deepseek") == host.names("powerctx_token_estimators")
    assert ("core",) == tuple(each.name for each in host.check("core"))
    for hook in ("powerctx_families", "powerctx_admissions", "powerctx_renderers", "powerctx_token_estimators"):
        for name in host.names(hook):
            assert host.part(hook, name) is host.part(hook, name)
    with host.open_store("memory://").catalogue.snapshot(Deadline()) as snapshot:
        assert {} == dict(snapshot.partitions())


def test_report():
    """The report has one row for each plugin, core's own first, with its parts by hook."""
    core, offers = enabled(hosted(SinkSpec(name="tape", factory=Recorder)))

    assert ("core", "powerctx-core", "ok") == (core.name, core.distribution, core.state)
    assert ("(given)", "ok", "") == (offers.distribution, offers.state, offers.reason)
    assert ("tape",) == offers.hooks["powerctx_sinks"]


def test_plugin_given_twice():
    """The same object given twice is one plugin."""
    plugin = Offers(SinkSpec(name="tape", factory=Recorder))

    host = Host.compose(allow=[], extra=[plugin, plugin])

    assert 2 == len(enabled(host))
    assert ("tape",) == host.names("powerctx_sinks")


def test_core_may_be_named_in_the_list():
    """Naming core among the allowed plugins changes nothing: it always loads."""
    assert ["ok"] == [each.state for each in Host.compose(allow=["core"]).report() if each.state != "disabled"]


def test_settings_decide_what_loads():
    """The setting ``plugins`` is the list of allowed plugins when no other is given."""
    host = Host.compose(structure({"plugins": ["not-there"]}))

    (failed,) = [each for each in host.report() if each.state == "failed"]
    assert "not-there" == failed.name


def test_part_is_made_once_with_its_settings():
    """A part is made at first use, with the settings of its table, and then kept."""
    made: list[object] = []
    host = hosted(sink("tape", made), settings={"parts": {"tape": {"depth": 7, "names": ["a"]}}})

    assert [] == made
    assert host.part("powerctx_sinks", "tape") is host.part("powerctx_sinks", "tape")
    assert [Tuning(depth=7, names=("a",))] == made


def test_part_is_made_once_by_many_threads():
    """Threads that want one part at the same time get the same object."""
    made: list[object] = []
    start = threading.Barrier(8)

    def factory(settings: object) -> Recorder:
        made.append(settings)
        time.sleep(0.02)
        return Recorder("tape", [])

    host = hosted(SinkSpec(name="tape", factory=factory))

    def use(_: int) -> object:
        start.wait()
        return host.part("powerctx_sinks", "tape")

    with ThreadPoolExecutor(8) as pool:
        parts = set(map(id, pool.map(use, range(8))))

    assert (1, 1) == (len(parts), len(made))


def test_part_that_failed_is_tried_again():
    """A factory that raised is called again at the next use."""
    attempts: list[object] = []

    def factory(settings: object) -> Recorder:
        attempts.append(settings)
        if len(attempts) == 1:
            raise OSError("not yet")
        return Recorder("tape", [])

    host = hosted(SinkSpec(name="tape", factory=factory))

    with pytest.raises(PluginError, match="not yet"):
        host.part("powerctx_sinks", "tape")
    assert isinstance(host.part("powerctx_sinks", "tape"), Recorder)


def test_family_gets_its_record():
    """The factory of a family is called with record and settings."""
    got: list[object] = []

    class Tickets:
        def retrieve(self, request: object, call: object) -> None: ...

    def factory(spec: FamilySpec, settings: object) -> Tickets:
        got.append((spec.name, settings))
        return Tickets()

    host = hosted(FamilySpec(name="ticket", factory=factory, settings=Tuning))

    assert isinstance(host.part("powerctx_families", "ticket"), Tickets)
    assert [("ticket", Tuning())] == got


def test_command_is_the_object_itself():
    """A command is not called: it is what its factory names."""
    host = hosted(CommandSpec(name="zip", factory="zipfile:main"))

    assert zipfile.main is host.part("powerctx_commands", "zip")


def test_shared_table():
    """Parts of one name under different hooks share a table; each takes its own keys, a foreign typo is still named."""

    @attrs.frozen
    class Price:
        per_word: float = 1.0

    class Words:
        def __init__(self, settings: Price) -> None:
            self.settings = settings

        def cost(self, text: str) -> float:
            return self.settings.per_word * len(text.split())

    made: list[object] = []
    records = (sink("acme", made), TokenEstimatorSpec(name="acme", factory=Words, settings=Price))

    host = hosted(*records, settings={"parts": {"acme": {"per_word": 2, "depth": 4}}})
    host.part("powerctx_sinks", "acme")
    assert 4.0 == host.part("powerctx_token_estimators", "acme").cost("two words")
    assert [Tuning(depth=4)] == made

    host = hosted(*records, settings={"parts": {"acme": {"per_wort": 2}}})
    with pytest.raises(ConfigError, match=r"\$\.parts\.acme\.per_wort"):
        host.part("powerctx_sinks", "acme")


def test_unknown_part():
    """An unknown name is refused with the installed ones, as a bad request when a request named it."""
    host = Host.compose(allow=[])

    with pytest.raises(
        CapabilityError,
        match=r"No renderer 'x' is installed; installed renderers: prepared, flat-xml, sections, plain\.",
    ):
        host.spec("powerctx_renderers", "x")
    with pytest.raises(InvalidRequest, match="families: No family 'x' is installed") as caught:
        host.part("powerctx_families", "x", field="families")
    assert "families" == caught.value.field


@pytest.mark.parametrize("error", [RuntimeError("no luck"), SystemExit(4), InvalidRequest("bad address")])
def test_factory_that_raises(error):
    """A factory that raises is reported with distribution, hook, part, cause and next step."""

    def factory(settings: object) -> None:
        raise error

    with pytest.raises(PluginError) as caught:
        hosted(SinkSpec(name="tape", factory=factory)).part("powerctx_sinks", "tape")

    assert str(caught.value).startswith("The sink 'tape' of (given) (powerctx_sinks) could not be made: ")
    assert "run `powerctx check Offers`" in str(caught.value)
    assert error is caught.value.__cause__


def test_deliberate_errors_pass():
    """What a factory raises on purpose, for people, reaches them as it is."""
    error = CapabilityError("install acme[gpu]")

    def factory(settings: object) -> None:
        raise error

    with pytest.raises(CapabilityError) as caught:
        hosted(SinkSpec(name="tape", factory=factory)).part("powerctx_sinks", "tape")
    assert error is caught.value


class Late:
    """A sink that is asynchronous."""

    def __init__(self, settings: object) -> None: ...

    async def observe(self, event: object) -> None:
        """Come late."""


async def make_later(settings: object) -> None:
    """Make nothing, asynchronously."""


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        (Late, "Late.observe is 'async def'; parts are synchronous"),
        (make_later, "its factory is asynchronous; parts are synchronous"),
        (lambda settings: None, "its factory returned nothing without the method observe"),
        (lambda settings: object(), "its factory returned a object without the method observe"),
    ],
)
def test_what_a_factory_returns_is_checked(factory, says):
    """A part that lacks a method of its port, or is asynchronous, is refused by name."""
    with pytest.raises(PluginError, match=says.replace("(", r"\(")):
        hosted(SinkSpec(name="tape", factory=factory)).part("powerctx_sinks", "tape")


class Cellar:
    """A store."""

    def __init__(self, url: str, settings: Tuning) -> None:
        self.url, self.settings, self.closed = url, settings, 0

    catalogue = vectors = None

    def status(self) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Count."""
        self.closed += 1


CELLAR = StoreSpec(name="cellar", schemes=("cellar", "cellar+tls"), factory=Cellar, settings=Tuning)


def test_store_by_scheme():
    """A URL's scheme, in any case, chooses the store; it gets URL and settings; every opening is a new one."""
    host = hosted(CELLAR, settings={"parts": {"cellar": {"depth": 9}}})

    assert CELLAR == host.store_for("cellar+tls://somewhere")
    first, second = host.open_store("CELLAR://a"), host.open_store("cellar://a")
    assert ("CELLAR://a", Tuning(depth=9)) == (first.url, first.settings)
    assert first is not second
    with pytest.raises(CapabilityError, match="A store is opened by its URL"):
        host.part("powerctx_stores", "cellar")


@pytest.mark.parametrize(
    ("url", "package"),
    [
        ("sqlite:///x.db", "powerctx-sqlite"),
        ("sqlite+apsw:///x.db", "powerctx-sqlite"),
        ("oceanbase://host/db", "powerctx-oceanbase"),
        ("seekdb:///dir", "powerctx-oceanbase"),
        ("chroma:///dir", "powerctx-chroma"),
        ("chroma+http://host", "powerctx-chroma"),
        ("oracle://host", "powerctx-oracle"),
    ],
)
def test_known_scheme_names_its_package(url, package, monkeypatch):
    """A scheme that no installed store serves names the package to install, unless it is there and switched off."""
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("importlib.metadata.distributions", list)

    with pytest.raises(StoreUnavailable) as caught:
        Host.compose().store_for(url)

    scheme = url.partition("://")[0]
    assert (
        f"No installed store serves {scheme}:// ({url}); installed: memory://. Install it with: pip install {package}."
    ) == str(caught.value)


@pytest.mark.parametrize("url", ["notes.db", "", "me:s3cret@host", "://x", "1db://x"])
def test_not_a_url(url):
    """Text that is no URL is refused with an example, and without what may be a password."""
    with pytest.raises(StoreUnavailable, match=r"is not a store URL; write one such as sqlite:///notes\.db") as caught:
        Host.compose(allow=[]).open_store(url)
    assert "s3cret" not in str(caught.value)


def test_unknown_scheme_hides_credentials():
    """The URL in a message has no user, password or token."""
    with pytest.raises(StoreUnavailable) as caught:
        Host.compose(allow=[]).open_store("vault://me:s3cret@host/db?api_key=abc")
    assert "s3cret" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_composed_store():
    """A store made of another one opens that by its URL, with that one's settings; the host closes what it does not."""

    class Shelf(Cellar):
        def __init__(self, url: str, open_store: Callable[[str], Cellar], settings: object) -> None:
            self.inner = open_store(url.partition("?")[2])

        closed = 0

    shelf = StoreSpec(name="shelf", schemes=("shelf",), factory=Shelf, composed=True)
    with hosted(CELLAR, shelf, settings={"parts": {"cellar": {"depth": 9}}}) as host:
        store = host.open_store("shelf://a?cellar://b")
        assert ("cellar://b", Tuning(depth=9)) == (store.inner.url, store.inner.settings)
        with pytest.raises(StoreUnavailable, match=r"No installed store serves nobody://") as caught:
            host.open_store("shelf://a?nobody://me:s3cret@host/b")
        assert "s3cret" not in str(caught.value)

    assert (1, 1) == (store.closed, store.inner.closed)


def test_store_that_refuses():
    """A store's own error at opening becomes one that names URL and provider; a bad URL stays the caller's error."""
    error: Exception = StoreError("the file is newer than this version; upgrade")

    def factory(url: str, settings: object) -> None:
        raise error

    host = hosted(StoreSpec(name="cellar", schemes=("cellar",), factory=factory))

    with pytest.raises(StoreUnavailable) as caught:
        host.open_store("cellar://x")
    assert "cellar://x: the file is newer than this version; upgrade (store 'cellar' of (given))." == str(caught.value)

    error = InvalidRequest("depth is not a parameter of this URL")
    with pytest.raises(InvalidRequest):
        host.open_store("cellar://x?depth=3")


def test_problems_name_unused_tables():
    """A table of settings that belongs to no part is a problem, not an error."""
    host = hosted(SinkSpec(name="tape", factory=Recorder), settings={"parts": {"tap": {"depth": 1}}})

    (problem,) = host.problems()
    assert problem.startswith("[parts.tap] belongs to no part that is loaded; loaded: ")
    assert "tape" in problem


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("embedder", "nope"),
        ("sinks", ["nope"]),
        ("tokens.estimator", "nope"),
        ("recall.policy", "nope"),
        ("recall.families", ["memory", "nope"]),
        ("retrieval.vector_weights", {"nope": 1.0}),
    ],
)
def test_problems_name_what_is_not_installed(setting, value):
    """A setting that names a part, or a policy, that is not there is a problem that lists what is."""
    (problem,) = hosted(settings={setting: value}).problems()

    assert problem.startswith(setting)
    assert "'nope', which is not installed; installed: " in problem
    assert () == hosted().problems()


@attrs.frozen
class Account:
    """Settings with secrets, some of them inside."""

    api_key: str = ""
    server: str = ""
    endpoints: tuple[dict[str, str], ...] = ()


@pytest.mark.parametrize("error", [RuntimeError, ConfigError, StoreError, CapabilityError, PluginError, SystemExit])
@pytest.mark.parametrize("secret", ["sk-1234567", "hun/ter2", "pass word", "inner-secret"])
def test_what_a_factory_raises_shows_no_secret_of_its_settings(error, secret):
    """Whatever a factory quotes of its own settings, and whatever it raises, the message shows none of the secrets."""
    settings = {
        "api_key": "sk-1234567",
        "server": "http://me:hun/ter2@host/x",
        "endpoints": [{"token": "inner-secret"}, {"password": "pass word"}],
    }

    def factory(*arguments: object) -> None:
        raise error(f"401 for {secret} of {arguments[-1]}: {'x' * 280}{secret}")

    host = hosted(
        SinkSpec(name="tape", factory=factory, settings=Account),
        StoreSpec(name="cellar", schemes=("cellar",), factory=factory, settings=Account),
        settings={"parts": {"tape": settings, "cellar": settings}},
    )

    for make in (lambda: host.part("powerctx_sinks", "tape"), lambda: host.open_store("cellar://x")):
        with pytest.raises(PowerctxError) as caught:
            make()
        assert "401 for ***" in str(caught.value)
        assert secret not in str(caught.value)
        assert secret[:5] not in str(caught.value)


@pytest.mark.parametrize("password", ["hunter2", "hun/ter2", "hun#ter2", "hun%2Fter2"])
def test_what_a_store_raises_shows_no_password_of_its_url(password):
    """A driver that quotes the password of the URL, as it is written or decoded, does not bring it into a message."""

    def factory(url: str, settings: object) -> None:
        raise RuntimeError(f"{url} denied {password} for {unquote(password)!r}")

    host = hosted(StoreSpec(name="cellar", schemes=("cellar",), factory=factory))

    with pytest.raises(StoreUnavailable) as caught:
        host.open_store(f"cellar://me:{password}@host/x")
    assert "cellar://***@host/x denied *** for '***'" in str(caught.value)


@pytest.mark.parametrize("rest", ["x", "?x=1", "/", "me:hunter2@host"])
def test_the_memory_store_takes_nothing(rest):
    """A URL that promises a name or a parameter is refused, and its password not shown."""
    host = Host.compose(allow=[])

    with pytest.raises(StoreUnavailable, match="takes no name and no parameters") as caught:
        host.open_store(f"memory://{rest}")
    assert "hunter2" not in str(caught.value)
    assert "memory://" == host.open_store("MEMORY://").status().location


def test_settings_class_that_cannot_be_read():
    """A settings class whose annotations do not resolve is the plugin's fault, and said so."""

    @attrs.frozen
    class Unclear:
        where: NotImportedAnywhere = None  # noqa: F821 (that is the point)

    host = hosted(sink("tape", [], Unclear), settings={"parts": {"tape": {"where": 1}}})

    with pytest.raises(PluginError, match=r"The sink 'tape' of .* has settings that cannot be read: NameError: "):
        host.part("powerctx_sinks", "tape")
    with pytest.raises(PluginError, match="NameError"):
        host.check("Offers")


def test_check_of_unknown_plugin():
    """Checking what is not installed lists what is."""
    with pytest.raises(CapabilityError, match=r"No plugin 'nope' is installed; installed: core"):
        Host.compose(allow=[]).check("nope")
    with pytest.raises(PluginError, match=r"^nope failed: named in POWERCTX_PLUGINS but not installed"):
        Host.compose(allow=["nope"]).check("nope")


def test_close_order_and_errors(caplog):
    """Parts and stores are closed in reverse order of making; an error is logged and stops nothing; again is fine."""
    closed: list[str] = []
    errors = {"a": None, "b": RuntimeError("stuck"), "c": None}
    host = hosted(
        CELLAR,
        *(
            SinkSpec(name=name, factory=lambda settings, name=name: Recorder(name, closed, error=errors[name]))
            for name in errors
        ),
    )
    store = host.open_store("cellar://x")
    for name in ("c", "a", "b"):
        host.part("powerctx_sinks", name)

    with caplog.at_level(logging.ERROR):
        host.close()
        host.close()

    assert ["b", "a", "c"] == closed
    assert 1 == store.closed
    assert ["Closing the sink 'b' of (given) failed: RuntimeError: stuck"] == [
        record.getMessage() for record in caplog.records
    ]


def test_close_leaves_renderers_alone():
    """The ``close`` of a renderer ends a text, so it is not called by the host."""
    with Host.compose(allow=[]) as host:
        host.part("powerctx_renderers", "prepared")
        host.part("powerctx_token_estimators", "seed")


def test_closed_host():
    """A closed host makes and opens nothing."""
    host = hosted(CELLAR)
    host.part("powerctx_renderers", "prepared")
    host.close()

    with pytest.raises(PowerctxError, match="This host is closed"):
        host.part("powerctx_renderers", "prepared")
    with pytest.raises(PowerctxError, match="This host is closed"):
        host.open_store("cellar://x")


def test_part_made_while_closing():
    """A part whose making outlasts the host is closed at once."""
    closed: list[str] = []

    def factory(settings: object) -> Recorder:
        host.close()
        return Recorder("tape", closed)

    host = hosted(SinkSpec(name="tape", factory=factory))

    with pytest.raises(PowerctxError, match="closed meanwhile"):
        host.part("powerctx_sinks", "tape")
    assert ["tape"] == closed


def test_provider():
    """Messages name a part's distribution and version."""
    assert hosted().provider("powerctx_families", "memory").startswith("powerctx-core")


def test_core_knows_its_own_parts():
    """A part of a plugin is not core's own, and an unknown one is an error."""
    with Host.compose(allow=[], extra=[Offers(RendererSpec(name="foreign", factory="a:B"))]) as host:
        assert host.own("powerctx_renderers", "prepared")
        assert not host.own("powerctx_renderers", "foreign")
        with pytest.raises(CapabilityError):
            host.own("powerctx_renderers", "nowhere")
