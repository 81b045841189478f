"""Deadlines: what a call waits for, what it goes on without, and what it leaves behind.

Parts block on an event that the test sets afterwards, so a test that waits for one would end in its timeout.
"""

from __future__ import annotations

import asyncio
import contextvars
import struct
import threading
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import (
    AdmissionSpec,
    CapabilityError,
    Deadline,
    EmbedderSpec,
    EmbeddingProfile,
    FamilySpec,
    InvalidRequest,
    Item,
    Pool,
    RendererSpec,
    StoreError,
    hookimpl,
)
from powerctx_core.families import StoredFamily
from powerctx_core.recall.admission import FloorAdmission
from powerctx_core.recall.fetch import Limits
from powerctx_core.workers import Lanes, Workers

SHORT_MS = 500
LONG_MS = 60_000
HANGS_S = 30.0


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """What the first call of a process imports is not timed."""
    with opened(Plugin()) as context:
        context.warm()
        context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS)


class Acting:
    """The stored family, doing something before it answers; counts its calls and notes its threads."""

    def __init__(self, spec: FamilySpec, act: Callable[[Any, Any], object]) -> None:
        self._stored = StoredFamily(spec)
        self._act = act
        self.scopes: list[str] = []
        self.threads: list[threading.Thread] = []

    def retrieve(self, request: Any, call: Any) -> Pool:
        """Note the call, act, and retrieve."""
        self.scopes.append(request.partition.scope_id)
        self.threads.append(threading.current_thread())
        self._act(request, call)
        return self._stored.retrieve(request, call)


class Plugin:
    """Families by name, with what each does before it answers, and an embedder and a renderer."""

    def __init__(self, *, embed: Any = None, renderer: Any = None, **acts: Callable[[Any, Any], object]) -> None:
        self._embed = embed
        self._renderer = renderer
        self._specs = [FamilySpec(name=name, factory="x:y") for name in acts]
        self.families = {spec.name: Acting(spec, acts[spec.name]) for spec in self._specs}

    @hookimpl
    def powerctx_families(self) -> list[FamilySpec]:
        """Offer the families."""
        return [attrs.evolve(spec, factory=lambda spec, settings: self.families[spec.name]) for spec in self._specs]

    @hookimpl
    def powerctx_embedders(self) -> list[EmbedderSpec]:
        """Offer the embedder."""
        return [EmbedderSpec(name="given", factory=lambda settings: Embedder(self._embed))] if self._embed else []

    @hookimpl
    def powerctx_renderers(self) -> list[RendererSpec]:
        """Offer the renderer."""
        return [RendererSpec(name="given", factory=self._renderer)] if self._renderer else []


class Embedder:
    """One vector for every text; *act* comes before that of a query."""

    profile = EmbeddingProfile(fingerprint="one", dimensions=2, languages=("en",), noise=0.1, match=0.9)

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def embed(self, request: Any) -> list[bytes]:
        """Return the vector of each text."""
        if request.purpose == "query":
            self._act()
        return [struct.pack("<2f", 1.0, 0.0) for _ in request.texts]


def nothing(*_: object) -> None:
    """Do nothing."""


def opened(plugin: Plugin, url: str = "memory://", families: Any = None, **settings: Any) -> powerctx.Context:
    """Open a store with one item in every family of two scopes."""
    names = families or [*plugin.families, "memory"]
    settings = {**settings, "recall": {"families": names, **settings.pop("recall", {})}}
    plugins = ("sqlite",) if url.startswith("sqlite") else ()
    context = powerctx.open(url, settings=settings, plugins=plugins, extra=[plugin])
    stored = {"memory", *plugin.families}
    context.put(
        [
            Item(scope_id=scope, family=name, artifact_id=name, text=f"alpha {name}")
            for scope in ("s", "r")
            for name in sorted(stored)
        ]
    )
    return context


def delivered(answer: Any) -> list[str]:
    """Return the families of what was delivered, in order."""
    return [address.family for address in answer.selected]


def workers(context: powerctx.Context) -> int:
    """Return the number of the context's threads for families and renderers."""
    return sum(pool._threads for pool in context._lanes._pools.values())


