"""The gate at its edges: the source's own example, empty and full requests, odd queries, and what a call costs."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

import powerctx_core as powerctx
from powerctx_core import EmbedderSpec, EmbeddingProfile, EmbedRequest, Item, RendererSpec, hookimpl
from powerctx_core.recall.policy import COMPATIBLE, POWERCTX
from powerctx_core.render.prepared import Prepared
from powerctx_core.types import RecallEffort

QUERY = "alpha beta gamma delta"


def items(*texts: str, scope: str = "s", family: str = "memory", start: int = 0) -> list[Item]:
    """Make one item a text."""
    return [
        Item(scope_id=scope, family=family, artifact_id=f"{scope}{number:03}", text=text)
        for number, text in enumerate(texts, start)
    ]


class Angles:
    """An embedder in a plane: a text that says ``cos=0.2`` has that cosine to every query; it counts its texts."""

    profile = EmbeddingProfile(fingerprint="angles-1", dimensions=2, languages=("en", "zh"), noise=0.1, match=0.9)

    def __init__(self) -> None:
        self.texts = 0

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Return a vector a text."""
        self.texts += len(request.texts)
        return [self._vector(text) for text in request.texts]

    def _vector(self, text: str) -> bytes:
        found = re.search(r"cos=(-?[0-9.]+)", text)
        cosine = float(found[1]) if found else 1.0
        return struct.pack("<2f", cosine, math.sqrt(1.0 - cosine * cosine))


def opened(
    url: str = "memory://",
    *,
    embedder: Angles | None = None,
    more: Sequence[object] = (),
    gates: Sequence[Path] = (),
) -> powerctx.Context:
    """Open a store, with the embedder if there is one, and the gate policies of files."""

    @hookimpl
    def powerctx_embedders() -> list[EmbedderSpec]:
        return [EmbedderSpec(name="angles", factory=lambda settings: embedder)]

    return powerctx.open(
        url,
        plugins=() if url == "memory://" else ["sqlite"],
        extra=[SimpleNamespace(__name__="angles", powerctx_embedders=powerctx_embedders), *more],
        embedder=None if embedder is None else "angles",
        settings={
            "recall": {"families": ["memory"], "gate_files": [*map(str, gates)]},
            "retrieval": {"embedding_timeout_s": 60.0},
        },
    )


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """A store in memory, by words alone."""
    with opened() as context:
        yield context


def effort_of(prepared: powerctx.PreparedContext) -> RecallEffort:
    """Return what the gate did."""
    effort = prepared.diagnostics.effort
    assert effort is not None
    assert effort.rounds == 1 + len(effort.expansion_actions) == len(effort.candidates_by_round)
    assert effort.dropped_items == effort.dropped_below_min_bytes + effort.dropped_no_fitting_truncation
    assert (0, 0, 0) == (effort.added_searches, effort.added_embeddings, effort.added_generation_calls)
    return effort


def _sixty_four(*cosines: float) -> list[Item]:
    rest = [0.05] * (64 - len(cosines))
    return items(*(f"number {place} cos={cosine}" for place, cosine in enumerate([*cosines, *rest])))


def test_the_worked_example_of_the_source() -> None:
    """1 of 64 is admitted, which is thin though bytes are left; round 1 adds 4 of the same pool within the 8000."""
    embedder = Angles()
    with opened(embedder=embedder) as context:
        context.put(_sixty_four(0.9, 0.25, 0.2, 0.18, 0.16))
        off = context.prepare("query", scope_id="s", policy=COMPATIBLE.policy_id, max_bytes=8000)
        embedder.texts = 0
        on = context.prepare("query", scope_id="s", gate="v2", max_bytes=8000)
    effort = effort_of(on)

    assert ((64, 1), 1) == (
        (off.diagnostics.counts[0].retrieved, off.diagnostics.counts[0].admitted),
        len(off.selected),
    )
    assert (("admission",), (1, 5), 5) == (effort.expansion_actions, effort.candidates_by_round, len(on.selected))
    assert (64, 5) == (effort.admission_by_family[0].retrieved, effort.admission_by_family[0].admitted)
    assert (0, 0) == (effort.truncated_items, effort.dropped_items)
    assert off.content_bytes < on.content_bytes <= 8000
    assert off.selected == on.selected[:1]
    assert 1 == embedder.texts


