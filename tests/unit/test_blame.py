"""An error names the part that it belongs to, and no other."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import (
    AdmissionSpec,
    CapabilityError,
    ConfigError,
    FamilySpec,
    PlanInvariantError,
    PluginError,
    PowerctxError,
    RendererSpec,
    StoreError,
    TokenEstimatorSpec,
    hookimpl,
)
from powerctx_core.families import StoredFamily
from powerctx_core.host import Host
from powerctx_core.types import Filters

ITEM = powerctx.Item(scope_id="s", family="notes", text="We chose SQLite because it needs no server.", tags=("a",))


class Estimator:
    def __init__(self, settings):
        pass

    def cost(self, text):
        """Fail."""
        raise ValueError("no vocabulary")


class Rule:
    def __init__(self, settings):
        pass

    def admit(self, pool, query, floor):
        """Fail."""
        raise ValueError("no floor")


class Unfiltered(StoredFamily):
    """Finds what it was told to leave out."""

    def retrieve(self, request, call):
        """Ask without filters."""
        return super().retrieve(attrs.evolve(request, filters=Filters()), call)


def plugin(*, admission="floor", factory="powerctx_core.families:StoredFamily"):
    """Make a plugin with one family, a rule and an estimator that fail."""

    @hookimpl
    def powerctx_families():
        yield FamilySpec(name="notes", factory=factory, admission=admission)

    @hookimpl
    def powerctx_admissions():
        yield AdmissionSpec(name="failing", factory=Rule)

    @hookimpl
    def powerctx_token_estimators():
        yield TokenEstimatorSpec(name="failing", factory=Estimator)

    return SimpleNamespace(
        __name__="acme",
        powerctx_families=powerctx_families,
        powerctx_admissions=powerctx_admissions,
        powerctx_token_estimators=powerctx_token_estimators,
    )


def opened(extra, **settings):
    """Open a store in memory that holds one note."""
    ctx = powerctx.open("memory://", plugins=(), extra=[extra], settings=settings)
    ctx.put([ITEM])
    return ctx


def test_estimator():
    """A token estimator that fails is named, and the setting that chose it; the renderer is not blamed."""
    with opened(plugin(), tokens={"estimator": "failing"}) as ctx, pytest.raises(PluginError) as caught:
        ctx.prepare("Why SQLite?", scope_id="s", families=["notes"], max_tokens=500)

    assert "token estimator 'failing' of (given) failed: ValueError: no vocabulary; set tokens.estimator" in str(
        caught.value
    )
    assert "renderer" not in str(caught.value)


def test_admission_rule():
    """An admission rule that fails is named beside the family that chose it."""
    with opened(plugin(admission="failing")) as ctx:
        with pytest.raises(PluginError, match=r"admission rule 'failing' of \(given\) failed for the family 'notes'"):
            ctx.prepare("Why SQLite?", scope_id="s", families=["notes"])
        degraded = ctx.prepare("Why SQLite?", scope_id="s", families=["notes"], on_family_error="degrade")

    assert (("notes", "ValueError"),) == degraded.diagnostics.failed


def test_admission_rule_that_is_not_there():
    """``check`` finds a family whose admission rule is not installed, and lists those that are."""
    host = Host.compose(allow=[], extra=[plugin(admission="missing")])

    with pytest.raises(PluginError, match="names the admission rule 'missing', which is not installed; installed: flo"):
        host.check("acme")


def test_filters():
    """A family that gives what the filters leave out has broken its contract, and none of it is shown."""
    with opened(plugin(factory=Unfiltered)) as ctx:
        assert len(ctx.find("Why SQLite?", scope_id="s", families=["notes"], tags=["a"]).hits) == 1
        with pytest.raises(PluginError, match="'notes': a member does not pass the request's filters"):
            ctx.find("Why SQLite?", scope_id="s", families=["notes"], tags=["b"])


class Abrupt(BaseException):
    """Not even an exception, and without words."""

    def __str__(self):
        """Fail."""
        raise SystemExit(3)


ABRUPT = [asyncio.CancelledError(), GeneratorExit(), Abrupt()]


def raising(error):
    """Make the factory of a family that raises."""

    class Raising(StoredFamily):
        def retrieve(self, request, call):
            """Raise."""
            raise error

    return Raising


@pytest.mark.parametrize("error", ABRUPT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("deadline_ms", [None, 5000])
def test_families_may_raise_anything(error, deadline_ms):
    """Whatever a family raises is its failure: the call names it, or goes on without it."""
    asked = {"scope_id": "s", "families": ["notes"], "deadline_ms": deadline_ms}
    with opened(plugin(factory=raising(error))) as ctx:
        with pytest.raises(PluginError, match=f"family 'notes' .* failed: {type(error).__name__}"):
            ctx.prepare("Why SQLite?", **asked)
        degraded = ctx.prepare("Why SQLite?", **asked, on_family_error="degrade")

    assert (("notes", type(error).__name__),) == degraded.diagnostics.failed


class Form:
    """A renderer that fails as it is told."""

    def __init__(self, fault):
        self.fault = fault

    def open(self, selection):
        """Begin."""
        return "begin" if self.fault == "open" else ""

    def entry(self, candidate, ordinal, selection, *, cut):
        """Fail, or frame an entry."""
        if isinstance(self.fault, BaseException):
            raise self.fault
        return "", "" if self.fault == "entry" else "\n"

    def escape(self, text):
        """Change nothing."""
        return text

    def close(self, selection):
        """End."""
        return "end" if self.fault == "close" else ""


def rendered(fault):
    """Return the message of a call with a failing renderer."""

    @hookimpl
    def powerctx_renderers():
        yield RendererSpec(name="form", factory=lambda settings: Form(fault))

    forms = SimpleNamespace(__name__="forms", powerctx_renderers=powerctx_renderers)
    with powerctx.open("memory://", plugins=(), extra=[forms]) as ctx:
        ctx.put([attrs.evolve(ITEM, family="memory")])
        with pytest.raises(PlanInvariantError) as caught:
            ctx.prepare("Why SQLite?", scope_id="s", renderer="form")
    return str(caught.value)


@pytest.mark.parametrize("error", ABRUPT, ids=lambda error: type(error).__name__)
def test_renderers_may_raise_anything(error):
    """Whatever a renderer raises is its failure, by name."""
    assert rendered(error).startswith(f"renderer 'form' of (given) failed: {type(error).__name__}")


@pytest.mark.parametrize("method", ["open", "entry", "close"])
def test_renderer_piece(method):
    """A piece that breaks the contract is named with the method that gives it."""
    assert f"renderer 'form' of (given) failed: what its {method} returns does not end in a newline" in rendered(method)


@pytest.mark.parametrize("kind", [StoreError, CapabilityError, PluginError, RuntimeError])
def test_secrets_of_a_renderer(kind):
    """What a renderer says is shown without secrets and control characters, and never as somebody else's words."""
    message = rendered(kind("no \x1b[31maccess to postgresql://me:hunter2@host/db " + "x" * 100_000))

    assert "hunter2" not in message
    assert "\x1b" not in message
    assert len(message) < 1000
    assert message.startswith("renderer 'form' of (given) failed: ")


