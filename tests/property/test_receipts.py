"""Laws of receipts over any selection: version 2 fits, both come back from JSON, and order makes no difference."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import attrs
from hypothesis import given, strategies as st

from powerctx_core import wire
from powerctx_core.receipt import v1, v2
from powerctx_core.receipt.making import Receipt, make as made
from powerctx_core.receipt.parts import RecallRound, ReceiptError, encoded, plain
from powerctx_core.receipt.run import Policy, Run, Search, Selection, Used
from powerctx_core.receipt.v2 import ReceiptV2, SlotUse
from powerctx_core.types import ARTIFACT_ID_BYTES, SCOPE_ID_BYTES, Address

_POLICY = Policy(policy_id="powercontext.recall.v2", policy_digest="sha256:" + "f" * 64)
_FAMILIES = ("memory", "topic-memory", "experience", "profile")
_CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"])
_SCRIPTS = st.sampled_from(
    ["a", "é", "Ж", "字", "資", "か", "한", "ก", "ا", "👩‍🚀", "e\u0301", "\u202e", "\u2028", "/", " "]
)
_REASONS = st.sampled_from(v2.Reason.__args__)  # type: ignore[attr-defined]  # of a Literal
_STAGES = ("retrieve", "rerank", "assess", "expand", "plan", "read", "render", "rewrite")


def make(run: Run, version: int) -> Receipt:
    """Make a receipt with some id."""
    return made(run, version, str(uuid.uuid4()))


def _longest(number: int, piece: str, limit: int) -> str:
    """Return the longest id within *limit* bytes that is made of *piece*, and no other's."""
    head = f"{number:02d}"
    return head + piece * ((limit - len(head)) // len(piece.encode()))


@st.composite
def _ids(draw: st.DrawFn, limit: int) -> Any:
    """Give a function from numbers to ids: of one script at its longest, or anything at all."""
    if draw(st.booleans()):
        piece = draw(_SCRIPTS)
        return lambda number: _longest(number, piece, limit)
    tail = draw(st.text(_CHARACTERS, max_size=limit - 2).filter(lambda text: len(text.encode()) <= limit - 2))
    return lambda number: f"{number:02d}{tail}"


@st.composite
def _runs(draw: st.DrawFn, most: int = 64) -> Run:
    """Give the record of any call that the limits of requests allow."""
    scope, artifact = draw(_ids(SCOPE_ID_BYTES)), draw(_ids(ARTIFACT_ID_BYTES))
    number = draw(st.integers(0, most))
    scopes = draw(st.integers(1, 32))
    families = draw(st.lists(st.sampled_from(_FAMILIES), min_size=1, unique=True))
    split = draw(st.booleans())
    listed = draw(st.integers(0, number)) if split else 0
    surface = "prepare" if split else draw(st.sampled_from(["prepare", "search", "bootstrap"]))
    detail = draw(st.sampled_from(["uri", "abstract", "overview", "full"])) if surface != "prepare" else None
    selected = tuple(
        Selection(
            address=Address(scope(n % scopes), families[n % len(families)], artifact(n), (1 << 31) - 1),
            rendered_bytes=32_768,
            truncated=draw(st.booleans()),
            part="tools" if n >= number - listed else "inject",
            detail=detail or ("abstract" if n >= number - listed else "full"),
        )
        for n in range(number)
    )
    outcome = draw(st.sampled_from(["completed", "expansion_failed"]))
    return Run(
        surface=surface,
        query=draw(st.text(_CHARACTERS, max_size=30)),
        content="x" if number else None,
        outcome="delivered",
        policy=_POLICY,
        gate=draw(st.sampled_from([None, _POLICY])),
        split=split,
        partial=draw(st.booleans()),
        budgets=tuple(
            Used(unit=unit, requested=32_768, used=32_768)
            for unit in ("items", "bytes", "chars", "tokens", "inject_tokens")
        ),
        rounds=tuple(RecallRound(round=n, outcome=outcome, retained=n == 0) for n in (0, 1, 2)),  # type: ignore[arg-type]  # numbers of rounds
        searches=tuple(
            Search(round=0, family=family, mode=mode, outcome="completed", fallback_reason="inference_unavailable")
            for family in families
            for mode in ("hybrid", "fts")
            for _ in range(scopes)
        ),
        selected=selected,
        omitted=draw(st.dictionaries(st.tuples(st.sampled_from(families), _REASONS), st.integers(1, 9999))),
        stages=tuple((stage, 1234.5678) for stage in _STAGES),
        lifecycle="compact" if surface == "bootstrap" else None,
        slots=tuple(_slots(draw)) if surface == "bootstrap" else (),
    )


def _slots(draw: st.DrawFn) -> Iterator[SlotUse]:
    for n in range(draw(st.integers(0, 8))):
        yield SlotUse(
            slot=f"a-long-name-of-a-slot-{n}",
            source="a-long-name-of-a-provider",
            outcome=draw(st.sampled_from(v2.SlotOutcome.__args__)),  # type: ignore[attr-defined]  # of a Literal
            share=draw(st.floats(0.0, 1.0)),
            room=32_000,
            carried=32_000,
            used=32_000,
            offered=1000,
            entries=1000,
            left_out=draw(st.none() | st.integers(0, 1 << 40)),
            content_hash=draw(st.none() | st.just(_POLICY.policy_digest)),
        )


@given(_runs())
def test_version_2_always_fits(run: Run) -> None:
    """Whatever is selected, with the longest ids of any script: there is a receipt, and it is within its size."""
    receipt = make(run, 2)
    assert isinstance(receipt, ReceiptV2)

    assert len(encoded(plain(receipt))) <= v2.most_bytes(len(run.selected))
    assert receipt.addresses == tuple(selection.address for selection in run.selected)


def test_the_longest_ids_in_quotation_marks_fit() -> None:
    """What JSON must escape doubles an id: 64 of them fit, or 32 such scopes, though not both at once."""
    for scope, artifact in (("s", '"'), ('"', "a"), ("\\", "字")):
        selected = tuple(
            Selection(
                address=Address(
                    _longest(n % 32, scope, SCOPE_ID_BYTES), "memory", _longest(n, artifact, ARTIFACT_ID_BYTES), 1 << 30
                ),
                rendered_bytes=32_768, truncated=True, part="tools", detail="abstract",
            )
            for n in range(64)
        )  # fmt: skip
        run = Run(query="q", content="x", outcome="delivered", split=True, policy=_POLICY, gate=_POLICY,
                  rounds=(RecallRound(round=0, outcome="completed", retained=True),), selected=selected)  # fmt: skip
        make(run, 2)


@given(_runs(most=40))
def test_receipts_come_back_from_json(run: Run) -> None:
    """Both versions are the same value after a round trip; version 1 is within its own limits, or is none at all."""
    receipt = make(run, 2)
    assert receipt == wire.structure(ReceiptV2, json.loads(json.dumps(wire.to_json(receipt))))
    try:
        first = make(run, 1)
    except ReceiptError:
        return
    form = wire.to_json(first)
    assert first == wire.structure(v1.ReceiptV1, json.loads(json.dumps(form)))
    assert len(encoded(form)) <= v1.MOST_BYTES
    assert [Address.from_receipt(item["artifact_address"]) for item in form["selected"]] == [
        selection.address for selection in run.selected
    ]


@given(_runs(most=12), st.randoms())
def test_the_order_of_events_is_no_difference(run: Run, random: Any) -> None:
    """Searches and omissions may be noted in any order; only what was delivered has one."""
    searches, omitted = list(run.searches), list(run.omitted.items())
    random.shuffle(searches)
    random.shuffle(omitted)
    turned = attrs.evolve(run, searches=tuple(searches), omitted=dict(omitted))

    assert wire.canonical(make(run, 2)) == wire.canonical(make(turned, 2))