def test_its_flat_variant() -> None:
    """A round whose own floor admits none is committed flat, and the next one is not begun when it may not run."""
    with opened(embedder=Angles()) as context:
        context.put(_sixty_four(0.9, 0.12, 0.11))
        on = context.prepare("query", scope_id="s", gate="v2")
    effort = effort_of(on)

    assert ("admission", "policy-floor") == effort.expansion_actions
    assert (1, 1, 3) == effort.candidates_by_round


def test_its_flat_variant_of_one_round(tmp_path: Path) -> None:
    """``rounds 2``, ``("admission",)`` and flat counts: what would pass came too late in the round to pass."""
    file = tmp_path / "gate.toml"
    floors = "[[expansion_floors]]\ncosine = 0.10\n"
    file.write_text(f'policy_id = "acme.one"\nmax_rounds = 1\n{floors}')
    with opened(embedder=Angles(), gates=[file]) as context:
        # What has a neighbour's vector, but is admitted by its word already, is an entry to recover and no candidate.
        context.put([*items("query cos=0.12"), *_sixty_four()[1:]])
        on = context.prepare("query", scope_id="s", gate="acme.one", policy=COMPATIBLE.policy_id)
    effort = effort_of(on)

    assert (2, ("admission",), (1, 1)) == (effort.rounds, effort.expansion_actions, effort.candidates_by_round)
    assert (64, 1) == (effort.admission_by_family[0].retrieved, effort.admission_by_family[0].admitted)


def test_a_request_for_no_section(ctx: powerctx.Context) -> None:
    """It is a plain empty answer; nothing is judged."""
    ctx.put(items("alpha"))
    on, off = (ctx.prepare(QUERY, scope_id="s", sections=[], gate=gate) for gate in ("v2", "off"))

    assert on.diagnostics.effort is None
    assert (off.status, off.content) == (on.status, on.content) == ("empty", None)


def test_a_request_for_a_profile_alone(ctx: powerctx.Context) -> None:
    """A profile is not searched by words: it is never expanded."""
    ctx.put([*items("Lin likes tea.", family="profile"), *items("alpha", start=1)])
    asked = {"scope_id": "s", "sections": [{"family": "profile", "limit": 1}]}
    on = ctx.prepare(QUERY, **asked, gate="v2")

    assert ctx.prepare(QUERY, **asked).content == on.content
    assert () == effort_of(on).expansion_actions


@pytest.mark.parametrize("asked", [{"families": ["memory"]}, {"sections": [{"family": "memory", "limit": 4}]}])
def test_a_named_family_set_is_never_widened(ctx: powerctx.Context, asked: dict[str, Any]) -> None:
    """However thin it is, what other families hold stays away."""
    ctx.put([*items("alpha beta"), *items(*[f"{QUERY} {n}" for n in range(9)], family="experience", start=1)])
    on = ctx.prepare(QUERY, scope_id="s", gate="v2", **asked)

    assert {"memory"} == {address.family for address in on.selected}
    assert "thin-candidates" == effort_of(on).reason


@pytest.mark.parametrize("policy", [COMPATIBLE.policy_id, POWERCTX.policy_id])
@pytest.mark.parametrize("query", ["!!! ... ???", "\u0301\u0302", "\u200b . \u200b"])
def test_a_query_without_an_analysable_term(ctx: powerctx.Context, query: str, policy: str) -> None:
    """Nothing lexical can be missed; with the gate it is answered as without it."""
    ctx.put(items("alpha", "beta"))
    on = ctx.prepare(query, scope_id="s", gate="v2", policy=policy)
    effort = effort_of(on)

    assert ctx.prepare(query, scope_id="s", policy=policy).content == on.content
    assert effort.signals is not None
    assert 1.0 == effort.signals.lexical_overlap


@pytest.mark.parametrize("unit", ["word ", "字", "字词", "北京的火锅很好吃，", "a", "😀"])
@pytest.mark.parametrize("policy", [COMPATIBLE.policy_id, POWERCTX.policy_id])
def test_the_longest_query(ctx: powerctx.Context, unit: str, policy: str) -> None:
    """8192 characters, Chinese included, are judged and expanded as any other query; one more is refused."""
    query = ("alpha 火锅 " + unit * 8192)[:8191].ljust(8192, "z")
    ctx.put(items("alpha one", "喜欢吃火锅", "something else"))
    on = ctx.prepare(query, scope_id="s", gate="v2", policy=policy)

    assert effort_of(on).reason
    assert on.content_bytes <= 8000
    with pytest.raises(powerctx.InvalidRequest, match="8193 characters"):
        ctx.prepare(query + "z", scope_id="s", gate="v2")