def until_in_time(call: Callable[[], Any]) -> Any:
    """Call until nothing is late: a worker that was left takes a moment to return."""
    end = Deadline.after(HANGS_S)
    while (answer := call()).diagnostics.late and not end.passed:
        pass
    assert () == answer.diagnostics.late
    return answer


@pytest.mark.parametrize("value", [0, -1, 600_001, 1.5, "50", True])
def test_a_deadline_is_a_whole_number_of_milliseconds(value: Any) -> None:
    """Both requests refuse anything else and name the field."""
    for request in (powerctx.PrepareRequest, powerctx.FindRequest):
        with pytest.raises(InvalidRequest, match="1 to 600000") as caught:
            request(query="q", scope_id="s", deadline_ms=value)
        assert "deadline_ms" == caught.value.field


def test_each_stage_ends_a_step_before_the_one_above() -> None:
    """No inner limit equals an outer one, whatever the deadline; without a deadline nothing is limited."""
    for seconds in (0.0, 0.001, 0.01, 0.1, 10.0):
        limits = Limits.of(Deadline.after(seconds))

        ends = [limit.at for limit in (limits.embedding, limits.native, limits.retrieval, limits.call)]
        assert sorted(set(ends)) == ends
        assert limits.call.at - limits.embedding.at <= max(0.05, seconds / 2)

    assert {None} == {limit.at for limit in attrs.astuple(Limits.of(Deadline()), recurse=False)}


def test_the_call_goes_on_without_a_family_that_hangs(gate: threading.Event) -> None:
    """What has arrived is delivered; what has not is named."""
    plugin = Plugin(slow=lambda *_: gate.wait(HANGS_S))
    with opened(plugin) as context:
        soon = Deadline.after(HANGS_S / 10)
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
        assert not soon.passed
        found = context.find("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert ["memory"] == delivered(prepared) == [hit.address.family for hit in found.hits]
    for diagnostics in (prepared.diagnostics, found.diagnostics):
        assert ("delivered", True, ("slow",)) == (diagnostics.outcome, diagnostics.partial, diagnostics.late)


def test_nothing_in_time_is_called_deadline(gate: threading.Event) -> None:
    """An answer that is empty because of the deadline never looks like nothing found."""
    with opened(Plugin(slow=lambda *_: gate.wait(HANGS_S)), families=["slow"]) as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert ("empty", "deadline", ("slow",)) == (
        prepared.status,
        prepared.diagnostics.outcome,
        prepared.diagnostics.late,
    )


def test_the_setting_gives_a_deadline_and_the_request_another(gate: threading.Event) -> None:
    """``recall.deadline_ms`` holds for calls that do not say."""
    with opened(Plugin(slow=lambda *_: gate.wait(HANGS_S)), recall={"deadline_ms": SHORT_MS}) as context:
        assert ("slow",) == context.prepare("alpha", scope_id="s").diagnostics.late
        gate.set()
        until_in_time(lambda: context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS))


def test_scopes_that_have_arrived_count(gate: threading.Event) -> None:
    """A family that hangs in its second scope delivers its first, and is late all the same."""
    plugin = Plugin(slow=lambda request, _: request.partition.scope_id == "r" and gate.wait(HANGS_S))
    with opened(plugin, families=["slow"]) as context:
        prepared = context.prepare("alpha", scope_id="s", references=["r"], deadline_ms=SHORT_MS)

    assert ["s"] == [address.scope_id for address in prepared.selected]
    assert ("slow",) == prepared.diagnostics.late
    assert ["s", "r"] == plugin.families["slow"].scopes


def test_a_family_that_hangs_gets_no_second_worker(gate: threading.Event) -> None:
    """Further calls are late without asking it, start no thread, and ask it again when it has returned."""
    plugin = Plugin(slow=lambda *_: gate.wait(HANGS_S))
    with opened(plugin) as context:
        context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
        before = workers(context)
        for _ in range(20):
            prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
            assert (["memory"], ("slow",)) == (delivered(prepared), prepared.diagnostics.late)
        assert 1 == len(plugin.families["slow"].scopes)
        assert before == workers(context)
        # Without a deadline, too.
        assert ("slow",) == context.prepare("alpha", scope_id="s").diagnostics.late

        gate.set()
        answer = until_in_time(lambda: context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS))
    assert {"memory", "slow"} == set(delivered(answer))


