"""Explanations: every member of every pool has a fate, and the numbers agree with the answer."""

from __future__ import annotations

import asyncio
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import powerctx_core as powerctx
from powerctx_core import (
    AdmissionSpec,
    EmbedderSpec,
    EmbeddingProfile,
    EmbedRequest,
    Explanation,
    FamilySpec,
    Item,
    hookimpl,
    wire,
)
from powerctx_core.explanation import DELIVERED
from powerctx_core.page import page
from powerctx_core.recall.admission import FloorAdmission
from powerctx_core.recall.policy import COMPATIBLE, POWERCTX, RecallPolicy
from powerctx_core.text.terms import analyse_query, written
from powerctx_core.text.words import terms_of

QUERY = "alpha beta gamma delta"
THIN = ["alpha beta one", *(f"{word} alone" for word in ("alpha", "beta", "gamma", "delta"))]


def items(*texts: str, scope: str = "s", family: str = "memory", **more: Any) -> list[Item]:
    """Make one item a text."""
    return [Item(scope_id=scope, family=family, artifact_id=f"n{n}", text=text, **more) for n, text in enumerate(texts)]


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """A store in memory."""
    with powerctx.open("memory://", plugins=(), settings={}) as context:
        yield context


def fates(explanation: Explanation) -> dict[str, str]:
    """Return artifact id -> fate."""
    return {each.address.artifact_id: each.fate for each in explanation.candidates}


