"""Whatever fails in a round of the gate, and at whichever call of it: what was committed is delivered, exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import AdmissionSpec, FamilySpec, Item, RendererSpec, TokenEstimatorSpec, hookimpl
from powerctx_core.recall.admission import FloorAdmission
from powerctx_core.recall.policy import COMPATIBLE
from powerctx_core.render.prepared import Prepared
from powerctx_core.text.tokens import O200k
from powerctx_core.types import Admission, AdmissionCounts

FLOORS = {0.30: ("one",), 0.15: ("one", "two"), 0.10: ("one", "two", "three")}
"""Cosine of a floor -> words of the texts that the rule admits there."""
ROUNDS = (0, 1, 2)
QUERY = "alpha beta gamma"


class Calls:
    """Counts the calls of all parts, and raises in one of them."""

    def __init__(self) -> None:
        self.made = 0
        self.names: list[str] = []
        self.failing: int | None = None
        self.error: type[BaseException] = RuntimeError

    def note(self, name: str) -> None:
        """Count a call."""
        self.made += 1
        self.names.append(name)
        if self.made == self.failing:
            raise self.error("no")

    def begin(self, failing: int | None = None, error: type[BaseException] = RuntimeError) -> None:
        """Begin to count anew."""
        self.made, self.names, self.failing, self.error = 0, [], failing, error


def parts(calls: Calls) -> object:
    """Return a plugin of two families with a rule, a renderer and an estimator that are counted."""

    class Rule(FloorAdmission):
        def admit(self, pool: Any, query: Any, floor: Any) -> Admission:
            calls.note("admit")
            found = super().admit(pool, query, COMPATIBLE.expansion_floors[-1])
            wanted = FLOORS[floor.cosine]
            ranked = {
                name: tuple((key, score) for key, score in members if pool.candidates[key].head.split()[-1] in wanted)
                for name, members in found.ranked.items()
            }
            admitted = {key for members in ranked.values() for key, _ in members}
            counts = AdmissionCounts(
                family=pool.family,
                scope_id=pool.scope_id,
                retrieved=found.counts.retrieved,
                admitted=len(admitted),
            )
            return Admission(ranked=ranked, counts=counts)

    class Estimator(O200k):
        def cost(self, text: str) -> float:
            calls.note("cost")
            return super().cost(text)

    class Renderer(Prepared):
        pass

    def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            calls.note(name)
            return method(*given, **more)

        return call

    for name in ("open", "entry", "close"):
        setattr(Renderer, name, noted(name, getattr(Prepared, name)))

    @hookimpl
    def powerctx_families() -> list[FamilySpec]:
        stored = "powerctx_core.families:StoredFamily"
        return [FamilySpec(name=name, factory=stored, admission="counted") for name in ("notes", "logs")]

    @hookimpl
    def powerctx_admissions() -> list[AdmissionSpec]:
        return [AdmissionSpec(name="counted", factory=Rule)]

    @hookimpl
    def powerctx_renderers() -> list[RendererSpec]:
        return [RendererSpec(name="counted", factory=lambda settings: Renderer())]

    @hookimpl
    def powerctx_token_estimators() -> list[TokenEstimatorSpec]:
        return [TokenEstimatorSpec(name="counted", factory=lambda settings: Estimator())]

    return SimpleNamespace(
        __name__="counted",
        powerctx_families=powerctx_families,
        powerctx_admissions=powerctx_admissions,
        powerctx_renderers=powerctx_renderers,
        powerctx_token_estimators=powerctx_token_estimators,
    )


@pytest.mark.parametrize("budget", [{"max_bytes": 8000}, {"max_tokens": 400}])
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
@pytest.mark.parametrize(
    ("families", "words", "least"),
    [(("notes", "logs"), ("three", "two", "one"), (8, 8)), (("notes",), ("one", "two", "three"), (8, 4))],
)
def test_a_step_that_fails_leaves_the_committed_state(
    tmp_path: Path,
    budget: dict[str, int],
    error: type[BaseException],
    *,
    families: tuple[str, ...],
    words: tuple[str, ...],
    least: tuple[int, int],
) -> None:
    """Each call that rounds make of a rule, a renderer or an estimator fails in turn; the one before it stands.

    A round may put what it adds in front of what there was, or behind it, where that is not rendered again.
    """
    calls = Calls()
    files = []
    for most in ROUNDS:
        files.append(tmp_path / f"r{most}.toml")
        files[-1].write_text(f'policy_id = "acme.r{most}"\nmax_rounds = {most}\nmin_candidates = 64\n')
    settings = {"recall": {"gate_files": [str(file) for file in files]}, "tokens": {"estimator": "counted"}}
    with powerctx.open("memory://", plugins=(), extra=[parts(calls)], settings=settings) as ctx:
        ctx.put(
            Item(scope_id=scope, family=family, artifact_id=f"{place}", text=f"alpha {scope} {family} {word}")
            for scope in ("s", "r")
            for family in families
            for place, word in enumerate(words)
        )

        def prepared(most: int) -> powerctx.PreparedContext:
            return ctx.prepare(
                QUERY,
                scope_id="s",
                references=["r"],
                families=families,
                policy=COMPATIBLE.policy_id,
                gate=f"acme.r{most}",
                renderer="counted",
                max_items=64,
                **budget,
            )

        committed, made = [], []
        for most in ROUNDS:
            calls.begin()
            committed.append(prepared(most))
            made.append(calls.made)
        names = set(calls.names[made[0] :])
        outcomes: dict[int, int] = dict.fromkeys(ROUNDS, 0)
        for failing in range(made[0] + 1, made[2] + 1):
            calls.begin(failing, error)
            found = prepared(2)
            effort = found.diagnostics.effort
            assert effort is not None
            expected = committed[effort.rounds - 1]
            told = expected.diagnostics.effort
            assert told is not None
            assert (found.status, found.content, found.selected) == (
                expected.status,
                expected.content,
                expected.selected,
            )
            assert expected.diagnostics.counts == found.diagnostics.counts == effort.admission_by_family
            assert "expansion-failed" == effort.reason
            assert (told.expansion_actions, told.candidates_by_round, told.signals) == (
                effort.expansion_actions,
                effort.candidates_by_round,
                effort.signals,
            )
            outcomes[effort.rounds - 1] += 1

    assert [1, 2, 3] == [each.diagnostics.effort.rounds for each in committed]  # type: ignore[union-attr]  # it is on
    assert 3 == len({each.content for each in committed})
    assert {"admit", "open", "entry", "close"} <= names
    assert ("max_tokens" in budget) == ("cost" in names)
    assert outcomes[0] >= least[0]
    assert outcomes[1] >= least[1]
    assert 0 == outcomes[2]