@pytest.mark.parametrize(("healthy", "most"), [(False, 1), (True, 4)])
def test_callers_that_wait_together_leave_few_workers(gate: threading.Event, healthy: bool, most: int) -> None:
    """Twelve callers of a family that hangs cost one thread, or four when it has answered before; none waits on."""
    plugin = Plugin(slow=lambda request, _: request.partition.scope_id == "s" and gate.wait(HANGS_S))
    late: list[tuple[str, ...]] = []
    with opened(plugin) as context:
        if healthy:
            assert () == context.prepare("alpha", scope_id="r", deadline_ms=LONG_MS).diagnostics.late
            plugin.families["slow"].scopes.clear()

        def call() -> None:
            late.append(context.prepare("alpha", scope_id="s", deadline_ms=4 * SHORT_MS).diagnostics.late)

        callers = [threading.Thread(target=call) for _ in range(12)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(HANGS_S)

    assert 12 == sum("slow" in names for names in late)
    assert 1 <= len(plugin.families["slow"].scopes) <= most


def test_the_result_does_not_depend_on_what_arrives_first() -> None:
    """Families that answer in any order give the same bytes and the same diagnostics."""
    answers = []
    for first, second in (("one", "two"), ("two", "one")):
        turn = threading.Event()
        acts: dict[str, Any] = {first: nothing, second: lambda *_, turn=turn: turn.wait(HANGS_S)}

        class Last(Acting):
            def retrieve(self, request: Any, call: Any, turn: threading.Event = turn) -> Pool:
                pool = super().retrieve(request, call)
                turn.set()
                return pool

        plugin = Plugin(one=acts["one"], two=acts["two"])
        plugin.families[first] = Last(FamilySpec(name=first, factory="x:y"), nothing)
        with opened(plugin, families=["one", "two"]) as context:
            prepared = context.prepare("alpha", scope_id="s", references=["r"])
        answers.append((prepared.content, attrs.evolve(prepared.diagnostics, request_id="")))

    assert answers[0] == answers[1]


def test_one_family_without_deadline_is_asked_on_the_callers_thread() -> None:
    """The ordinary call starts no thread; a deadline or a second family uses workers, with the caller's context."""
    seen: list[str] = []
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")
    plugin = Plugin(mine=lambda *_: seen.append(name.get()))
    with opened(plugin, families=["mine"]) as context:
        name.set("caller")
        context.prepare("alpha", scope_id="s")
        context.find("alpha", scope_id="s", references=["r"])
        assert {threading.current_thread()} == set(plugin.families["mine"].threads)
        assert 0 == workers(context)

        context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS)
        context.prepare("alpha", scope_id="s", families=["mine", "memory"])

    further = plugin.families["mine"].threads[3:]
    assert 2 == len(further)
    assert all(thread.daemon and thread is not threading.current_thread() for thread in further)
    assert {"caller"} == set(seen)


def test_every_family_waits_for_a_vector_at_once() -> None:
    """Families on all workers of their lanes need another worker each: the embedder's, from a pool of its own."""
    plugin = Plugin(embed=nothing, **{f"f{n}": nothing for n in range(12)})
    with opened(plugin, embedder="given") as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS, max_items=64)

    assert {"hybrid"} == {mode for _, mode in prepared.diagnostics.modes}
    assert 13 == len(set(delivered(prepared)))


def test_words_do_not_wait_for_the_query_vector(gate: threading.Event) -> None:
    """The call's deadline ends the wait for the embedder in time to deliver the words; the channel is named."""
    plugin = Plugin(embed=lambda: gate.wait(HANGS_S))
    with opened(plugin, embedder="given", retrieval={"embedding_timeout_s": HANGS_S}) as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
        hybrid = context.find("alpha", scope_id="s", search_type="hybrid", deadline_ms=SHORT_MS)

    assert ["memory"] == delivered(prepared) == [hit.address.family for hit in hybrid.hits]
    assert "inference_timeout" == prepared.diagnostics.fallback
    assert "memory:vector" in prepared.diagnostics.late


