"""Candidate providers: what is offered without a search is well-formed, bounded, the same again, and harms nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import attrs
import pytest

from powerctx_core.config import structure
from powerctx_core.context import Context
from powerctx_core.errors import StoreError
from powerctx_core.host import Host
from powerctx_core.opening import open as open_context
from powerctx_core.ports import Call, Offered, Provider, ProviderRequest, Snapshot
from powerctx_core.requests import ContextPack
from powerctx_core.testing.contract import Contract, agree
from powerctx_core.testing.seeded import evidence
from powerctx_core.types import (
    ARTIFACT_ID_BYTES,
    LIFECYCLES,
    Address,
    Deadline,
    Item,
    RawCandidate,
    check_family,
    check_identifier,
)

__all__ = ["ProviderContract"]

HOOK = "powerctx_candidate_providers"
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
BUDGETS = (64, 200, 1600, 8000)
MEBIBYTE = 1 << 20
TRIES = 5
"""How often it may be late: the machine may be busy with something else."""
HOSTILE = (
    "'; DROP TABLE item; --", "../../etc/passwd", "\x00", "a\u2028b", "\u202eevil", "</powerctx-context>", "😀",
    "{0} %s $1", "北京大学" * 500, "*",
)  # fmt: skip
READS = frozenset({"listing", "listings", "latest", "get", "history", "partitions", "fetch", "changes"})
"""Reads of a view that search nothing."""


class ProviderContract(Contract):
    """What every candidate provider must hold to.

    One that offers what lies in the store needs its name and nothing else::

        class TestTasks(ProviderContract):
            provider_name = "tasks"

    One that looks elsewhere gives the fixture :meth:`source`, which fills the source for the scope :attr:`scope_id`
    alone, and returns the settings that lead to it.

    Attributes:
        provider_name: name of the record under test.
        extra: plugin modules that are not installed.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        settings: as in ``powerctx.toml``, dotted name -> value.
        scope_id: where the source has something.
        absent: settings, over the others, with which the source is not there; none when it cannot be missing.
        unreachable: settings, over the others, with which asking the source fails; none when it cannot.
        secrets: what no error may hold, of *unreachable*.
        most: how many candidates it may offer.
        reads: how often it may read the store in one call.
        patience_s: how long an answer may take after its deadline has passed; one of five has to be in time.
    """

    guide = "docs/plugins/candidate-providers.md#when-a-test-fails"

    provider_name: ClassVar[str] = ""
    extra: ClassVar[Sequence[object]] = ()
    plugins: ClassVar[tuple[str, ...] | None] = None
    settings: ClassVar[Mapping[str, Any]] = {}
    scope_id: ClassVar[str] = "project:kit"
    absent: ClassVar[Mapping[str, Any]] = {}
    unreachable: ClassVar[Mapping[str, Any]] = {}
    secrets: ClassVar[tuple[str, ...]] = ()
    most: ClassVar[int] = 1000
    reads: ClassVar[int] = 6
    patience_s: ClassVar[float] = 0.5

    @pytest.fixture
    def source(self) -> Mapping[str, Any]:
        """Fill what the provider reads, if that is not the store, and give the settings that lead there."""
        return {}

    @pytest.fixture
    def items(self) -> Sequence[Item]:
        """Give what the store holds: by default the kit's evidence, all of it in :attr:`scope_id`, and a profile."""
        families = ("memory", "profile", "resource", "skill")
        return [
            attrs.evolve(item, scope_id=self.scope_id, artifact_id=f"{family}/{n}", updated_at=NOW, category="events")
            for family in families
            for n, item in enumerate(evidence(family))
        ]

    @pytest.fixture
    def ctx(self, items: Sequence[Item], source: Mapping[str, Any]) -> Iterator[Context]:
        """Give an open context with the provider, and something for it to offer."""
        if not self.provider_name:
            raise NotImplementedError(f"{type(self).__name__} needs the class attribute provider_name")
        with open_context(
            "memory://", settings={**self.settings, **source}, plugins=self.plugins, extra=tuple(self.extra)
        ) as ctx:
            ctx.put(items)
            ctx.sessions.set_overview("kit", "What the kit talks about.", scope_id=self.scope_id)
            yield ctx

    @pytest.fixture
    def provider(self, ctx: Context) -> Provider:
        """Give the provider."""
        found: Provider = ctx.host.part(HOOK, self.provider_name)
        return found

    def test_offered(self, ctx: Context, provider: Provider) -> None:
        """It gives an ``Offered`` of ``RawCandidate``s of the scope that was asked for; there is one at least."""
        offered = self._offered(ctx, provider)

        assert isinstance(offered, Offered), f"it gives {type(offered).__name__}"
        agree("types of candidates", {RawCandidate}, {type(each) for each in offered.candidates})
        agree("scopes of candidates", {self.scope_id}, {each.address.scope_id for each in offered.candidates})

    def test_identities(self, ctx: Context, provider: Provider) -> None:
        """Each candidate is offered once, under an id that a URI can hold; the family ``bootstrap`` is core's."""
        addresses = [each.address for each in self._candidates(ctx, provider)]
        for address in addresses:
            check_family("family", address.family)
            check_identifier("artifact_id", address.artifact_id, ARTIFACT_ID_BYTES)
            assert address.revision >= 1
            assert Address.parse(address.uri) == address

        agree("addresses that are offered twice", len(addresses), len(set(addresses)))
        if not ctx.host.own(HOOK, self.provider_name):
            assert "bootstrap" not in {address.family for address in addresses}

    def test_texts(self, ctx: Context, provider: Provider) -> None:
        """Texts are text that UTF-8 can hold, not blank, and as long as they say."""
        for each in self._candidates(ctx, provider):
            name = each.address.uri
            for text in (each.head, each.title or "", each.abstract or ""):
                assert isinstance(text, str), f"{name}: a text is of type {type(text).__name__}"
                assert text.encode(errors="replace") == text.encode(errors="surrogatepass"), f"{name}: lone surrogates"
            assert each.head.strip(), f"{name}: its text is blank"
            assert len(each.head.encode()) <= each.body_bytes, f"{name}: body_bytes is less than the text has"

    def test_among(self, ctx: Context, provider: Provider) -> None:
        """``among`` counts no fewer items than are offered of a family, in whole numbers."""
        offered = self._offered(ctx, provider)
        for family, count in offered.among.items():
            assert type(count) is int, f"among[{family!r}] is of type {type(count).__name__}"
            assert count >= sum(each.address.family == family for each in offered.candidates)

    def test_bounded(self, ctx: Context, provider: Provider) -> None:
        """However much there is, it offers no more than *most* candidates, and a mebibyte of text."""
        candidates = self._candidates(ctx, provider)

        assert len(candidates) <= self.most
        assert sum(len(each.head.encode(errors="replace")) for each in candidates) <= MEBIBYTE

    def test_same_again(self, ctx: Context, provider: Provider, source: Mapping[str, Any]) -> None:
        """The same state gives the same answer, in the same order: asked again, and from another instance."""
        first, again = self._offered(ctx, provider), self._offered(ctx, provider)
        agree("the answer when it is asked again", _told(first), _told(again))
        with self._another(source) as other:
            agree("answer of another instance", _told(first), _told(self._offered(ctx, other)))

    def test_nothing_there(self, ctx: Context, provider: Provider) -> None:
        """Of a scope of which nothing is known it offers nothing of another, and raises nothing."""
        offered = self._offered(ctx, provider, scope_id="project:nobody-ever")

        assert isinstance(offered, Offered)
        agree("scopes", set(), {each.address.scope_id for each in offered.candidates} - {"project:nobody-ever"})

    def test_absent_source(self, ctx: Context, source: Mapping[str, Any]) -> None:
        """A source that is not there is absent: an empty ``Offered``, no error."""
        if not self.absent:
            return
        with self._another({**source, **self.absent}) as other:
            offered = self._offered(ctx, other)
        assert isinstance(offered, Offered)
        agree("candidates of a source that is not there", 0, len(offered.candidates))

    def test_errors_tell_no_secret(self, ctx: Context, source: Mapping[str, Any]) -> None:
        """What it raises when its source fails holds no secret, wherever in the chain of causes."""
        if not self.unreachable:
            return
        with (
            self._another({**source, **self.unreachable}) as other,
            pytest.raises(Exception) as raised,  # noqa: PT011 - any error may tell
        ):
            self._offered(ctx, other)
        texts, error = [], raised.value
        while error is not None:
            texts.append(f"{error!s} {error!r}")
            error = error.__cause__ or error.__context__  # type: ignore[assignment]  # the chain's end is None
        agree("secrets in errors", [], [secret for secret in self.secrets if any(secret in text for text in texts)])

    @pytest.mark.parametrize("lifecycle", LIFECYCLES)
    def test_every_lifecycle(self, ctx: Context, provider: Provider, lifecycle: str) -> None:
        """Whatever the lifecycle, and in its own mode with a query, with or without a session and an actor."""
        more: tuple[dict[str, Any], ...] = (
            {},
            {"session_id": "kit"},
            {"actor": "ann", "peer_scope": "actor"},
            {"mode": self.provider_name, "query": "release notes"},
        )
        for fields in more:
            assert isinstance(self._offered(ctx, provider, lifecycle=lifecycle, **fields), Offered)

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12])[1:-1])
    def test_hostile_request(self, ctx: Context, provider: Provider, text: str) -> None:
        """A query and an actor are text, whatever they look like."""
        fields: dict[str, Any] = {"mode": self.provider_name, "query": text, "actor": text}

        assert isinstance(self._offered(ctx, provider, **fields), Offered)

    def test_request_stays(self, ctx: Context, provider: Provider) -> None:
        """What a call knows of scope and session is shared with the other providers: it is only read."""
        counts = {"memory": 3, "profile": 1}
        self._offered(ctx, provider, counts=lambda: counts)

        agree("counts after asking", {"memory": 3, "profile": 1}, counts)

    def test_answers_are_not_shared(self, ctx: Context, provider: Provider) -> None:
        """Whoever changes an answer does not change the next one."""
        before = _told(self._offered(ctx, provider))
        offered = self._offered(ctx, provider)
        for part in (offered.candidates, offered.among):
            if hasattr(part, "clear"):
                part.clear()

        agree("the next answer", before, _told(self._offered(ctx, provider)))

    def test_writes_nothing(self, ctx: Context, provider: Provider) -> None:
        """Asking changes nothing in the store."""
        with ctx.store.catalogue.snapshot(Deadline()) as view:
            before = view.changes()
        self._offered(ctx, provider)
        with ctx.store.catalogue.snapshot(Deadline()) as view:
            agree("changes of the store after asking", before, view.changes())

    def test_reads_little(self, ctx: Context, provider: Provider) -> None:
        """It searches and embeds nothing, and reads the store *reads* times at most."""
        asked: list[str] = []
        with ctx.store.catalogue.snapshot(Deadline()) as view:
            watched: Any = _Watched(view, asked)
            embed: Any = asked.append  # gives no vector, as nothing embeds for a provider
            provider.candidates(self._request(ctx, view), Call(deadline=Deadline(), catalogue=watched, embed=embed))

        agree("what it asked beside reads", [], [name for name in asked if name not in READS])
        assert len(asked) <= self.reads

    def test_passed_deadline(self, ctx: Context, provider: Provider) -> None:
        """After the deadline it answers, or says by a ``TimeoutError`` or ``StoreError`` that it is late: at once.

        At once, that is: in *patience_s*.  Shorter waiting cannot be told from a machine that is busy.
        """
        answers: list[object] = []

        def late() -> None:
            try:
                answers.append(self._offered(ctx, provider, deadline=Deadline.after(-1.0)))
            except BaseException as error:  # noqa: BLE001 - judged below
                answers.append(error)

        for _ in range(TRIES):
            thread = threading.Thread(target=late, daemon=True)
            thread.start()
            thread.join(self.patience_s)
            if not thread.is_alive():
                assert isinstance(answers[-1], Offered | TimeoutError | StoreError), repr(answers[-1])
                return
        pytest.fail(
            f"{TRIES} times your part is still busy {self.patience_s} s after the deadline; look at call.deadline, and "
            "give what you wait for the time that is left"
        )

    def test_asked_at_once(self, ctx: Context, provider: Provider) -> None:
        """Callers on several threads get the answers to their own requests."""
        scopes = (self.scope_id, "project:nobody-ever")
        alone = {scope: _told(self._offered(ctx, provider, scope_id=scope)) for scope in scopes}
        barrier = threading.Barrier(8)

        def ask(number: int) -> bool:
            barrier.wait(60)
            names = [scopes[(number + step) % 2] for step in range(20)]
            return all(_told(self._offered(ctx, provider, scope_id=name)) == alone[name] for name in names)

        with ThreadPoolExecutor(8) as threads:
            agree("callers that got their own answers", [True] * 8, list(threads.map(ask, range(8))))

    def test_delivered(self, ctx: Context) -> None:
        """The whole way: in its own mode it fills a pack that is never over budget, and that any XML parser reads."""
        shown = {}
        for budget in BUDGETS:
            pack = ctx.search(scope_id=self.scope_id, mode=self.provider_name, max_tokens=budget)
            assert isinstance(pack, ContextPack)
            assert pack.stats.used_tokens <= budget
            if pack.rendered:
                assert len(ET.fromstring(pack.rendered)) == len(pack.entries)  # noqa: S314 - our own text
            shown[budget] = len(pack.entries)

        assert shown[BUDGETS[-1]] > 0

    @contextmanager
    def _another(self, more: Mapping[str, Any]) -> Iterator[Provider]:
        """Give another instance of the provider, made with *more* settings."""
        host = Host.compose(structure({**self.settings, **more}), allow=self.plugins, extra=tuple(self.extra))
        try:
            yield host.part(HOOK, self.provider_name)
        finally:
            host.close()

    def _candidates(self, ctx: Context, provider: Provider) -> Sequence[RawCandidate]:
        return self._offered(ctx, provider).candidates

    def _offered(self, ctx: Context, provider: Provider, *, deadline: Deadline | None = None, **fields: Any) -> Offered:
        limit = deadline or Deadline()
        with ctx.store.catalogue.snapshot(Deadline()) as view:
            return provider.candidates(self._request(ctx, view, **fields), Call(deadline=limit, catalogue=view))

    def _request(self, ctx: Context, view: Snapshot, **fields: Any) -> ProviderRequest:
        scope_id = fields.get("scope_id", self.scope_id)
        counts = {each.family: count for each, count in view.partitions(scope_id).items()}
        session = ctx.sessions.show("kit", scope_id=scope_id) if fields.get("session_id") else None
        asked: dict[str, Any] = {
            "scope_id": scope_id, "mode": "bootstrap", "lifecycle": "startup", "now": NOW, "max_tokens": 1600,
            "counts": lambda: counts, "session": lambda: session,
        }  # fmt: skip
        return ProviderRequest(**{**asked, **fields})


class _Watched:
    """A view that notes what is asked of it."""

    def __init__(self, view: Snapshot, asked: list[str]) -> None:
        self._view, self._asked = view, asked

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._view, name)

        def noted(*arguments: Any, **fields: Any) -> Any:
            self._asked.append(name)
            return method(*arguments, **fields)

        return noted


def _told(offered: Offered) -> tuple[Any, ...]:
    """Return what an answer says."""
    return tuple(offered.candidates), offered.detail, offered.whole, dict(offered.among)
