"""``docs/failures.md``: each row of its table is one test, here or where it says."""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

import powerctx_core as powerctx
from powerctx_core import (
    CapabilityError,
    EmbedderSpec,
    EmbeddingProfile,
    FamilySpec,
    Item,
    PlanInvariantError,
    PluginError,
    Pool,
    RendererSpec,
    SinkSpec,
    StoreError,
    hookimpl,
)
from powerctx_core.cli.options import Invocation
from powerctx_core.cli.program import program
from powerctx_core.cli.recall import find, prepare
from powerctx_core.families import StoredFamily

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "failures.md"
SHORT_MS = 500
HANGS_S = 30.0


class Changed(StoredFamily):
    """The stored family, whose pool *change* sees before it is returned."""

    def __init__(self, spec: FamilySpec, change: Callable[[Pool], Any]) -> None:
        super().__init__(spec)
        self._change = change

    def retrieve(self, request: Any, call: Any) -> Any:
        """Return what *change* makes of the pool."""
        return self._change(super().retrieve(request, call))


class Parts:
    """One part of each kind, named ``bad``."""

    def __init__(
        self, *, change: Any = None, made: Any = None, embed: Any = None, renderer: Any = None, sink: Any = None
    ) -> None:
        self.change = change
        self.made = made
        self.embed = embed
        self.renderer = renderer
        self.sink = sink

    @hookimpl
    def powerctx_families(self) -> list[FamilySpec]:
        """Offer a family."""
        return [FamilySpec(name="bad", factory=self.made or (lambda spec, settings: Changed(spec, self.change)))]

    @hookimpl
    def powerctx_embedders(self) -> list[EmbedderSpec]:
        """Offer an embedder."""
        return [EmbedderSpec(name="bad", factory=lambda settings: self)] if self.embed else []

    @hookimpl
    def powerctx_renderers(self) -> list[RendererSpec]:
        """Offer a renderer."""
        return [RendererSpec(name="bad", factory=self.renderer)] if self.renderer else []

    @hookimpl
    def powerctx_sinks(self) -> list[SinkSpec]:
        """Offer a sink."""
        return [SinkSpec(name="bad", factory=lambda settings: self.sink)] if self.sink else []

    profile = EmbeddingProfile(fingerprint="one", dimensions=2, languages=("en",), noise=0.1, match=0.9)


def opened(parts: Parts, families: tuple[str, ...] = ("bad", "memory"), **settings: Any) -> powerctx.Context:
    """Open a store with an item of the family ``bad`` and one of ``memory``."""
    if parts.embed:
        vector = struct.pack("<2f", 1.0, 0.0)
        act = parts.embed
        parts.embed = lambda request: (request.purpose == "query" and act(), [vector for _ in request.texts])[1]
        settings["embedder"] = "bad"
    recall = {"families": list(families), **settings.pop("recall", {})}
    context = powerctx.open("memory://", plugins=(), extra=[parts], settings={"recall": recall, **settings})
    context.put([Item(scope_id="s", family=family, artifact_id=family, text="alpha") for family in ("bad", "memory")])
    return context


def said(context: powerctx.Context, command: Any = prepare, *arguments: str) -> tuple[int, str]:
    """Run a command of the program over *context* and return its exit code and what it says on standard error."""

    class Given(Invocation):
        def open(self) -> Any:
            return context

    ended = CliRunner().invoke(command, ["alpha", "--scope", "s", *arguments], obj=Given())
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended.exit_code, ended.stderr.strip()


def delivered(answer: Any) -> list[str]:
    """Return the families of what was delivered."""
    return [address.family for address in answer.selected]


def fail(*_: object) -> Any:
    """Raise."""
    raise RuntimeError("boom")


def test_a_part_that_cannot_be_made() -> None:
    """A renderer that is needed is an error; a family is one that failed."""
    with opened(Parts(made=fail, renderer=fail)) as context:
        for parameters in ({"renderer": "bad", "families": ["memory"]}, {}):
            with pytest.raises(PluginError, match=r"'bad' of .* could not be made: RuntimeError: boom"):
                context.prepare("alpha", scope_id="s", **parameters)
        prepared = context.prepare("alpha", scope_id="s", on_family_error="degrade")

    assert (["memory"], (("bad", "RuntimeError"),)) == (delivered(prepared), prepared.diagnostics.failed)


def test_the_store_fails_while_it_is_read() -> None:
    """Its own error is raised, or every family that it serves is left out."""

    class Broken:
        def snapshot(self, deadline: Any) -> Any:
            raise StoreError("the disk is gone")

    with opened(Parts()) as context:
        engine = attrs.evolve(
            context._asking.engine, store=type("Store", (), {"catalogue": Broken(), "vectors": None})()
        )
        context._asking = attrs.evolve(context._asking, engine=engine)
        for parameters in ({"families": ["memory"]}, {}, {"deadline_ms": 60_000}):
            with pytest.raises(StoreError, match="the disk is gone"):
                context.find("alpha", scope_id="s", **parameters)
        found = context.find("alpha", scope_id="s", on_family_error="degrade")

    assert ("source_error", (("bad", "StoreError"), ("memory", "StoreError"))) == (
        found.diagnostics.outcome,
        found.diagnostics.failed,
    )