def test_an_embedder_past_its_own_time_is_a_fallback_and_not_late(gate: threading.Event) -> None:
    """Its limit is shorter than the call's here: nothing of the call was cut short, and asking for vectors fails."""
    plugin = Plugin(embed=lambda: gate.wait(HANGS_S))
    with opened(plugin, embedder="given", retrieval={"embedding_timeout_s": 0.01}) as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS)
        with pytest.raises(CapabilityError):
            context.find("alpha", scope_id="s", search_type="hybrid", deadline_ms=LONG_MS)

    assert ("inference_timeout", False) == (prepared.diagnostics.fallback, prepared.diagnostics.partial)


class Vectors:
    """A vector index whose search does *act* first."""

    def __init__(self, index: Any, act: Callable[[], object]) -> None:
        self._index = index
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def nearest(self, requests: Any, snapshot: Any) -> Any:
        """Act, and search."""
        self._act()
        return self._index.nearest(requests, snapshot)


def _with_vectors(context: powerctx.Context, act: Callable[[], object]) -> None:
    store = context.store
    engine = attrs.evolve(
        context._asking.engine,
        store=type("Other", (), {"catalogue": store.catalogue, "vectors": Vectors(store.vectors, act)})(),
    )
    context._asking = attrs.evolve(context._asking, engine=engine)


def test_words_do_not_wait_for_a_vector_search_that_hangs(gate: threading.Event) -> None:
    """An index that cannot be told to stop costs its channel, not the family."""
    with opened(Plugin(embed=nothing), embedder="given") as context:
        _with_vectors(context, lambda: gate.wait(HANGS_S))
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert ["memory"] == delivered(prepared)
    assert {"memory:neighbour", "memory:vector"} == set(prepared.diagnostics.late)


def test_words_are_delivered_when_the_store_stops_the_vector_search() -> None:
    """A search that is stopped by the store after the deadline is late; before it, it is the store's error."""

    def stopped() -> None:
        threading.Event().wait(SHORT_MS / 1000)
        raise StoreError("could not search by vectors")

    def broken() -> None:
        raise StoreError("could not search by vectors")

    with opened(Plugin(embed=nothing), embedder="given") as context:
        _with_vectors(context, stopped)
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
        assert ["memory"] == delivered(prepared)
        assert "memory:vector" in prepared.diagnostics.late

        _with_vectors(context, broken)
        with pytest.raises(StoreError):
            context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS)


def test_an_error_of_a_family_that_nobody_waits_for_is_late() -> None:
    """What it raises just after the wait has ended, and just before its result is taken, is not the call's error."""
    go = threading.Event()

    def failing(*_: object) -> None:
        go.wait(HANGS_S)
        raise RuntimeError("boom")

    class Meanwhile(Lanes):
        def leave(self, lane: str, future: Any) -> None:
            super().leave(lane, future)
            go.set()
            wait([future], HANGS_S)

    with opened(Plugin(slow=failing)) as context:
        engine = attrs.evolve(context._asking.engine, lanes=Meanwhile("test"))
        context._asking = attrs.evolve(context._asking, engine=engine)
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert (("slow",), ()) == (prepared.diagnostics.late, prepared.diagnostics.failed)


def test_a_caller_that_wakes_up_late_sees_no_error_of_afterwards() -> None:
    """What fails after the wait should have ended is late, also when a busy machine has made the wait longer."""

    def failing(request: Any, call: Any) -> None:
        threading.Event().wait(call.deadline.remaining() + SHORT_MS / 1000)
        raise RuntimeError("boom")

    class Sleepy(Lanes):
        def ask(self, lane: str, job: Any, patience: float | None = 0.0) -> Any:
            future = super().ask(lane, job, patience)
            if lane == "slow":
                wait([future], HANGS_S)
            return future

    with opened(Plugin(slow=failing), families=["memory", "slow"]) as context:
        engine = attrs.evolve(context._asking.engine, lanes=Sleepy("test"))
        context._asking = attrs.evolve(context._asking, engine=engine)
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert (["memory"], ("slow",), ()) == (delivered(prepared), prepared.diagnostics.late, prepared.diagnostics.failed)