def check(explanation: Explanation) -> None:
    """Check that the candidates agree with the answer, the receipt and the counts."""
    response, receipt = explanation.response, explanation.receipt
    delivered = [each for each in explanation.candidates if each.fate in DELIVERED]
    assert {each.address for each in delivered} == set(response.selected)
    assert Counter({each.address: each.rendered_bytes for each in delivered}) == Counter(
        {item.address: item.rendered_bytes for item in response.diagnostics.items}
    )
    assert receipt is not None
    assert receipt.addresses == response.selected
    told = Counter()
    for group in receipt.omitted:
        if group.reason not in ("not_retrieved", "late"):
            told[group.reason] += group.count
    left = Counter(each.fate for each in explanation.candidates if each.fate not in (*DELIVERED, "ceiling"))
    assert left == told
    ranks = [each.rank for each in explanation.candidates if each.rank is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    last = explanation.rounds[-1] if explanation.rounds[-1].outcome == "completed" else explanation.rounds[-2]
    assert len(explanation.candidates) == sum(pool.retrieved for pool in last.pools)
    assert sum(each.round is not None for each in explanation.candidates) == sum(pool.admitted for pool in last.pools)
    json.dumps(wire.to_json(explanation), allow_nan=False)


def test_every_candidate_has_a_fate(ctx: powerctx.Context) -> None:
    """Delivered, cut, left out for its size, and below the floor are told apart; words and rounds are named."""
    ctx.put(items("alpha beta gamma", "alpha beta " + "long " * 300, "alpha beta", "gamma", "unrelated"))
    explanation = ctx.explain(QUERY, scope_id="s", policy=COMPATIBLE.policy_id, max_bytes=512)
    by_id = {each.address.artifact_id: each for each in explanation.candidates}

    check(explanation)
    assert by_id["n3"].fate == "below_threshold"
    assert (by_id["n3"].round, by_id["n3"].rank, by_id["n3"].score) == (None, None, None)
    assert by_id["n0"].matched_units == ("alpha", "beta", "gamma")
    assert by_id["n0"].round == 0
    assert "n4" not in by_id
    assert explanation.query_units == ("alpha", "beta", "delta", "gamma")
    assert explanation.thresholds == ()


def test_it_is_the_call_itself(ctx: powerctx.Context) -> None:
    """The answer is that of prepare, to the byte; a receipt of the call's own is there only when it was asked for."""
    ctx.put(items(*THIN))
    asked = {"scope_id": "s", "gate": "v2", "max_bytes": 600}

    assert wire.to_json(ctx.explain(QUERY, **asked).response) == wire.to_json(ctx.prepare(QUERY, **asked))
    asked["include_receipt"] = True
    assert ctx.explain(QUERY, **asked).response.receipt is not None
    assert wire.canonical(ctx.explain(QUERY, **asked).response) == wire.canonical(ctx.prepare(QUERY, **asked))


def test_it_can_be_awaited(ctx: powerctx.Context) -> None:
    """The awaited form says the same."""
    ctx.put(items(*THIN))
    waited = asyncio.run(ctx.aexplain(QUERY, scope_id="s", gate="v2"))

    assert wire.canonical(waited) == wire.canonical(ctx.explain(QUERY, scope_id="s", gate="v2"))


def test_rounds_are_told_with_their_verdicts(ctx: powerctx.Context) -> None:
    """Pools, floors, signals and thresholds of each; a candidate names the round that let it in."""
    ctx.put(items(*THIN))
    explanation = ctx.explain(QUERY, scope_id="s", gate="v2")

    check(explanation)
    assert [(each.number, each.action, each.reason, each.sufficient) for each in explanation.rounds] == [
        (0, "", "thin-candidates", False),
        (1, "admission", "sufficient", True),
    ]
    assert [each.pools[0].admitted for each in explanation.rounds] == [1, 5]
    assert explanation.rounds[1].floor == COMPATIBLE.expansion_floors[0]
    assert explanation.rounds[0].signals is not None
    assert explanation.rounds[0].signals.candidate_count == 1
    assert dict(explanation.thresholds)["min_candidates"] == 2
    assert Counter(each.round for each in explanation.candidates) == {0: 1, 1: 4}
    assert explanation.effort is not None


def test_scores_fall_from_round_to_round_under_our_policy(ctx: powerctx.Context) -> None:
    """What a lower floor let in scores less than all that was there, as it is delivered."""
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    ctx.put(items("alpha beta gamma", "delta epsilon", *(f"{word} alone" for word in words)))
    asked = {"scope_id": "s", "gate": "v2", "policy": "powerctx.recall.v1", "max_items": 20}
    explanation = ctx.explain(" ".join(words), **asked)
    scores = [each.score for each in explanation.candidates if each.rank is not None]

    assert [0, 0, *[1] * 8] == [each.round for each in explanation.candidates]
    assert None not in scores
    assert sorted(scores, reverse=True) == scores  # type: ignore[type-var]  # none is missing


class Leaning:
    """An embedder whose vectors lean towards one direction as far as a text says, so that cosines are any there are."""

    profile = EmbeddingProfile(fingerprint="l1", dimensions=2, languages=("en",), noise=0.3, match=0.9, weight=0.5)

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Return a vector a text."""
        found = (re.search(r"lean(\d+)", text) for text in request.texts)
        cosines = [1.0 if each is None else int(each[1]) / 100 for each in found]
        return [struct.pack("<2f", cosine, math.sqrt(1 - cosine * cosine)) for cosine in cosines]


@pytest.mark.parametrize("policy", [COMPATIBLE, POWERCTX], ids=["counts", "weights"])
def test_what_the_floor_compared_stands_beside_everything(policy: RecallPolicy) -> None:
    """Share, cosine and relevance of each member decide over it as its first floor does, left out or not."""

    @hookimpl
    def powerctx_embedders() -> list[EmbedderSpec]:
        return [EmbedderSpec(name="leaning", factory=lambda settings: Leaning())]

    own = SimpleNamespace(__name__="own", powerctx_embedders=powerctx_embedders)
    texts = [f"lean{n} {' '.join(QUERY.split()[: n % 5])}" for n in range(0, 100, 7)]
    with powerctx.open("memory://", plugins=(), settings={}, extra=[own], embedder="leaning") as ctx:
        ctx.put(items(*texts))
        explanation = ctx.explain(QUERY, scope_id="s", policy=policy.policy_id)

    check(explanation)
    floor, fates_seen = policy.floor, set()
    for each in explanation.candidates:
        cosine = int(texts[int(each.address.artifact_id[1:])].partition(" ")[0][4:]) / 100
        assert each.cosine == pytest.approx(cosine, abs=1e-3)
        assert each.relevance == pytest.approx(Leaning.profile.relevance(cosine), abs=2e-3)
        assert each.share is not None
        assert each.relevance is not None
        if floor.idf_mass is None:
            words = each.share >= floor.coverage and len(each.matched_units) >= floor.matched
            assert each.share == len(each.matched_units) / 4
        else:
            words = each.share >= floor.idf_mass and each.share > 0.0
        near = each.cosine >= floor.cosine if floor.cosine is not None else each.relevance > (floor.relevance or 0.0)
        assert (each.round is not None) == (words or near)
        fates_seen.add(each.fate)
    assert fates_seen > {"below_threshold"}


def test_a_dropped_round_is_there_and_empty() -> None:
    """What is known of it is that it was begun."""

    class Failing(FloorAdmission):
        def admit(self, pool: Any, query: Any, floor: Any) -> Any:
            """Fail at the first lower floor."""
            if floor.cosine == 0.15:
                raise RuntimeError("no")
            return super().admit(pool, query, floor)

    @hookimpl
    def powerctx_families() -> list[FamilySpec]:
        return [FamilySpec(name="notes", factory="powerctx_core.families:StoredFamily", admission="own")]

    @hookimpl
    def powerctx_admissions() -> list[AdmissionSpec]:
        return [AdmissionSpec(name="own", factory=Failing)]

    own = SimpleNamespace(__name__="own", powerctx_families=powerctx_families, powerctx_admissions=powerctx_admissions)
    with powerctx.open("memory://", plugins=(), settings={}, extra=[own]) as ctx:
        ctx.put(items(*THIN, family="notes"))
        explanation = ctx.explain(QUERY, scope_id="s", families=["notes"], gate="v2")

    check(explanation)
    assert [(each.number, each.outcome) for each in explanation.rounds] == [(0, "completed"), (1, "expansion_failed")]
    assert explanation.rounds[1].pools == ()


def test_a_family_may_bring_no_more(ctx: powerctx.Context) -> None:
    """What is admitted beyond the ceiling competes for nothing, and is told so."""
    ctx.put(items(*(f"alpha {n}" for n in range(30)), family="topic-memory"))
    explanation = ctx.explain("alpha", scope_id="s", families=["topic-memory"], policy=COMPATIBLE.policy_id)

    check(explanation)
    assert Counter(fates(explanation).values()) == {"delivered": 8, "ceiling": 22}


def test_trimming_is_told(ctx: powerctx.Context) -> None:
    """The value of every candidate is with the diagnostics, and in the serialised form."""
    ctx.put(items("alpha one", "alpha two", confidence=0.9))
    form = wire.to_json(ctx.explain("alpha", scope_id="s", trim="value"))

    assert {each["uri"] for each in form["trimming"]["values"]} == {each["uri"] for each in form["candidates"]}
    assert set(form["trimming"]["weights"]) <= set(form["trimming"]["values"][0])


def test_nothing_asked_and_nothing_found(ctx: powerctx.Context) -> None:
    """There is an explanation of nothing, too."""
    nothing = ctx.explain("alpha", scope_id="s", sections=[])
    empty = ctx.explain("alpha", scope_id="s")

    assert (nothing.rounds, nothing.candidates) == ((), ())
    assert empty.candidates == ()
    assert all(pool.retrieved == 0 for pool in empty.rounds[0].pools)


def test_split_delivery_lists(ctx: powerctx.Context) -> None:
    """What is listed has its own fate."""
    ctx.put(items("alpha one", "alpha two"))
    explanation = ctx.explain("alpha", scope_id="s", delivery="split")

    check(explanation)
    assert set(fates(explanation).values()) == {"listed"}


_TEXTS = st.lists(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "omega", "字"]), min_size=1, max_size=6).map(" ".join),
    max_size=10,
)


@settings(max_examples=60)
@given(_TEXTS, _TEXTS, st.sampled_from(["off", "v2"]), st.integers(512, 900), st.sampled_from(["rank", "value"]))
def test_the_numbers_agree(here: list[str], there: list[str], gate: str, size: int, trim: str) -> None:
    """Whatever is stored and asked, fates, receipt, counts and answer say the same."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put([*items(*here), *items(*there, scope="r"), *items(*there, family="experience")])
        check(ctx.explain(QUERY, scope_id="s", references=["r"], gate=gate, max_bytes=size, trim=trim))


@pytest.mark.parametrize(
    ("query", "text", "shown", "stem"),
    [
        ("Which deployments were delayed?", "The deployment is delayed.", {"deployments", "delayed"}, "deploy"),
        ("Почему развёртывания задерживались?", "развёртывание задерживалось", {"развёртывания", "задерживались"},
         "развертыван"),
        ("userLibraries", "user libraries", {"user", "Libraries"}, "librari"),
        ("部署在哪一天", "部署在周五", {"部", "署"}, "部"),
    ],
)  # fmt: skip
def test_words_are_those_of_the_question(
    ctx: powerctx.Context, query: str, text: str, shown: set[str], stem: str
) -> None:
    """What an item holds of a question is told in the question's words, on the page, too; units stay what they are."""
    ctx.put(items(text))
    explanation = ctx.explain(query, scope_id="s")
    held = explanation.candidates[0].matched_units

    assert stem in held
    assert shown <= {explanation.word(unit) for unit in held}
    assert all(word.casefold() in query.casefold() for _, word in explanation.query_words)
    drawn = page(explanation)
    assert all(f"<mark>{word}</mark>" in drawn for word in shown)
    assert wire.to_json(explanation)["query_words"] == dict(explanation.query_words)


@given(st.text(max_size=60))
def test_any_question_is_told_in_its_words(query: str) -> None:
    """A word is given for terms that are asked for alone, never for itself, and always gives its term."""
    terms = set(analyse_query(query).terms)
    for term, word in written(query, terms).items():
        assert term in terms
        assert term != word
        assert term in terms_of(word)