@pytest.mark.parametrize("fallback", ["inference_unavailable", "inference_timeout"])
def test_the_embedder_fails(gate: threading.Event, fallback: str) -> None:
    """Words are delivered and the reason is told; who asks for vectors gets an error."""
    act = fail if fallback == "inference_unavailable" else lambda: gate.wait(HANGS_S)
    with opened(Parts(embed=act), families=("memory",), retrieval={"embedding_timeout_s": 0.02}) as context:
        prepared = context.prepare("alpha", scope_id="s")
        with pytest.raises(CapabilityError, match="use auto or fts"):
            context.find("alpha", scope_id="s", search_type="vector")

    assert (["memory"], fallback, False) == (
        delivered(prepared),
        prepared.diagnostics.fallback,
        prepared.diagnostics.partial,
    )


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(1)], ids=repr)
def test_a_family_raises(error: BaseException) -> None:
    """The call fails with its name, or goes on without it, as the request or else the setting says."""

    def change(_: Pool) -> None:
        raise error

    failed = pytest.raises(PluginError, match=r"family 'bad' of \(given\).* failed")
    with opened(Parts(change=change)) as context, failed:
        context.prepare("alpha", scope_id="s")
    with opened(Parts(change=change), recall={"on_family_error": "degrade"}) as context:
        prepared = context.prepare("alpha", scope_id="s")
        with pytest.raises(PluginError):
            context.find("alpha", scope_id="s", on_family_error="fail")
        code, line = said(context)

    assert (["memory"], (("bad", type(error).__name__),)) == (delivered(prepared), prepared.diagnostics.failed)
    assert 0 == code
    assert line.endswith(f"· partial, failed: bad ({type(error).__name__})")


def test_a_family_breaks_its_contract(caplog: pytest.LogCaptureFixture) -> None:
    """The same, called invalid; the log says how, and what it should not have given is not delivered."""
    parts = Parts(change=lambda pool: attrs.evolve(pool, scope_id="elsewhere"))
    with opened(parts) as context:
        with pytest.raises(PluginError, match="'elsewhere'"):
            context.prepare("alpha", scope_id="s")
        prepared = context.prepare("alpha", scope_id="s", on_family_error="degrade")

    assert (["memory"], (("bad", "invalid"),)) == (delivered(prepared), prepared.diagnostics.failed)
    assert "going on without the family bad: " in caplog.text
    assert "'elsewhere'" in caplog.text


def test_all_families_fail() -> None:
    """An answer that is empty because of failures never looks like nothing found."""
    with opened(Parts(change=fail), families=("bad",), recall={"on_family_error": "degrade"}) as context:
        prepared = context.prepare("alpha", scope_id="s")
        code, line = said(context, find)

    assert ("empty", "source_error") == (prepared.status, prepared.diagnostics.outcome)
    assert (0, "empty (source_error): failed: bad (RuntimeError)") == (code, line.partition(";")[0])


def test_a_family_is_late(gate: threading.Event) -> None:
    """The call goes on with what has arrived and says so."""
    with opened(Parts(change=lambda pool: gate.wait(HANGS_S))) as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
        alone = context.prepare("alpha", scope_id="s", families=["bad"], deadline_ms=SHORT_MS)
        code, line = said(context, prepare, "--deadline-ms", "500")

    assert (["memory"], ("bad",)) == (delivered(prepared), prepared.diagnostics.late)
    assert ("empty", "deadline") == (alone.status, alone.diagnostics.outcome)
    assert 0 == code
    assert line.endswith("· partial, late: bad")


def test_a_channel_is_late(gate: threading.Event) -> None:
    """Words are delivered without the query's vector, which is named by family and channel."""
    settings = {"retrieval": {"embedding_timeout_s": HANGS_S}}
    with opened(Parts(embed=lambda: gate.wait(HANGS_S)), families=("memory",), **settings) as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert ["memory"] == delivered(prepared)
    assert "memory:vector" in prepared.diagnostics.late


def test_the_renderer_is_late(gate: threading.Event) -> None:
    """Nothing can be delivered; the renderer is named."""
    with opened(Parts(renderer=lambda settings: gate.wait(HANGS_S)), families=("memory",)) as context:
        prepared = context.prepare("alpha", scope_id="s", renderer="bad", deadline_ms=SHORT_MS)

    assert ("empty", "deadline", ("renderer:bad",)) == (
        prepared.status,
        prepared.diagnostics.outcome,
        prepared.diagnostics.late,
    )