@pytest.mark.parametrize("policy", [COMPATIBLE.policy_id, POWERCTX.policy_id])
def test_the_smallest_budget(ctx: powerctx.Context, policy: str) -> None:
    """512 bytes hold something, and a thin answer there is the budget's doing, not recall's."""
    ctx.put(items("alpha beta " + "long " * 300, *[f"gamma {'x' * 400} {n}" for n in range(9)]))
    on = ctx.prepare(QUERY, scope_id="s", gate="v2", policy=policy, max_bytes=512)

    assert "ready" == on.status
    assert on.content_bytes <= 512
    assert ("budget-floor", 1) == (effort_of(on).reason, effort_of(on).rounds)


def test_the_same_text_in_two_scopes_is_two_sources(ctx: powerctx.Context) -> None:
    """Short ids may be the same in two scopes: they are two identities, and each is delivered once."""
    ctx.put(Item(scope_id=scope, artifact_id="same", text=f"alpha beta in {scope}") for scope in ("s", "r"))
    on = ctx.prepare(QUERY, scope_id="s", references=["r"], gate="v2")
    effort = effort_of(on)

    assert effort.signals is not None
    assert (2, 2) == (effort.signals.candidate_count, effort.signals.distinct_sources)
    assert {"s", "r"} == {address.scope_id for address in on.selected}
    assert 2 == len(on.selected)


def test_a_full_family_changes_its_members_and_never_grows() -> None:
    """Rounds of 16 hits that differ build: nothing more than the ceiling, and a newcomer stands for the last one."""
    texts = [f"alpha beta {'one ' * n}" for n in range(16)]
    with opened(embedder=Angles()) as context:
        context.put([*items(*(f"{text} cos=0.31" for text in texts)), *items("delta delta delta cos=0.29", start=16)])
        off = context.prepare(QUERY, scope_id="s", policy=COMPATIBLE.policy_id, max_items=64, max_bytes=32768)
        on = context.prepare(QUERY, scope_id="s", gate="v2", max_items=64, max_bytes=32768)
    effort = effort_of(on)

    assert (("admission",), (16, 17)) == (effort.expansion_actions, effort.candidates_by_round)
    assert 8 == len(off.selected) == len(on.selected)
    assert (17, 17) == (effort.admission_by_family[0].retrieved, effort.admission_by_family[0].admitted)


def test_no_round_without_anything_to_recover(ctx: powerctx.Context) -> None:
    """A thin answer whose pools reject nothing is not looked at again; nor is one whose rest no floor would let in."""
    ctx.put(items("alpha beta"))
    all_in = effort_of(ctx.prepare(QUERY, scope_id="s", gate="v2"))
    with opened(embedder=Angles()) as context:
        context.put(items("alpha beta gamma cos=0.9", *(f"number {place} cos=0.05" for place in range(9))))
        none_left = effort_of(context.prepare(QUERY, scope_id="s", gate="v2"))

    for effort in (all_in, none_left):
        assert ("thin-candidates", (), (1,), 0) == (
            effort.reason,
            effort.expansion_actions,
            effort.candidates_by_round,
            effort.recoverable,
        )


@pytest.mark.parametrize("policy", [COMPATIBLE.policy_id, POWERCTX.policy_id])
def test_what_is_rejected_takes_no_room_from_what_is_admitted(ctx: powerctx.Context, policy: str) -> None:
    """Of a pool whose best members are all rejected the only valid one, ranked behind them, is delivered."""
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    rejected = [f"{word} {word} {word} n{place}" for word in words for place in range(7)]
    valid = " ".join([*words[:2], *["filler"] * 300])
    ctx.put(items(*rejected, valid))
    query = " ".join(words)
    found = ctx.find(query, scope_id="s", policy=policy, limit=64)
    prepared = ctx.prepare(query, scope_id="s", policy=policy, max_bytes=32768, max_items=64)

    assert ["s056"] == [hit.address.artifact_id for hit in found.hits]
    assert ["s056"] == [address.artifact_id for address in prepared.selected]
    counts = prepared.diagnostics.counts[0]
    assert (57, 1) == (counts.retrieved, counts.admitted)


