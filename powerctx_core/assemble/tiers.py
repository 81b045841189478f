"""Which entries a pack of tiers holds, and at which tier: first wide, then deep.  Pure; works on costs, not on texts.

Every candidate is a ladder of forms, each dearer than the one before.  The planner knows every cost beforehand, takes
forms pass by pass, and a pass never undoes another, so that what did not fit once does not fit later either: one walk
through each pass leaves no move that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

__all__ = ["BARE", "DETAILS", "READABLE_PER_BARE", "Ladder", "Rung", "TierPlan", "plan_tiers"]

DETAILS = ("uri", "abstract", "overview", "full")
"""What an entry can show, from nothing but its URI to its body."""
BARE, WIDE, DIRECTORY, CAPPED, WHOLE = range(5)
"""The passes: every candidate on its shortest text, directories on their overview, items on their body as far as the
cap for one item, then without it.  A form that belongs to none of them is a bare URI."""
READABLE_PER_BARE = 9
"""Readable entries for each bare URI, so that at most a tenth of a pack is bare; a pack of nothing else has one."""
_SLACK = 1e-9


@attrs.frozen(kw_only=True)
class Rung:
    """One form of an entry.

    Attributes:
        detail: one of ``uri``, ``abstract``, ``overview``, ``full``.
        cost: of the whole rendered entry, its tags included.
        stage: the first pass that may take it.
        cut: it shows the beginning of its text only.
        unread: its text has yet to be read, so that the cost is an estimate.
        text: what it shows.
        piece: the rendered entry.
    """

    detail: str
    cost: float
    stage: int = WIDE
    cut: bool = False
    unread: bool = False
    text: str = attrs.field(default="", repr=False)
    piece: str = attrs.field(default="", repr=False)


def _uncut(room: float) -> Rung | None:
    del room
    return None


@attrs.frozen(kw_only=True)
class Ladder:
    """One candidate.

    Attributes:
        bare: the form without any text.
        rungs: readable forms within its ceiling, each dearer than the one before; none when it may only be bare.  The
            first alone may be taken by the first pass, and those behind it may be made when they are first asked for.
        bucket: what its share of the budget counts for.
        listed: it stands in the list of what can be read, and not in the text.
        cut: returns the longest cut of its dearest text that costs at most so much, or ``None``.
    """

    bare: Rung
    rungs: Sequence[Rung]
    bucket: str = ""
    listed: bool = False
    cut: Callable[[float], Rung | None] = attrs.field(default=_uncut, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class TierPlan:
    """What is delivered.

    Attributes:
        chosen: place of the candidate -> its form, in the order of the candidates.
        left: what remains of the room.
        sample: places of the candidates that might be chosen, where these were not all.
        least: what those cost that are chosen and readable, each at its shortest text.
        least_text: what of this stands in the text.
    """

    chosen: Mapping[int, Rung]
    left: float
    sample: tuple[int, ...] = ()
    least: float = 0.0
    least_text: float = 0.0

    @property
    def unread(self) -> tuple[int, ...]:
        """Places of the candidates whose text has to be read for this plan."""
        return tuple(place for place, rung in self.chosen.items() if rung.unread)


def plan_tiers(
    ladders: Sequence[Ladder],
    room: float,
    *,
    shares: Mapping[str, float] | None = None,
    most: int | None = None,
    text_room: float | None = None,
) -> TierPlan:
    """Choose a form for each candidate, or none.

    1. Every candidate lands on its shortest text; one that does not fit is passed over, and the next are tried.
    2. Directories rise to their overview, then items to their body as far as the cap, then to all of it; each takes the
       dearest form of its pass that fits.
    3. Buckets with a share may now use what others left; the same passes go over all again.
    4. What is left is spent on cuts: of the entries there are, by rank, then of those that have none yet.
    5. What is left then holds bare URIs, a few.

    Args:
        ladders: best first.
        room: what all entries together may cost.
        shares: bucket -> most of *room* (0..1) that it may use before the others had their turn; it always may have
            one entry.
        most: how many entries at most.
        text_room: what those together may cost that are not listed; as much as there is when absent.
    """
    fill = _Fill(ladders, room, len(ladders) if most is None else most, room if text_room is None else text_room)
    allowed = {bucket: share * room for bucket, share in (shares or {}).items()}
    for caps in (allowed, {}) if allowed else ({},):
        for stage in (WIDE, DIRECTORY, CAPPED, WHOLE):
            for place in range(len(ladders)):
                fill.climb(place, stage, caps)
    for place in [*sorted(fill.chosen), *(each for each in range(len(ladders)) if each not in fill.chosen)]:
        fill.cut(place)
    fill.bare()
    readable = [ladders[place] for place, rung in fill.chosen.items() if rung.detail != "uri"]
    return TierPlan(
        chosen=dict(sorted(fill.chosen.items())),
        left=fill.left,
        least=sum(ladder.rungs[0].cost for ladder in readable),
        least_text=sum(ladder.rungs[0].cost for ladder in readable if not ladder.listed),
    )


class _Fill:
    """A plan while it is made."""

    def __init__(self, ladders: Sequence[Ladder], room: float, most: int, text_room: float) -> None:
        self.ladders = ladders
        self.left = room
        self.most = most
        self._text_left = text_room
        self.chosen: dict[int, Rung] = {}
        self._used: dict[str, float] = {}

    def climb(self, place: int, stage: int, caps: Mapping[str, float]) -> None:
        """Raise a candidate to its dearest form of *stage* that fits; only the first stage lets new ones in."""
        if place not in self.chosen and (stage != WIDE or len(self.chosen) >= self.most):
            return
        ladder = self.ladders[place]
        spent = self._spent(place)
        room = self._left(place) + spent
        bucket = ladder.bucket
        if bucket in caps and (spent or self._used.get(bucket)):
            room = min(room, caps[bucket] - self._used.get(bucket, 0.0) + spent)
        # Most candidates get no further than this, and need no other form.
        forms = ladder.rungs[:1] if stage == WIDE else ladder.rungs
        fitting = [rung for rung in forms if rung.stage <= stage and spent < rung.cost <= room + _SLACK]
        if fitting:
            self._take(place, fitting[-1])

    def cut(self, place: int) -> None:
        """Give a candidate the longest text that what is left can hold."""
        if place not in self.chosen and len(self.chosen) >= self.most:
            return
        ladder, spent = self.ladders[place], self._spent(place)
        taken = self.chosen.get(place)
        # Nothing is gained by a cut of what stands there whole already; a cap is a cut itself.
        whole = taken is not None and not taken.cut
        if not ladder.rungs or (whole and spent >= ladder.rungs[-1].cost):
            return
        room = self._left(place) + spent
        found = ladder.cut(room)
        if found is not None and spent < found.cost <= room + _SLACK:
            self._take(place, found)

    def bare(self) -> None:
        """Name candidates that have no text here."""
        readable = len(self.chosen)
        allowed = min(readable // READABLE_PER_BARE or int(not readable), self.most - readable)
        for place, ladder in enumerate(self.ladders):
            if allowed > 0 and place not in self.chosen and ladder.bare.cost <= self._left(place) + _SLACK:
                self._take(place, ladder.bare)
                allowed -= 1

    def _left(self, place: int) -> float:
        return self.left if self.ladders[place].listed else min(self.left, self._text_left)

    def _spent(self, place: int) -> float:
        rung = self.chosen.get(place)
        return 0.0 if rung is None else rung.cost

    def _take(self, place: int, rung: Rung) -> None:
        more = rung.cost - self._spent(place)
        bucket = self.ladders[place].bucket
        self.left -= more
        if not self.ladders[place].listed:
            self._text_left -= more
        self._used[bucket] = self._used.get(bucket, 0.0) + more
        self.chosen[place] = rung