@pytest.mark.parametrize("error", [StoreError("stopped"), TimeoutError()])
def test_what_stops_at_the_deadline_is_late_and_has_not_failed(error: Exception) -> None:
    """A store or a client that gives up when it was told to is no failure."""

    def stopping(request: Any, call: Any) -> None:
        threading.Event().wait(call.deadline.remaining())
        raise error

    with opened(Plugin(slow=stopping)) as context:
        prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)

    assert (["memory"], ("slow",)) == (delivered(prepared), prepared.diagnostics.late)


def test_sqlite_stops_a_lexical_query_at_the_deadline(tmp_path: Path) -> None:
    """A statement after the deadline is interrupted inside the engine: late, no store error, and nothing is spoilt."""
    said: list[str] = []
    done = threading.Event()

    class Told(Acting):
        def retrieve(self, request: Any, call: Any) -> Pool:
            try:
                return super().retrieve(request, call)
            except StoreError as error:
                said.append(str(error))
                raise
            finally:
                done.set()

    plugin = Plugin(big=nothing)
    waiting = plugin.families["big"] = Told(FamilySpec(name="big", factory="x:y"), nothing)
    with opened(plugin, url=f"sqlite:///{tmp_path / 'x.db'}", families=["big"]) as context:
        text = " ".join(f"w{n}" for n in range(30))
        context.put(
            [Item(scope_id="b", family="big", artifact_id=f"i{n}", text=f"{text} v{n}") for n in range(3000)],
        )
        whole = context.prepare(text, scope_id="b")
        waiting._act = lambda request, call: threading.Event().wait(call.deadline.remaining())
        done.clear()
        stopped = context.prepare(text, scope_id="b", deadline_ms=SHORT_MS)
        assert done.wait(HANGS_S)
        waiting._act = nothing
        again = until_in_time(lambda: context.prepare(text, scope_id="b", deadline_ms=LONG_MS))

    assert ("deadline", ("big",)) == (stopped.diagnostics.outcome, stopped.diagnostics.late)
    assert 1 == len(said)
    assert "deadline" in said[0]
    assert whole.content == again.content


def test_a_renderer_that_hangs_is_late(gate: threading.Event) -> None:
    """Nothing can be delivered without it, so the outcome is the deadline; few threads are left behind."""

    def factory(settings: object) -> object:
        gate.wait(HANGS_S)
        raise RuntimeError

    with opened(Plugin(renderer=factory)) as context:
        answers = [context.prepare("alpha", scope_id="s", renderer="given", deadline_ms=SHORT_MS) for _ in range(6)]
        # One for the family, one for the renderer.
        assert 2 == workers(context)
        assert ["memory"] == delivered(context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS))

    assert {("deadline", ("renderer:given",), None)} == {
        (answer.diagnostics.outcome, answer.diagnostics.late, answer.content) for answer in answers
    }


def test_a_family_whose_factory_hangs_is_late(gate: threading.Event) -> None:
    """It is made on the family's worker; a second call does not wait for the first one's lock either."""

    class Slow(Plugin):
        @hookimpl
        def powerctx_families(self) -> list[FamilySpec]:
            return [FamilySpec(name="slow", factory=lambda spec, settings: gate.wait(HANGS_S))]

    with opened(Slow(), families=["slow", "memory"]) as context:
        for _ in range(3):
            prepared = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
            assert (["memory"], ("slow",)) == (delivered(prepared), prepared.diagnostics.late)