@pytest.mark.parametrize("gate", ["off", "v2"])
def test_an_unrelated_query_is_answered_with_nothing_unless_a_gate_asks_for_it(gate: str) -> None:
    """Under our policy what the model holds for noise is found by no vector; the floors of its rounds let it in."""
    with opened(embedder=Angles()) as context:
        context.put(items(*(f"number {place} cos=0.{place:02}" for place in (1, 5, 9))))
        prepared = context.prepare("omega psi", scope_id="s", policy=POWERCTX.policy_id, gate=gate)

    first = prepared.diagnostics.counts[0]
    assert (3, 0 if gate == "off" else 3) == (first.retrieved, first.admitted)
    assert ("below_threshold" if gate == "off" else "delivered") == prepared.diagnostics.outcome


MENDED = """
policy_id = "acme.mended.v1"
min_candidates = 1
min_top_gap = 0.0
min_lexical_overlap = 0.0
"""


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        ("thin-candidates", ["alpha beta gamma delta cos=0.95"]),
        ("weak-top-1", [f"alpha beta gamma delta {place} cos=0.69" for place in range(4)]),
        ("weak-lexical", ["nothing shared cos=0.92", "nor here cos=0.5"]),
    ],
)
def test_what_v2_gets_wrong_by_contract_another_policy_need_not(tmp_path: Path, reason: str, texts: list[str]) -> None:
    """One perfect hit, four that are equally strong, a paraphrase: a file of thresholds judges them as enough."""
    file = tmp_path / "mended.toml"
    file.write_text(MENDED, encoding="utf-8")
    with opened(embedder=Angles(), gates=[file]) as context:
        context.put(items(*texts))
        asked = {"scope_id": "s", "policy": COMPATIBLE.policy_id}
        v2, mended = (effort_of(context.prepare(QUERY, **asked, gate=gate)) for gate in ("v2", "acme.mended.v1"))

    assert (reason, False) == (v2.reason, v2.sufficient)
    assert ("sufficient", True, "acme.mended.v1") == (mended.reason, mended.sufficient, mended.policy_id)


def test_words_that_hardly_match_stand_behind_what_vectors_found() -> None:
    """Under our policy the best of weak words is not worth more than what was there by meaning."""
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    near = items(*(f"number {place} cos=0.{place}" for place in range(9, 4, -1)))
    with opened(embedder=Angles()) as context:
        context.put([*near, *items(*(f"{word} cos=0.05" for word in words), start=5)])
        asked = {"scope_id": "s", "policy": POWERCTX.policy_id, "max_items": 20}
        off = context.prepare(" ".join(words), **asked)
        on = context.prepare(" ".join(words), **asked, gate="v2")

    assert [item.artifact_id for item in near] == [address.artifact_id for address in off.selected]
    assert off.selected == on.selected[: len(near)]
    assert len(near) + len(words) == len(on.selected)


