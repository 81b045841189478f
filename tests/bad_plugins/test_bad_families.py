"""Families that misbehave while a call runs: each ends as ``docs/failures.md`` says, and nobody else is harmed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import Item, PluginError

FAMILY = """
import os, socket, sys, threading, time
import attrs
from powerctx_core import Address, AdmissionSpec, FamilySpec, Pool, hookimpl
from powerctx_core.families import StoredFamily

GATE = threading.Event()
SOCKETS = socket.socketpair()
CALLS = []

class Mute(Exception):
    def __str__(self): raise RuntimeError("no words")

class Bad(StoredFamily):
    def retrieve(self, request, call):
        CALLS.append(request.partition.scope_id)
        pool = super().retrieve(request, call)
{body}

@hookimpl
def powerctx_families():
    yield FamilySpec(name="bad", factory=Bad)
"""
RETRIEVE = " " * 8

RAISES = {
    "raises": ("raise RuntimeError('no luck at https://me:hunter2@host/x')", "RuntimeError"),
    "exits": ("raise SystemExit(3)", "SystemExit"),
    "quits": ("sys.exit('hunter2')", "SystemExit"),
    "recurses": ("return self.retrieve(request, call)", "RecursionError"),
    "no-memory": ("raise MemoryError", "MemoryError"),
    "gives-up": ("raise TimeoutError('its own limit')", "TimeoutError"),
    "no-words": ("raise Mute", "Mute"),
    "own-request": ("raise __import__('powerctx_core').InvalidRequest('not yours')", "InvalidRequest"),
    "writes-request": ("request.k = 10**6", "FrozenInstanceError"),
    "writes-weights": ("request.weights['fts'] = 0.0", "TypeError"),
    "writes-call": ("call.deadline = None", "FrozenInstanceError"),
    "writes-pool": ("pool.family = 'memory'", "FrozenInstanceError"),
}
INVALID = {
    "coroutine": ("async def later(): return pool\n        return later()", "coroutine instead of a Pool"),
    "none": ("return None", "NoneType instead of a Pool"),
    "other-scope": (
        "return attrs.evolve(pool, scope_id='elsewhere')",
        "answered for family 'bad' in scope 'elsewhere'",
    ),
    "member-of-other-scope": (
        (
            "key, raw = next(iter(pool.candidates.items()))\n"
            "        raw = attrs.evolve(raw, address=Address('elsewhere', 'bad', 'a', 1))\n"
            "        return attrs.evolve(pool, candidates={**pool.candidates, key: raw})"
        ),
        "does not lie in scope 's'",
    ),
    "100000-hits": (
        (
            "key, raw = next(iter(pool.candidates.items()))\n"
            "        return attrs.evolve(pool, channels={'fts': tuple(range(100_000))},"
            " candidates=dict.fromkeys(range(100_000), raw))"
        ),
        "has 100000 members; 64 were asked for",
    ),
    "100000-details": (
        (
            "key, raw = next(iter(pool.candidates.items()))\n"
            "        return attrs.evolve(pool, candidates=dict.fromkeys([key, *range(100_000)], raw))"
        ),
        "gives details of 10000",
    ),
    "twice": ("return attrs.evolve(pool, channels={'fts': pool.channels['fts'] * 2})", "names a member twice"),
}
HANGS = {
    "waits": "GATE.wait(30)",
    "sleeps": "time.sleep(10)",
    "reads-a-socket": "SOCKETS[0].recv(1)",
    "spins": "while not GATE.is_set(): pass",
    "raises-late": "GATE.wait(30); raise RuntimeError('too late')",
    "exits-late": "GATE.wait(30); raise SystemExit(1)",
}


@pytest.fixture
def bad(site: Any) -> Iterator[Any]:
    """Install ``acme-bad`` 2.5 whose family *bad* ends in the given lines; what hangs is released afterwards."""
    module = None

    def install(body: str, **settings: Any) -> powerctx.Context:
        nonlocal module
        site.install("bad", FAMILY.format(body=f"{RETRIEVE}{body}\n{RETRIEVE}return pool"), version="2.5")
        recall = {"families": ["bad", "memory"], **settings.pop("recall", {})}
        context = powerctx.open("memory://", plugins=("bad", "good"), settings={"recall": recall, **settings})
        module = sys.modules["bad_plugin"]
        items = [("memory", "alpha of the memory"), ("bad", "alpha of the bad one")]
        context.put([Item(scope_id="s", family=family, artifact_id=family, text=text) for family, text in items])
        return context

    yield install
    if module is not None:
        module.GATE.set()
        module.SOCKETS[1].send(b"x")
        for end in module.SOCKETS:
            end.close()


def assert_good_works(context: powerctx.Context, **parameters: Any) -> powerctx.PreparedContext:
    """The family beside the bad one is delivered, by the renderer of the good plugin."""
    prepared = context.prepare("alpha", scope_id="s", renderer="good-plain", **parameters)
    assert "alpha of the memory\n" == prepared.content
    return prepared


@pytest.mark.parametrize(("body", "kind"), RAISES.values(), ids=RAISES)
def test_a_family_that_raises(bad: Any, body: str, kind: str) -> None:
    """The call fails naming family, distribution and version, or goes on without it and says so in a word."""
    with bad(body) as context:
        for parameters in ({}, {"deadline_ms": 60_000}, {"families": ["bad"]}):
            with pytest.raises(PluginError, match=r"family 'bad' of acme-bad 2.5 failed: ") as caught:
                context.prepare("alpha", scope_id="s", **parameters)
            assert kind == type(caught.value.__cause__).__name__
            assert "hunter2" not in str(caught.value).replace("sys.exit('hunter2')", "")
        prepared = assert_good_works(context, on_family_error="degrade")
        alone = context.prepare("alpha", scope_id="s", families=["bad"], on_family_error="degrade")
        assert_good_works(context, families=["memory"])

    for answer, outcome in ((prepared, "delivered"), (alone, "source_error")):
        diagnostics = answer.diagnostics
        assert (outcome, True, (("bad", kind),)) == (diagnostics.outcome, diagnostics.partial, diagnostics.failed)
        assert "hunter2" not in repr(diagnostics)


@pytest.mark.parametrize(("body", "says"), INVALID.values(), ids=INVALID)
def test_a_family_that_breaks_its_contract(bad: Any, body: str, says: str) -> None:
    """Its pool is never repaired: the call fails naming it, or goes on without it and calls it invalid."""
    with bad(body) as context:
        with pytest.raises(PluginError, match=r"acme-bad 2.5: .*family 'bad'") as caught:
            context.prepare("alpha", scope_id="s")
        prepared = assert_good_works(context, on_family_error="degrade")

    assert says in str(caught.value)
    assert (("bad", "invalid"),) == prepared.diagnostics.failed


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_family_that_hangs(bad: Any, body: str) -> None:
    """It is late, call after call, is asked once, and never turns into an error of a later call."""
    with bad(body) as context:
        context.warm()
        for _ in range(3):
            prepared = assert_good_works(context, deadline_ms=5000 if "pass" in body else 700)
            assert (("bad",), ()) == (prepared.diagnostics.late, prepared.diagnostics.failed)
        alone = context.prepare("alpha", scope_id="s", families=["bad"], deadline_ms=100)
        assert ["s"] == sys.modules["bad_plugin"].CALLS
        sys.modules["bad_plugin"].GATE.set()
        assert_good_works(context, families=["memory"])

    assert ("deadline", None) == (alone.diagnostics.outcome, alone.content)


def test_an_interrupt_goes_through(bad: Any) -> None:
    """Ctrl-C inside a family ends the call, on whichever thread the family runs."""
    with bad("raise KeyboardInterrupt") as context:
        for parameters in ({"families": ["bad"]}, {}, {"deadline_ms": 60_000}, {"on_family_error": "degrade"}):
            with pytest.raises(KeyboardInterrupt):
                context.prepare("alpha", scope_id="s", **parameters)
        assert_good_works(context, families=["memory"])


MISCOUNTS = """
class Miscounting:
    def __init__(self, settings): self.rule = FloorAdmission()
    def admit(self, pool, query, floor):
        found = self.rule.admit(pool, query, floor)
        return attrs.evolve(found, counts=attrs.evolve(found.counts, {counts}))