def test_awaited_calls_do_not_block_the_loop_and_can_be_cancelled(gate: threading.Event) -> None:
    """The same answer on another thread, with the context variables; a cancelled await returns at once."""
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")
    seen: list[tuple[str, str]] = []
    plugin = Plugin(
        mine=lambda *_: seen.append((name.get(), threading.current_thread().name)),
        slow=lambda *_: gate.wait(HANGS_S),
    )

    async def main(context: powerctx.Context) -> None:
        name.set("task")
        found = await context.afind("alpha", scope_id="s", families=["mine"])
        prepared = await context.aprepare("alpha", scope_id="s", families=["mine", "memory"])
        assert ["mine"] == [hit.address.family for hit in found.hits]
        assert {"mine", "memory"} == set(delivered(prepared))
        task = asyncio.create_task(context.aprepare("alpha", scope_id="s", families=["slow"]))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        late = await context.aprepare("alpha", scope_id="s", families=["slow"], deadline_ms=SHORT_MS)
        assert ("slow",) == late.diagnostics.late
        with pytest.raises(InvalidRequest):
            await context.aprepare("alpha", scope_id="s", deadline_ms=0)

    with opened(plugin) as context:
        asyncio.run(main(context))

    assert {"task"} == {value for value, _ in seen}
    assert seen[0][1].startswith("powerctx-call")
    assert seen[1][1].startswith("powerctx-mine")


def test_an_awaited_deadline_counts_from_the_call(gate: threading.Event) -> None:
    """Time spent waiting for a thread counts, too."""

    async def main(context: powerctx.Context) -> Any:
        first = asyncio.create_task(context.aprepare("alpha", scope_id="s", families=["slow"]))
        second = asyncio.create_task(context.aprepare("alpha", scope_id="s", families=["memory"], deadline_ms=20))
        await asyncio.sleep(0.1)
        gate.set()
        await first
        return await second

    with opened(Plugin(slow=lambda *_: gate.wait(HANGS_S))) as context:
        context._calls = Workers(1, "test")
        late = asyncio.run(main(context))

    assert "deadline" == late.diagnostics.outcome


def test_cancelled_calls_that_hang_hold_nobody_up(gate: threading.Event) -> None:
    """Cancelled awaits of a family that hangs may use up every thread: a call with a deadline still ends at it."""

    async def main(context: powerctx.Context) -> Any:
        hung = [asyncio.create_task(context.aprepare("alpha", scope_id="s", families=["slow"])) for _ in range(5)]
        await asyncio.sleep(0.05)
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        answers = [await context.aprepare("alpha", scope_id="s", deadline_ms=SHORT_MS) for _ in range(3)]
        found = await context.afind("alpha", scope_id="s", families=["memory"], deadline_ms=SHORT_MS)
        return [*answers, found], len(context._calls._jobs)

    with opened(Plugin(slow=lambda *_: gate.wait(HANGS_S))) as context:
        context._calls = Workers(2, "test")
        answers, waiting = asyncio.run(main(context))

    assert [("deadline", ("memory", "slow"))] * 3 == [
        (answer.diagnostics.outcome, answer.diagnostics.late) for answer in answers[:3]
    ]
    assert ("memory",) == answers[3].diagnostics.late
    assert 0 == waiting


def test_what_nobody_waits_for_is_not_kept(gate: threading.Event) -> None:
    """Beside a family, an embedder and a renderer that hang, calls leave no job and no future behind."""
    plugin = Plugin(
        slow=lambda *_: gate.wait(HANGS_S),
        embed=lambda: gate.wait(HANGS_S),
        renderer=lambda settings: gate.wait(HANGS_S),
    )
    settings = {"retrieval": {"embedding_timeout_s": 0.001}}
    with opened(plugin, families=["slow", "memory"], embedder="given", **settings) as context:
        for number in range(12):
            for renderer in ("prepared", "given"):
                context.prepare(f"alpha {number}", scope_id="s", deadline_ms=5, renderer=renderer)
        lanes = context._lanes
        waiting = {name: len(pool._jobs) for name, pool in lanes._pools.items() if pool._jobs}
        left = {name: len(jobs) for name, jobs in lanes._left.items()}
        queries = len(context._workers._jobs)

    assert {} == waiting
    assert all(number <= 4 for number in left.values())
    assert queries <= 1


def test_many_awaited_calls_hang_no_pool() -> None:
    """More calls than any pool has threads all end: calls never wait for workers of their own kind."""

    async def main(context: powerctx.Context) -> list[Any]:
        calls = [context.aprepare("alpha", scope_id="s", deadline_ms=LONG_MS) for _ in range(100)]
        return await asyncio.gather(*calls)

    with opened(Plugin(embed=nothing, one=nothing, two=nothing), embedder="given") as context:
        answers = asyncio.run(main(context))

    assert 100 == len(answers)
    assert {3} == {len(answer.selected) for answer in answers}


