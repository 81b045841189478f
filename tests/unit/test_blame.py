"""An error names the part that it belongs to, and no other."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import AdmissionSpec, FamilySpec, PluginError, TokenEstimatorSpec, hookimpl
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