def test_a_scope_without_vectors_is_judged_by_words(tmp_path: Path) -> None:
    """The mode is never forced: a scope whose items have no vector gives no score signals, and expands by words."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with opened(url) as context:
        context.put(items("alpha beta", "gamma", "delta"))
    with opened(url, embedder=Angles()) as context:
        on = context.prepare(QUERY, scope_id="s", gate="v2")
    effort = effort_of(on)

    assert effort.signals is not None
    assert 0.0 == effort.signals.top_relevance
    assert (("admission",), 3) == (effort.expansion_actions, len(on.selected))


def test_a_word_of_title_tag_or_category_counts_for_the_overlap(ctx: powerctx.Context) -> None:
    """Index and gate analyse the same text."""
    ctx.put(
        Item(scope_id="s", artifact_id=f"a{n}", text=f"number {n}", title="alpha", category="beta", tags=("gamma",))
        for n in range(2)
    )
    effort = effort_of(ctx.prepare("alpha beta gamma", scope_id="s", gate="v2"))

    assert effort.signals is not None
    assert (1.0, "sufficient") == (effort.signals.lexical_overlap, effort.reason)


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ("alpha beta", ". Use only the given context, do not call any tools."),
        ("资料库 部署", "。只根据提供的上下文回答，不要调用工具"),
    ],
)
def test_instructions_make_no_answer_thin(ctx: powerctx.Context, asked: str, more: str) -> None:
    """What tells the model how to answer is no part of the question, for the gate neither."""
    ctx.put(items(f"{asked} one", f"{asked} two"))
    plain, told = (ctx.prepare(query, scope_id="s", gate="v2") for query in (asked, asked + more))

    assert ["sufficient"] * 2 == [effort_of(each).reason for each in (plain, told)]
    assert plain.content == told.content


@pytest.mark.parametrize("order", [["r", "t"], ["t", "r"]])
@pytest.mark.parametrize("policy", [COMPATIBLE.policy_id, POWERCTX.policy_id])
def test_the_verdict_does_not_depend_on_the_order_of_scopes(
    ctx: powerctx.Context, order: list[str], policy: str
) -> None:
    """Every scope is a fusion run of its own: signals, rounds and counts are the same in any order."""
    ctx.put([*items("alpha beta", "gamma"), *items("alpha", "delta", scope="r"), *items("beta gamma", scope="t")])
    one = effort_of(ctx.prepare(QUERY, scope_id="s", references=["r", "t"], gate="v2", policy=policy))
    for scope_id, references in (("s", order), ("t", ["s", "r"]), ("r", ["t", "s"])):
        other = effort_of(ctx.prepare(QUERY, scope_id=scope_id, references=references, gate="v2", policy=policy))
        assert (one.signals, one.reason, one.candidates_by_round) == (
            other.signals,
            other.reason,
            other.candidates_by_round,
        )
        key = lambda counts: (counts.family, counts.scope_id)  # noqa: E731 - one use
        assert sorted(one.admission_by_family, key=key) == sorted(other.admission_by_family, key=key)


def test_what_a_call_costs(tmp_path: Path) -> None:
    """An expansion costs no statement and no embedding; all in all at most 2, and 3 for each family and scope."""
    embedder = Angles()
    with opened(f"sqlite:///{tmp_path / 'x.db'}", embedder=embedder) as context:
        context.put([*_sixty_four(0.9, 0.2, 0.12), *items("alpha cos=0.2", scope="r"), *items("beta", scope="t")])
        context.warm()
        statements: list[str] = []
        sa.event.listen(
            sa.Engine,
            "before_cursor_execute",
            note := lambda *given: statements.append(given[2]),  # type: ignore[func-returns-value]  # append returns nothing, and nobody asks
        )
        costs = {}
        try:
            for policy in (COMPATIBLE.policy_id, POWERCTX.policy_id):
                for gate in ("off", "v2"):
                    statements.clear()
                    embedder.texts = 0
                    prepared = context.prepare(QUERY, scope_id="s", references=["r", "t"], gate=gate, policy=policy)
                    costs[policy, gate] = len(statements), embedder.texts
                    if gate == "v2" and policy == COMPATIBLE.policy_id:
                        assert effort_of(prepared).expansion_actions
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)

    for policy in (COMPATIBLE.policy_id, POWERCTX.policy_id):
        assert costs[policy, "off"] == costs[policy, "v2"]
        assert 0 < costs[policy, "v2"][0] <= 2 + 3 * 3
        assert 1 == costs[policy, "v2"][1]


@pytest.mark.parametrize("policy", [COMPATIBLE.policy_id, POWERCTX.policy_id])
def test_an_expansion_costs_what_it_adds(tmp_path: Path, policy: str) -> None:
    """A committed round makes no statement and no embedding, is planned once, and renders what is new."""
    calls: list[str] = []

    class Counting(Prepared):
        def open(self, selection: Any) -> str:
            calls.append("plan")
            return super().open(selection)

        def entry(self, *given: Any, **more: Any) -> tuple[str, str]:
            calls.append("entry")
            return super().entry(*given, **more)

    @hookimpl
    def powerctx_renderers() -> list[RendererSpec]:
        return [RendererSpec(name="counting", factory=lambda settings: Counting())]

    embedder = Angles()
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    more = SimpleNamespace(__name__="counting", powerctx_renderers=powerctx_renderers)
    with opened(f"sqlite:///{tmp_path / 'x.db'}", embedder=embedder, more=[more]) as context:
        context.put([*items("alpha beta cos=0.05"), *items(*(f"{word} cos=0.05" for word in words[2:]), start=1)])
        context.warm()
        note = lambda *given: calls.append("statement")  # noqa: E731 - it is taken off again
        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        costs = {}
        try:
            for gate in ("off", "v2"):
                calls.clear()
                embedder.texts = 0
                prepared = context.prepare(" ".join(words), scope_id="s", gate=gate, policy=policy, renderer="counting")
                costs[gate] = Counter(calls) + Counter(embedding=embedder.texts)
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)
    effort = effort_of(prepared)

    assert (2, (1, 7)) == (effort.rounds, effort.candidates_by_round)
    assert {"plan": 1, "entry": 6} == dict(costs["v2"] - costs["off"])
    assert 1 == costs["v2"]["embedding"]