from powerctx_core.recall.admission import FloorAdmission

@hookimpl
def powerctx_admissions():
    yield AdmissionSpec(name="miscounting", factory=Miscounting)

@hookimpl
def powerctx_families():
    yield FamilySpec(name="bad", factory=StoredFamily, admission="miscounting")
"""


@pytest.mark.parametrize("counts", ["retrieved=7", "admitted=0", "admitted=-1", "scope_id='elsewhere'"])
def test_a_family_that_miscounts(site: Any, counts: str) -> None:
    """Counts that cannot be make the family's outcome invalid."""
    site.install("bad", FAMILY.format(body="") + MISCOUNTS.format(counts=counts), version="2.5")
    recall = {"families": ["bad", "memory"]}
    with powerctx.open("memory://", plugins=("bad", "good"), settings={"recall": recall}) as context:
        items = [("memory", "alpha of the memory"), ("bad", "alpha of the bad one")]
        context.put([Item(scope_id="s", family=family, text=text) for family, text in items])
        with pytest.raises(PluginError, match=r"acme-bad 2.5: admission rule 'miscounting': admission counts"):
            context.prepare("alpha", scope_id="s")
        prepared = assert_good_works(context, on_family_error="degrade")
    for end in sys.modules["bad_plugin"].SOCKETS:
        end.close()

    assert (("bad", "invalid"),) == prepared.diagnostics.failed