@pytest.mark.parametrize("deadline_ms", [None, 60_000])
def test_the_renderer_fails(deadline_ms: int | None) -> None:
    """What it raises, and a piece that breaks the planner's rules, are errors that name it."""

    class Renderer:
        def __init__(self, entry: Any) -> None:
            self.entry = entry

        open = close = lambda self, selection: ""
        escape = staticmethod(str)

    for entry in (fail, lambda *_, **__: ("-", "no newline")):
        parts = Parts(renderer=lambda settings, entry=entry: Renderer(entry))
        failed = pytest.raises(PlanInvariantError, match="renderer 'bad'")
        with opened(parts, families=("memory",)) as context, failed:
            context.prepare("alpha", scope_id="s", renderer="bad", deadline_ms=deadline_ms)


def test_a_sink_fails(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once by name, and calls go on."""
    sink = type("Sink", (), {"observe": fail})()
    with opened(Parts(sink=sink), families=("memory",), sinks=["bad"]) as context:
        answers = [context.prepare("alpha", scope_id="s") for _ in range(3)]

    assert [["memory"]] * 3 == [delivered(answer) for answer in answers]
    assert ["sink bad failed: RuntimeError"] == [record.getMessage() for record in caplog.records]


def test_an_interrupt() -> None:
    """It passes through inline, through a worker, and through ``degrade``."""

    def change(_: Pool) -> None:
        raise KeyboardInterrupt

    with opened(Parts(change=change)) as context:
        for parameters in ({"families": ["bad"]}, {}, {"deadline_ms": 60_000}, {"on_family_error": "degrade"}):
            with pytest.raises(KeyboardInterrupt):
                context.prepare("alpha", scope_id="s", **parameters)


# Beginning of a row's first cell -> its test, here or in another module.
ROWS = {
    "a plugin does not import, is not valid, or is of another": "tests/bad_plugins/test_bad_plugins.py::test_broken",
    "a part cannot be made: its factory raises, or is not there": "test_a_part_that_cannot_be_made",
    "the chosen store does not open": "tests/bad_plugins/test_bad_plugins.py::test_store_that_does_not_open",
    "the store fails while it is read": "test_the_store_fails_while_it_is_read",
    "the store cannot tell how often items were used": "tests/unit/test_trim.py::test_counts_that_are_late_are_named",
    "what a session is given is not recorded within": (
        "tests/unit/test_search.py::test_a_ledger_that_cannot_be_written_holds_nobody_up"
    ),
    "the embedder fails, or takes longer than": "test_the_embedder_fails",
    "the engine that keeps a store's vectors": "plugins/powerctx-chroma/tests/test_server.py::test_words_alone",
    "a family raises, also `SystemExit`": "test_a_family_raises",
    "a family breaks its contract: another scope, more members": "test_a_family_breaks_its_contract",
    "all that could have answered failed": "test_all_families_fail",
    "a family does not answer by the deadline": "test_a_family_is_late",
    "a further round of the gate does not come by the deadline": (
        "tests/unit/test_searching_families.py::test_a_round_that_is_late_is_dropped_whole"
    ),
    "the vector search or the query's vector does not come by": "test_a_channel_is_late",
    "a family's factory, or that of its": "tests/bad_plugins/test_bad_families.py::test_factories_that_hang",
    "a plugin's renderer or token estimator hangs, or its": "test_the_renderer_is_late",
    "the renderer raises, or breaks a promise of the planner": "test_the_renderer_fails",
    "a [receipt](receipts.md) cannot": "tests/unit/test_receipts_of_calls.py::test_whatever_fails_loses_no_answer",
    "a sink fails, or hangs": "test_a_sink_fails",
    "Ctrl-C, wherever it lands": "test_an_interrupt",
}


@pytest.mark.docs
def test_every_row_is_a_test() -> None:
    """Each row has a test that exists, and each test of this module belongs to a row."""
    lines = PAGE.read_text("utf-8").partition("## The table")[2].splitlines()
    cells = [line[2:] for line in lines if line[:2] == "| "][1:]

    assert len(cells) == len(ROWS)
    assert all(cell.startswith(row) for cell, row in zip(cells, ROWS, strict=True))
    for test in ROWS.values():
        path, _, name = test.rpartition("::")
        assert f"\ndef {name}(" in (ROOT / path if path else Path(__file__)).read_text("utf-8"), name
    own = set(re.findall(r"^def (test_\w+)", Path(__file__).read_text("utf-8"), re.MULTILINE))
    assert own - {"test_every_row_is_a_test", "test_errors_begin_as_the_page_says"} == {
        test for test in ROWS.values() if "::" not in test
    }


def test_errors_begin_as_the_page_says() -> None:
    """The program's lines begin as the page shows them."""
    result = CliRunner().invoke(program, ["read", "nonsense"], prog_name="powerctx")

    assert result.output.startswith("error: ")
    assert "`error: …`" in PAGE.read_text("utf-8")
