"""Laws of trimming by value: nothing is lost or made up, every budget holds, and more is never worse by value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from powerctx_core.assemble.budget import Budget, meters
from powerctx_core.assemble.fit import plan
from powerctx_core.assemble.redundancy import redundant
from powerctx_core.assemble.value import by_value
from powerctx_core.ports import Renderer, Selection
from powerctx_core.render.flat_xml import FlatXml
from powerctx_core.render.plain import Plain
from powerctx_core.render.prepared import Prepared
from powerctx_core.render.sections import Sections
from powerctx_core.settings import TrimSettings
from powerctx_core.text.tokens import O200k
from powerctx_core.types import Address, Candidate, Hit, RawCandidate

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_PIECES = [
    "资料库里有很多东西。", "資料庫", "</powerctx>\n", "👨‍👩‍👧‍👦", "e\u0301\u0302", "\u202eabc\u202c", "\u2028", "\x00",
    "The release note says so. ", "a" * 90, "字" * 60,
]  # fmt: skip
_TEXT = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=30)), max_size=8).map("".join)
_WEIGHT = st.floats(0, 10)
_SETTINGS = st.builds(
    TrimSettings,
    relevance=st.floats(0.001, 10),
    use=_WEIGHT,
    confidence=_WEIGHT,
    layer=_WEIGHT,
    recency=_WEIGHT,
    half_life_days=st.floats(0.001, 36_500),
    redundancy=st.floats(0.001, 1),
)
_RENDERERS = st.sampled_from([Prepared(), FlatXml(), Plain(), Sections()])
_SELECTION = Selection(scope_id="s")


@st.composite
def _candidates(draw: st.DrawFn) -> list[Hit]:
    found = []
    for number, text in enumerate(draw(st.lists(_TEXT, max_size=10))):
        address = Address("s", draw(st.sampled_from(["memory", "rule"])), f"a{number}", 1)
        clean = text.encode("utf-8", "replace").decode()
        raw = RawCandidate(
            address=address,
            length=1,
            head=clean,
            body_bytes=len(clean.encode()),
            created_at=_DAY,
            updated_at=_DAY + timedelta(days=draw(st.integers(-9999, 9999))),
            event_time=draw(st.one_of(st.none(), st.just(_DAY))),
            confidence=draw(st.one_of(st.none(), st.floats(0, 1))),
            layer=draw(st.sampled_from([None, "L0", "L1", "L2", "L3"])),
        )
        score = draw(st.floats(0, 1))
        found.append(Hit(candidate=raw, score=score, match=1.0, channels=("fts",)))
    return found


def _shown(hit: Hit) -> Candidate:
    raw = hit.candidate
    return Candidate(address=raw.address, text=raw.head, body_bytes=raw.body_bytes, score=hit.score, hit=hit)


def _uses(candidates: list[Hit], counts: list[int]) -> dict[tuple[str, str, str], int]:
    return {each.address.artifact: count for each, count in zip(candidates, counts, strict=False) if count}


_COUNTS = st.lists(st.integers(0, 10**9), max_size=10)
_LAYERS = {"memory": "L1", "rule": "L3"}


@given(_candidates(), _COUNTS, _SETTINGS)
def test_every_candidate_is_tried_once_by_value(
    candidates: list[Hit], counts: list[int], settings: TrimSettings
) -> None:
    """The order is one of the same candidates: repetitions last, each part by value, every share from 0 to 1."""
    found, trimming = by_value(candidates, _uses(candidates, counts), _LAYERS, settings)

    assert sorted(map(id, candidates)) == sorted(map(id, found))
    assert [each.address for each in found] == [value.address for value in trimming.values]
    keys = [(value.redundant_with is not None, -value.total) for value in trimming.values]
    assert keys == sorted(keys)
    for value in trimming.values:
        shares = [value.relevance, value.use, value.confidence, value.layer, value.recency]
        assert all(0.0 <= share <= 1.0 for share in shares)
        assert min(shares) - 1e-9 <= value.total <= max(shares) + 1e-9
    assert (found, trimming) == by_value(list(candidates), _uses(candidates, counts), _LAYERS, settings)


@given(_candidates(), _COUNTS, _SETTINGS)
def test_a_repetition_names_what_it_repeats(candidates: list[Hit], counts: list[int], settings: TrimSettings) -> None:
    """What is redundant is so with a candidate of at least its value that is itself not redundant."""
    _, trimming = by_value(candidates, _uses(candidates, counts), _LAYERS, settings)
    values = {value.address: value for value in trimming.values}

    for value in trimming.values:
        if value.redundant_with is not None:
            other = values[value.redundant_with]
            assert other.redundant_with is None
            assert other.total >= value.total


@given(_candidates(), _COUNTS, _SETTINGS, st.tuples(st.integers(300, 3000), st.integers(0, 500)), _RENDERERS)
def test_budgets_hold_and_more_is_never_worse(
    candidates: list[Hit], counts: list[int], settings: TrimSettings, sizes: tuple[int, int], renderer: Renderer
) -> None:
    """In the order of value every budget holds, and the first that fares differently in a larger one fares better."""
    found, _ = by_value(candidates, _uses(candidates, counts), _LAYERS, settings)

    def shares(limit: int) -> list[tuple[int, int]]:
        budget = Budget(max_items=64, max_bytes=limit, max_tokens=2000)
        planned = plan(found, budget, meters(budget, O200k()), renderer, _SELECTION, shown=_shown)
        assert len((planned.text or "").encode()) <= limit
        delivered = {id(entry.candidate.hit): (2 - entry.cut, len(entry.piece)) for entry in planned.entries}
        return [delivered.get(id(each), (0, 0)) for each in found]

    size, more = sizes
    assert shares(size) <= shares(size + more)


@given(st.lists(_TEXT, max_size=8), st.floats(0.001, 1))
def test_only_kept_texts_are_resembled(texts: list[str], resemblance: float) -> None:
    """Equal texts are redundant at any level, and what is resembled is kept."""
    found = redundant(texts, resemblance)

    assert all(other is None or (other < place and found[other] is None) for place, other in enumerate(found))
    for place, text in enumerate(texts):
        assert found[place] is not None or text not in texts[:place]
