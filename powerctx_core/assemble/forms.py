"""The forms of a candidate: what it shows at each tier, rendered and priced.  Pure.

Every form is real, escaped text, so that its price is exact; what lies beyond the head of a body, or in a stored
overview, is estimated by its length until it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Generic, TypeVar, overload

import attrs

from powerctx_core.assemble.budget import utf8_bytes
from powerctx_core.assemble.cutting import last_paragraph, longest_cut, prefix_by_price
from powerctx_core.assemble.tiers import CAPPED, DETAILS, DIRECTORY, WHOLE, WIDE, Ladder, Rung
from powerctx_core.ports import Renderer, Selection
from powerctx_core.text.cut import ELLIPSIS, cut_to_bytes, derived_abstract, derived_overview
from powerctx_core.types import ABSTRACT_BYTES, Candidate, Hit, RawCandidate

__all__ = ["Forms", "Read", "joined"]

_SURE, _SURE_BYTES = 4, 512
"""A body of more than so many times its abstract, and so many bytes more, costs more whatever prices it."""
_FIRST = slice(None, 1)
_SPENT = 0.95
"""Share of what is left that a cut after a sentence must use."""


_K = TypeVar("_K")
_V = TypeVar("_V")


class _Kept(Generic[_K, _V]):
    """Calls a function once for each argument: as ``functools.cache`` does, which takes longer to make than to use."""

    __slots__ = ("_function", "_known")

    def __init__(self, function: Callable[[_K], _V]) -> None:
        self._function = function
        self._known: dict[_K, _V] = {}

    def __call__(self, argument: _K) -> _V:
        if argument not in self._known:
            self._known[argument] = self._function(argument)
        return self._known[argument]


@attrs.frozen
class Read:
    """What was read of one candidate.

    Attributes:
        body: the text, as far as it was read.
        overview: the stored overview.
        whole: *body* is all of it.
    """

    body: str
    overview: str | None
    whole: bool


@attrs.frozen
class _Known:
    """What is known of a candidate's texts.

    Attributes:
        size: of the whole body, UTF-8 bytes.
        more: of the body there is more than this, which may be read.
        brief: nobody wrote an abstract, and the body is no longer than one may be: it stands for itself.
    """

    abstract: str
    brief: bool
    body: str
    size: int
    overview: str | None
    overview_size: int
    more: bool


@attrs.frozen
class _Form:
    """A candidate at one detail: what stands around its text, and how all of it is priced.

    Attributes:
        around: what stands before and after the text: of a whole one, and of a cut one.
    """

    detail: str
    around: Callable[[int], tuple[str, str]]
    forms: Forms
    heading: str

    def rung(self, text: str, stage: int, *, cut: bool = False) -> Rung:
        """Return the form that shows *text*; a mark behind it says that it is cut."""
        shown = f"{text}{ELLIPSIS}" if cut else text
        before, after = self.around(int(cut))
        piece = f"{before}{self.forms.renderer.escape(shown)}{after}"
        cost = self.forms.cost(piece) + self._beside
        return Rung(detail=self.detail, cost=cost, stage=stage, cut=cut, text=shown, piece=piece)

    @property
    def _beside(self) -> float:
        """What the heading costs, which most renderers have none of."""
        return self.forms.cost(self.heading) if self.heading else 0.0

    def price(self, text: str) -> float:
        """Return what it costs to show a cut that keeps *text*."""
        return self.rung(text, WIDE, cut=True).cost

    def estimate(self, sample: str, size: int) -> float:
        """Return about what *size* bytes cost, by the price of a sample of such text."""
        around = self.forms.cost("".join(self.around(0))) + self._beside
        return around + self.forms.cost(self.forms.renderer.escape(sample)) * size / max(1, utf8_bytes(sample))

    def longest(self, body: str, room: float) -> Rung | None:
        """Return the longest cut of *body* that costs at most *room*."""
        body = body.lstrip()
        limit = prefix_by_price(lambda taken: self.price(body[:taken]), len(body), room)
        if self.forms.paragraphs and (end := last_paragraph(body, limit)) and self.price(body[:end]) <= room:
            return self.rung(body[:end], WHOLE, cut=True)
        found = longest_cut(body, limit, lambda text: self.price(text) <= room)
        if found is not None and self.price(found) < _SPENT * room:
            # The last sentence ends too early: the budget is worth more than that.
            found = longest_cut(body, limit, lambda text: self.price(text) <= room, sentences=False)
        return None if found is None else self.rung(found, WHOLE, cut=True)


@attrs.frozen(kw_only=True)
class Forms:
    """How entries of one pack are rendered and priced.

    Attributes:
        cost: prices text in tokens.
        item_bytes: the cap for one item, UTF-8 bytes of its body.
        paragraphs: a cut ends with a paragraph rather than as late as it can.
    """

    renderer: Renderer
    selection: Selection
    cost: Callable[[str], float]
    item_bytes: int
    paragraphs: bool = False

    @property
    def frame(self) -> float:
        """What stands around the entries costs."""
        return self.cost(self.renderer.open(self.selection)) + self.cost(self.renderer.close(self.selection))

    def ladder(
        self,
        hit: Hit,
        *,
        place: int,
        bucket: str,
        ceiling: str,
        pinned: bool = False,
        brief: bool = True,
        read: Read | None,
        reading: bool,
    ) -> Ladder:
        """Return the forms of a candidate.

        Args:
            hit: the candidate.
            place: in the pack, from 1.
            bucket: that it counts for.
            ceiling: most that it may show.
            pinned: it shows that, or as much of it as there is, and nothing less.
            brief: a body that is no longer than an abstract may be stands for itself, whatever the ceiling.
            read: what was read of it.
            reading: what was not read yet may still be.
        """
        raw = hit.candidate
        form = partial(self._form, hit, place)
        bare = form("uri", "").rung("", WIDE)
        if ceiling == "uri":
            return Ladder(bare=bare, rungs=(), bucket=bucket)
        known = _known(raw, read, reading=reading)
        known = known if brief else attrs.evolve(known, brief=False)
        made = self._rungs(form, raw, known, DETAILS.index(ceiling))
        first = next(made)
        rungs: Sequence[Rung]
        if not pinned and first.detail == "abstract" and known.size > _SURE * utf8_bytes(known.abstract) + _SURE_BYTES:
            rungs = _Rungs(first, lambda: _rising([first, *made]))
        else:
            rungs = _rising([first, *made])
        if pinned:
            # The forms of its detail alone: the body as far as the cap, and all of it where there is room.
            top = [rung for rung in rungs if rung.detail == rungs[-1].detail]
            rungs = (attrs.evolve(top[0], stage=WIDE), *top[1:])
        cut = _Kept(partial(self._cut, form, known, DETAILS.index(ceiling)))
        return Ladder(bare=bare, rungs=rungs, bucket=bucket, cut=cut)

    def line(self, hit: Hit, text: str | None, *, place: int, bucket: str) -> Ladder:
        """Return the one form of a candidate in a list, or none of it: a URI alone is no reason to read.

        Args:
            hit: the candidate.
            text: what the list says of it, cut at the cap; ``None`` when it is not to be listed.
            place: in the pack, from 1.
            bucket: that it counts for.
        """
        nowhere = Rung(detail="uri", cost=inf)
        if text is None:
            return Ladder(bare=nowhere, rungs=(), bucket=bucket, listed=True)
        cut = utf8_bytes(text) > self.item_bytes
        form = self._form(hit, place, "abstract", text)
        rung = form.rung(cut_to_bytes(text, self.item_bytes) if cut else text, WIDE, cut=cut)
        return Ladder(bare=nowhere, rungs=(rung,), bucket=bucket, listed=True)

    def _form(self, hit: Hit, place: int, detail: str, text: str) -> _Form:
        candidate = Candidate(
            address=hit.address,
            text=text,
            body_bytes=hit.candidate.body_bytes,
            score=hit.score,
            title=hit.candidate.title,
            hit=hit,
            evidence=hit.candidate.evidence,
            detail=detail,
        )
        around = _Kept[int, tuple[str, str]](
            lambda cut: self.renderer.entry(candidate, place, self.selection, cut=bool(cut))
        )
        group = getattr(self.renderer, "group", None)
        # Charged to every entry, since nobody knows yet what stands before it.
        heading = "" if group is None else group(hit.address.family, self.selection)
        return _Form(detail, around, self, heading)

    def _rungs(
        self, form: Callable[[str, str], _Form], raw: RawCandidate, known: _Known, ceiling: int
    ) -> Iterator[Rung]:
        whole = not known.more and utf8_bytes(known.body) == known.size
        same = whole and (known.brief or known.body.strip() == known.abstract.strip())
        if not same:
            yield form("abstract", known.abstract).rung(known.abstract, WIDE)
        overview = DETAILS.index("overview")
        if ceiling >= overview and not same:
            stage = DIRECTORY if raw.kind == "directory" else CAPPED
            if known.overview:
                yield form("overview", known.overview).rung(known.overview, stage)
            elif known.overview_size:
                yield self._unread(form("overview", known.body), known.body, known.overview_size, stage)
        if ceiling > overview or same:
            yield from self._bodies(form("full", known.body), known, whole=whole)

    def _bodies(self, form: _Form, known: _Known, *, whole: bool) -> Iterable[Rung]:
        if known.size > self.item_bytes:
            yield form.rung(cut_to_bytes(known.body.lstrip(), self.item_bytes), CAPPED, cut=True)
        if whole:
            yield form.rung(known.body, CAPPED if known.size <= self.item_bytes else WHOLE)
        elif known.more:
            yield self._unread(form, known.body, known.size, WHOLE)

    def _unread(self, form: _Form, sample: str, size: int, stage: int) -> Rung:
        return Rung(detail=form.detail, cost=form.estimate(sample, size), stage=stage, unread=True)

    def _cut(self, form: Callable[[str, str], _Form], known: _Known, ceiling: int, room: float) -> Rung | None:
        """Return the longest text for *room*: of the abstract where not even that fits, else of the body."""
        abstract = form("abstract", known.abstract)
        if abstract.price("") > room:
            return None
        if ceiling < DETAILS.index("full") or abstract.price(known.abstract) > room:
            found = abstract.longest(known.abstract, room)
            return found if found is None else attrs.evolve(found, stage=WIDE)
        body = form("full", known.body)
        if known.more and body.price(known.body) < room:
            return Rung(detail="full", cost=room, stage=WHOLE, cut=True, unread=True)
        return body.longest(known.body, room)


def _rising(rungs: Sequence[Rung]) -> tuple[Rung, ...]:
    """Return those that are dearer than the one before; another is not worth its place."""
    rising = [rungs[0]]
    for rung in rungs[1:]:
        if rung.cost > rising[-1].cost:
            rising.append(rung)
        elif rung.detail == "full" and not rung.cut and not rung.unread:
            # The body is no longer than what stands for it: the tiers coincide.
            rising = [*(each for each in rising if each.cost < rung.cost), rung]
    if rising[0].stage != WIDE:
        rising[0] = attrs.evolve(rising[0], stage=WIDE)
    return tuple(rising)


class _Rungs(Sequence[Rung]):
    """Forms of which the first is known, and the others are made when they are first asked for.

    Args:
        first: the cheapest.
        make: returns all of them, the first among them.
    """

    def __init__(self, first: Rung, make: Callable[[], Sequence[Rung]]) -> None:
        self._first = first
        self._make = make
        self._all: Sequence[Rung] | None = None

    @overload
    def __getitem__(self, place: int) -> Rung: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Rung]: ...
    def __getitem__(self, place: int | slice) -> Rung | Sequence[Rung]:
        """Return a form, or several."""
        if place == 0:
            return self._first
        return (self._first,) if place == _FIRST else self._whole()[place]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._whole())

    def __bool__(self) -> bool:
        """There is one at least."""
        return True

    def _whole(self) -> Sequence[Rung]:
        if self._all is None:
            self._all = self._make()
        return self._all


def joined(entries: Sequence[tuple[str, Rung]], forms: Forms) -> str:
    """Return the text of a pack, or nothing without entries.

    Args:
        entries: family and form of each, in their order.
        forms: that made them.
    """
    if not entries:
        return ""
    group = getattr(forms.renderer, "group", None)
    pieces = [forms.renderer.open(forms.selection)]
    before = None
    for family, rung in entries:
        if group is not None and family != before:
            pieces.append(group(family, forms.selection))
        before = family
        pieces.append(rung.piece)
    return "".join([*pieces, forms.renderer.close(forms.selection)])


def _known(raw: RawCandidate, read: Read | None, *, reading: bool) -> _Known:
    body = raw.head if read is None else read.body
    whole = raw.body_bytes == utf8_bytes(raw.head) if read is None else read.whole
    size = utf8_bytes(body) if whole else raw.body_bytes
    overview = None if read is None else read.overview
    stored = raw.overview_bytes if read is None and reading else 0
    if overview is None and not stored and raw.kind != "directory":
        overview = derived_overview(body)
    derived = derived_abstract(body)
    return _Known(
        abstract=raw.abstract or derived,
        brief=size <= ABSTRACT_BYTES and raw.abstract in (None, derived),
        body=body,
        size=size,
        overview=overview,
        overview_size=stored,
        more=not whole and reading and read is None,
    )