@pytest.mark.parametrize("kind", [StoreError, CapabilityError, ConfigError, PluginError, RuntimeError, SystemExit])
def test_secrets_of_a_family(kind):
    """The same holds of a family, whatever kind of error it chooses."""
    error = kind("no \x1b[31maccess to postgresql://me:hunter2@host/db " + "x" * 100_000)
    with opened(plugin(factory=raising(error))) as ctx, pytest.raises(PowerctxError) as caught:
        ctx.prepare("Why SQLite?", scope_id="s", families=["notes"])

    assert "hunter2" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1, "1", None, True])
def test_costs(cost):
    """What is no cost is the estimator's mistake, and no budget is filled or emptied by it."""

    class Odd:
        def __init__(self, settings):
            pass

        def cost(self, text):
            """Return what is no cost."""
            return cost

    @hookimpl
    def powerctx_token_estimators():
        yield TokenEstimatorSpec(name="odd", factory=Odd)

    odd = SimpleNamespace(__name__="odd", powerctx_token_estimators=powerctx_token_estimators)
    with powerctx.open("memory://", plugins=(), extra=[odd], settings={"tokens": {"estimator": "odd"}}) as ctx:
        ctx.put([attrs.evolve(ITEM, family="memory")])
        with pytest.raises(PluginError, match=r"token estimator 'odd' of \(given\) failed: a text costs"):
            ctx.prepare("Why SQLite?", scope_id="s", max_tokens=500)
