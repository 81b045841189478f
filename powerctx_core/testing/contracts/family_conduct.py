"""How a family behaves: it leaves alone what it is given, comes in time, fears no query, harms nobody."""

from __future__ import annotations

import copy
import json
import threading
from typing import Any

import attrs
import pytest

from powerctx_core.errors import StoreError
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.family_open import OpenFamilyContract
from powerctx_core.testing.question import BOTH, Question, addresses, spoil, told, values, words
from powerctx_core.types import Address, Deadline, Filters, Item, Pool

__all__ = ["ConductContract"]

HOSTILE = (
    '"', "'", "*", "%", "\\", "(", ")", "^release", "rel*", "release AND store", "NOT release", "NEAR(release store)",
    "title:store", "-release +store", "'; DROP TABLE item; --", "' OR '1'='1", "{0} %s $1 :query @p0 ?1", "\x00",
    "store\x00release", "\ufeffrelease", "\u202erelease\u202c", "a\u2028b\u0085c", "ｒｅｌｅａｓｅ", "</powerctx>",
    "🚀", "\u0301" * 50, "?!", '"release notes" "', "../../etc/passwd", "null",
)  # fmt: skip
LONG = ("release " * 1024, "a" * 8192, "北京大学火锅" * 1365, '"release" ' * 800, "😀" * 8192, "(" * 8192)

TRIES = 5
"""How often it may be late: the machine may be busy with something else."""


class ConductContract(OpenFamilyContract):
    """It is asked on the terms of its port, and by the whole of core, beside others."""

    @pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query[:12])[1:-1])
    def test_hostile_query(self, ask: Question, query: str) -> None:
        """A query is words, whatever it looks like: it is answered."""
        request = ask.request(query, weights=BOTH)

        ask.check(ask.answer(request), request)

    @pytest.mark.parametrize("query", LONG, ids=lambda query: ascii(query[:8])[1:-1])
    def test_long_query(self, ask: Question, query: str) -> None:
        """The longest query that a request allows is answered."""
        request = ask.request(query, weights=BOTH)

        ask.check(ask.answer(request), request)

    def test_request_stays(self, ask: Question) -> None:
        """Request and call are only read."""
        request = ask.request(ask.all(), weights=BOTH, filters=Filters(tags=("store",)))
        before = copy.deepcopy(values(request))
        with ask.ctx.store.catalogue.snapshot(Deadline()) as snapshot:
            call = ask.call(snapshot, deadline=Deadline())
            held = values(call)
            ask.asked(request, call)

            assert values(call) == held
        assert values(request) == before

    def test_answers_are_not_shared(self, ask: Question) -> None:
        """Whoever changes an answer does not change the next one."""
        before = [told(pool) for _, pool in ask.every()]
        for _, pool in ask.every():
            spoil(pool)

        assert [told(pool) for _, pool in ask.every()] == before

    def test_writes_nothing(self, ask: Question) -> None:
        """Asking changes nothing in the store."""
        before = ask.changes(), dict(ask.ctx.partitions())
        list(ask.every())
        ask.prepare(ask.all(), ask.scope)

        agree("changes and partitions of the store after asking", before, (ask.changes(), dict(ask.ctx.partitions())))

    def test_passed_deadline(self, ask: Question) -> None:
        """After the deadline it answers, or says by a ``TimeoutError`` or ``StoreError`` that it is late.

        At once, that is: in *patience_s*.  Shorter waiting cannot be told from a machine that is busy.
        """
        self._check_in_time(ask, -1.0)

    def test_deadline_on_the_way(self, ask: Question) -> None:
        """So it does when the deadline passes while it looks."""
        self._check_in_time(ask, 0.05)

    def _check_in_time(self, ask: Question, seconds: float) -> None:
        request = ask.request(ask.all(), weights=BOTH)
        outcome = self._outcome(ask, request, seconds)
        if not isinstance(outcome, TimeoutError | StoreError):
            ask.check(outcome, request)

    def _outcome(self, ask: Question, request: Any, seconds: float) -> object:
        """Return what the family returns or raises, *seconds* before a deadline."""
        answers: list[object] = []

        def late() -> None:
            try:
                answers.append(ask.answer(request, deadline=Deadline.after(seconds)))
            except BaseException as error:  # noqa: BLE001 - judged by the test
                answers.append(error)

        for _ in range(TRIES):
            thread = threading.Thread(target=late, daemon=True)
            thread.start()
            thread.join(max(0.0, seconds) + self.patience_s)
            if not thread.is_alive():
                return answers[-1]
        pytest.fail(
            f"{TRIES} times your part is still busy {self.patience_s} s after the deadline; look at call.deadline, and "
            "give what you wait for the time that is left"
        )

    def test_offers(self, ask: Question) -> None:
        """What it offers while it waits is as good as what it returns: whole channels, the same members, their texts.

        Only cosines, and channels that are said to be late, may be missing.
        """
        for request in [request for request, _ in ask.every()]:
            offers: list[Pool] = []
            returned = ask.answer(request, deadline=Deadline.after(60.0), offer=offers.append)
            details = {each.address: each for each in returned.candidates.values()}
            for pool in offers:
                ask.check(pool, request)
                ask.check_texts(pool)
                for channel in pool.channels.keys() - pool.late:
                    agree(f"offered members of {channel}", addresses(returned, channel), addresses(pool, channel))
                for each in pool.candidates.values():
                    assert each.address in details, f"{each.address.uri} is offered, and not in the answer"
                    full = details[each.address]
                    agree("an offered member", full, attrs.evolve(each, cosine=each.cosine or full.cosine))
                if "fts" in pool.channels:
                    agree("offered statistics, beside those of the answer", returned.statistics, pool.statistics)

    def test_delivered(self, ask: Question) -> None:
        """``prepare`` delivers its evidence within the budget, each entry with family, id and revision."""
        name = ask.spec.name
        for item in ask.deliverable():
            prepared = ask.prepare(words(item), item.scope_id, max_bytes=2000)
            content = prepared.content or ""
            cited = [json.loads(line) for line in content.splitlines() if line.startswith('{"ref"')]
            addresses = [Address(item.scope_id, *entry["ref"]) for entry in cited]
            assert prepared.diagnostics.outcome == "delivered", item.artifact_id
            assert item.artifact_id in {address.artifact_id for address in addresses}
            assert {address.family for address in addresses} == {name}
            assert len(content.encode()) == prepared.content_bytes <= 2000

    def test_others_unharmed(self, ask: Question) -> None:
        """Beside it another family finds what it finds alone."""
        query = ask.all()
        texts = [item.text[:200] for item in ask.items if item.scope_id == ask.scope]
        beside = "kit-beside"
        ask.ctx.put(
            [Item(scope_id=ask.scope, family=beside, artifact_id=f"b{n}", text=each) for n, each in enumerate(texts)]
        )
        theirs = ask.beside(query, beside)
        both = ask.beside(query, beside, ask.spec.name)

        assert theirs
        assert {address for address in both if address.family == beside} == theirs
        assert {address.family for address in both} == {beside, ask.spec.name}