VANDAL = (
    "for raw in call.catalogue.fetch(__import__('powerctx_core.ports').ports.FetchRequest("
    "keys=tuple(pool.candidates))).values():\n"
    "            for mapping in (raw.matched, raw.metadata, raw.evidence, pool.statistics.document_frequency,"
    " pool.candidates):\n"
    "                if hasattr(mapping, 'clear'): mapping.clear()"
)


def test_what_a_family_does_to_its_own_objects_reaches_nobody_else(bad: Any) -> None:
    """Emptying whatever mapping it gets hold of changes neither the store nor the other family's answer."""
    with bad(VANDAL) as context:
        context.put([Item(scope_id="s", artifact_id="m", text="alpha with meta", meta={"deep": {"list": [1]}})])
        before = [
            (hit.address, hit.score, dict(hit.candidate.matched), dict(hit.candidate.metadata))
            for hit in context.find("alpha", scope_id="s", families=["memory"]).hits
        ]
        context.find("alpha", scope_id="s", on_family_error="degrade")
        after = [
            (hit.address, hit.score, dict(hit.candidate.matched), dict(hit.candidate.metadata))
            for hit in context.find("alpha", scope_id="s", on_family_error="degrade").hits
        ]

    assert before == after


FACTORIES = """
import threading
from powerctx_core import AdmissionSpec, FamilySpec, RendererSpec, TokenEstimatorSpec, hookimpl

GATE = threading.Event()
MADE = []

def hang(*arguments):
    MADE.append(threading.current_thread().name)
    GATE.wait(600)

@hookimpl
def powerctx_families():
    yield FamilySpec(name="stuck-family", factory=hang)
    yield FamilySpec(name="stuck-rule", factory="powerctx_core.families:StoredFamily", admission="stuck")

@hookimpl
def powerctx_admissions(): yield AdmissionSpec(name="stuck", factory=hang)

@hookimpl
def powerctx_renderers(): yield RendererSpec(name="stuck", factory=hang)

@hookimpl
def powerctx_token_estimators(): yield TokenEstimatorSpec(name="stuck-tokens", factory=hang)
"""


def test_factories_that_hang(site: Any) -> None:
    """A part that never gets made is late on every call, with the threads of the first ones and no more."""
    site.install("stuck", FACTORIES)
    families = ["stuck-family", "stuck-rule", "memory"]
    settings = {"recall": {"families": families}, "tokens": {"estimator": "stuck-tokens"}}
    with powerctx.open("memory://", plugins=("stuck", "good"), settings=settings) as context:
        context.put([Item(scope_id="s", text="alpha of the memory"), Item(scope_id="s", family="stuck-rule", text="a")])
        for _ in range(3):
            prepared = assert_good_works(context, deadline_ms=700)
            assert ("stuck-family", "stuck-rule") == prepared.diagnostics.late
        before = threading.active_count()
        for parameters in ({"renderer": "stuck"}, {"max_tokens": 100}):
            for _ in range(8):
                answer = context.prepare("alpha", scope_id="s", families=["memory"], deadline_ms=50, **parameters)
                assert ("deadline", None) == (answer.diagnostics.outcome, answer.content)
        assert threading.active_count() <= before + 4
        assert 4 == len(sys.modules["stuck_plugin"].MADE)
        sys.modules["stuck_plugin"].GATE.set()


def test_a_hung_family_holds_neither_the_program_nor_its_end(site: Any) -> None:
    """With factories and a family that hang for ten minutes the program starts, answers in time, and ends."""
    site.install("stuck", FACTORIES)
    site.install("bad", FAMILY.format(body=f"{RETRIEVE}time.sleep(600)"), version="2.5")

    ended = site.run(
        f"""
        import sys
        from powerctx_core.cli import main
        def run(*arguments):
            sys.argv = ["powerctx", *arguments, "--store", "sqlite:///{site.folder}/x.db"]
            try:
                main()
            except SystemExit as end:
                assert not end.code, (arguments, end.code)
        run("--help")
        run("plugins")
        import powerctx_core
        with powerctx_core.open("sqlite:///{site.folder}/x.db", settings={{}}) as context:
            context.put([powerctx_core.Item(scope_id="s", text="alpha of the memory")])
        run("doctor")
        families = "bad,stuck-family,memory"
        run("prepare", "alpha", "--scope", "s", "--families", families, "--deadline-ms", "500")
        run("prepare", "alpha", "--scope", "s", "--families", families, "--deadline-ms", "500", "--json")
        run("find", "alpha", "--scope", "s", "--families", families, "--deadline-ms", "500")
        run("find", "alpha", "--scope", "s", "--families", "bad", "--deadline-ms", "500")
        """
    )

    assert 0 == ended.returncode, ended.stderr
    lines = ended.stderr.splitlines()
    assert 4 == len(lines), ended.stderr
    assert lines[0].endswith("· partial, late: bad, stuck-family")
    assert ["partial, late: bad, stuck-family"] * 2 == lines[1:3]
    assert "empty (deadline): no answer in time: bad; run it again, or raise --deadline-ms." == lines[3]