CLOSED: dict[str, Callable[[powerctx.Context], object]] = {
    "prepare": lambda ctx: ctx.prepare("alpha", scope_id="s"),
    "prepare in time": lambda ctx: ctx.prepare("alpha", scope_id="s", deadline_ms=LONG_MS),
    "prepare anyway": lambda ctx: ctx.prepare("alpha", scope_id="s", on_family_error="degrade"),
    "aprepare": lambda ctx: asyncio.run(ctx.aprepare("alpha", scope_id="s")),
    "find": lambda ctx: ctx.find("alpha", scope_id="s"),
    "find anyway": lambda ctx: ctx.find("alpha", scope_id="s", on_family_error="degrade"),
    "afind": lambda ctx: asyncio.run(ctx.afind("alpha", scope_id="s", deadline_ms=LONG_MS)),
    "explain": lambda ctx: ctx.explain("alpha", scope_id="s"),
    "aexplain": lambda ctx: asyncio.run(ctx.aexplain("alpha", scope_id="s")),
    "search": lambda ctx: ctx.search("alpha", scope_id="s"),
    "search for a pack": lambda ctx: ctx.search("alpha", scope_id="s", mode="context"),
    "asearch": lambda ctx: asyncio.run(ctx.asearch("alpha", scope_id="s", mode="context")),
    "recall": lambda ctx: ctx.recall("alpha", scope_id="s"),
    "arecall": lambda ctx: asyncio.run(ctx.arecall("alpha", scope_id="s")),
    "put": lambda ctx: ctx.put([Item(scope_id="s", text="beta")]),
    "get": lambda ctx: ctx.get("powerctx://s/memory/memory"),
    "history": lambda ctx: ctx.history("powerctx://s/memory/memory"),
    "retire": lambda ctx: ctx.retire("powerctx://s/memory/memory"),
    "purge": lambda ctx: ctx.purge("powerctx://s/memory/memory"),
    "mark_used": lambda ctx: ctx.mark_used(["powerctx://s/memory/memory"]),
    "embed": lambda ctx: list(ctx.embed()),
    "warm": lambda ctx: ctx.warm(),
    "partitions": lambda ctx: ctx.partitions(),
    "reindex": lambda ctx: list(ctx.reindex()),
    "status": lambda ctx: ctx.status(),
}


@pytest.mark.parametrize("call", CLOSED)
def test_a_closed_context_says_so(call: str) -> None:
    """Every call after ``close`` is one error that says it, and blames no part; closing again is allowed."""
    context = opened(Plugin())
    context.close()
    context.close()

    with pytest.raises(powerctx.PowerctxError, match=r"^This context is closed; open a new one\.$"):
        CLOSED[call](context)


def test_no_call_is_missing_from_the_closed_ones() -> None:
    """Whatever a context offers is tried after ``close``."""
    public = {name for name, value in vars(powerctx.Context).items() if callable(value) and not name.startswith("_")}

    assert {name.split()[0] for name in CLOSED} == public - {"close"}


def test_a_job_never_waits_behind_one_that_hangs(gate: threading.Event) -> None:
    """While the pool may grow, a burst of jobs gets a thread each; the threads are used again afterwards."""
    pool = Workers(3, "test")
    warm = [pool.submit(lambda: None) for _ in range(1)]
    [future.result(HANGS_S) for future in warm]
    hung = [pool.submit(lambda: gate.wait(HANGS_S)) for _ in range(2)]

    assert [7] * 10 == [pool.submit(lambda: 7).result(HANGS_S) for _ in range(10)]
    assert not any(future.done() for future in hung)
    pool.close()


def test_a_job_has_its_turn_before_the_next_one_begins(gate: threading.Event) -> None:
    """Jobs that end within their turn run one by one, although there are threads for more."""
    pool = Workers(3, "test", turn=HANGS_S)
    pool._computes = HANGS_S
    running: list[int] = []
    most: list[int] = []

    def job(number: int) -> None:
        running.append(number)
        gate.wait(HANGS_S)
        most.append(len(running))
        running.remove(number)

    jobs = [pool.submit(partial(job, number)) for number in range(20)]
    gate.set()

    assert not wait(jobs, HANGS_S).not_done
    assert [1] * 20 == most
    pool.close()


def test_a_job_that_outlasts_its_turn_holds_up_nobody(gate: threading.Event) -> None:
    """Jobs behind some that hang begin when the turns of these are over, as long as a thread is left."""
    pool = Workers(3, "test", turn=0.001)
    pool._computes = HANGS_S
    hung = [pool.submit(lambda: gate.wait(HANGS_S)) for _ in range(2)]

    for _ in range(20):
        jobs = [pool.submit(partial(int, number)) for number in range(10)]
        assert [*range(10)] == [job.result(HANGS_S) for job in jobs]
    assert not any(job.done() for job in hung)
    pool.close()


def test_only_what_computes_has_a_turn() -> None:
    """How long jobs of a pool compute is learnt from those before, so that jobs that wait do so side by side."""
    pool = Workers(3, "test", turn=HANGS_S)
    pool.submit(lambda: sum(range(3_000_000))).result(HANGS_S)
    computing = pool._computes
    together = threading.Barrier(3)
    jobs = [pool.submit(lambda: together.wait(HANGS_S)) for _ in range(30)]

    assert not wait(jobs, HANGS_S).not_done
    assert 0.0 < pool._computes < computing / 2
    pool.close()


def test_what_nobody_waits_for_is_not_admitted() -> None:
    """A family that returns when the call is over costs no admission: others need the interpreter."""
    go, done = threading.Event(), threading.Event()
    asked: list[str] = []

    class Rule:
        def admit(self, pool: Any, query: Any, floor: Any) -> Any:
            asked.append(pool.family)
            return FloorAdmission().admit(pool, query, floor)

    class Judged(Plugin):
        @hookimpl
        def powerctx_families(self) -> list[FamilySpec]:
            return [attrs.evolve(spec, admission="counted") for spec in super().powerctx_families()]

        @hookimpl
        def powerctx_admissions(self) -> list[AdmissionSpec]:
            return [AdmissionSpec(name="counted", factory=lambda settings: Rule())]

    class Meanwhile(Lanes):
        def leave(self, lane: str, future: Any) -> None:
            super().leave(lane, future)
            go.set()
            wait([future], HANGS_S)
            done.set()

    with opened(Judged(slow=lambda *_: go.wait(HANGS_S))) as context:
        engine = attrs.evolve(context._asking.engine, lanes=Meanwhile("test"))
        context._asking = attrs.evolve(context._asking, engine=engine)
        late = context.prepare("alpha", scope_id="s", deadline_ms=SHORT_MS)
        assert done.is_set()
        assert (("slow",), []) == (late.diagnostics.late, asked)
        assert () == context.prepare("alpha", scope_id="s", deadline_ms=LONG_MS).diagnostics.late
    assert ["slow"] == asked


def test_a_lane_widens_once_a_job_has_returned(gate: threading.Event) -> None:
    """What has never answered has one worker; afterwards one that hangs leaves room for the next job."""
    answered = threading.Event()
    lanes = Lanes("test", width=2)
    first = lanes.queue("lane", lambda: answered.wait(HANGS_S))
    hung = lanes.queue("lane", lambda: gate.wait(HANGS_S))
    assert 1 == lanes._pools["lane"]._threads
    answered.set()
    first.result(HANGS_S)

    assert 7 == lanes.queue("lane", lambda: 7).result(HANGS_S / 3)
    assert not hung.done()
    lanes.close()


def test_a_job_that_nobody_waits_for_never_begins(gate: threading.Event) -> None:
    """A job that is left while it waits for a thread is cancelled and does not count as left."""
    lanes = Lanes("test", width=1)
    running = lanes.queue("lane", lambda: gate.wait(HANGS_S))
    waiting = lanes.queue("lane", lambda: pytest.fail("it ran"))

    lanes.leave("lane", waiting)
    assert waiting.cancelled()
    assert lanes.ask("lane", nothing) is not None
    lanes.leave("lane", running)
    assert lanes.ask("lane", nothing) is None
    assert lanes.ask("other", nothing) is not None
    lanes.close()
