"""Receipts as values: what is in them, what version 1 cannot say, evidence of rerankers, limits, and round trips."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest

from powerctx_core import wire
from powerctx_core.receipt import v1, v2
from powerctx_core.receipt.making import Receipt, make as made
from powerctx_core.receipt.parts import RecallRound, ReceiptError, encoded, plain, query_digest
from powerctx_core.receipt.rerank import SETTINGS, Configuration, Prompt, Rerank, config_digest
from powerctx_core.receipt.run import Policy, Run, Search, Selection, Used
from powerctx_core.receipt.v1 import ReceiptV1
from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.types import Address

POLICY = Policy(policy_id="powerctx.recall.v1", policy_digest="sha256:" + "0" * 64)
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
PROMPT = Prompt(
    key="rerank",
    definition_version="1",
    builtin_version="3",
    selection="built_in",
    selected_version="3",
    compiled_digest="sha256:" + "a" * 64,
)
MODEL = Configuration(
    policy_id="rerank.v1",
    model="acme/ranker-2",
    effective_settings={"temperature": 0, "max_output_tokens": 200},
    timeout_seconds=5.0,
    max_requests=1,
    prompt=PROMPT,
    non_deterministic=True,
)
PLAIN = Configuration(
    policy_id="rerank.v1",
    model=None,
    effective_settings={"algorithm": "length", "algorithm_version": "2"},
    timeout_seconds=1.0,
    max_requests=1,
    prompt=None,
    non_deterministic=False,
)
CODE = {
    "fingerprint": "f" * 40,
    "path": "src/store.py",
    "file_sha256": "b" * 64,
    "start_line": 10,
    "end_line": 42,
    "snippet_sha256": "c" * 64,
}


def make(record: Run, version: int) -> Receipt:
    """Make a receipt with some id."""
    return made(record, version, str(uuid.uuid4()))


def selection(number: int = 0, *, family: str = "memory", scope: str = "s", **more: Any) -> Selection:
    """Make an entry."""
    given = {"rendered_bytes": 100 + number, "truncated": False, "part": "inject", "detail": "full", **more}
    return Selection(address=Address(scope, family, f"n{number}", 1 + number), **given)


def run(**more: Any) -> Run:
    """Make the record of a call."""
    given: dict[str, Any] = {
        "query": "Why SQLite?",
        "content": "We chose it.",
        "outcome": "delivered",
        "policy": POLICY,
        "budgets": (Used(unit="bytes", requested=8000, used=12), Used(unit="items", requested=8, used=1)),
        "rounds": (RecallRound(round=0, outcome="completed", retained=True),),
        "searches": (Search(round=0, family="memory", mode="fts", outcome="completed"),),
        "selected": (selection(),),
        "stages": (("plan", 0.001), ("retrieve", 0.002), ("retrieve", 0.003)),
    }
    return Run(**{**given, **more})


def check(receipt: ReceiptV1 | ReceiptV2) -> dict[str, Any]:
    """Check a receipt against its published schema and its round trip, and return its JSON."""
    form: dict[str, Any] = wire.to_json(receipt)
    name = "receipt-v1" if isinstance(receipt, ReceiptV1) else "receipt-v2"
    schema = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(form)
    text = json.dumps(form, ensure_ascii=False)
    assert receipt == wire.structure(type(receipt), json.loads(text))
    return form


def both(record: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both versions of the receipt of a record, checked."""
    return check(make(record, 1)), check(make(record, 2))


def test_the_words_of_a_record_are_those_of_the_receipt() -> None:
    """Version 1 has the source's values and nothing else; version 2 has all of them, but for the name of memory."""
    one, two = (json.loads((FOLDER / f"receipt-{name}.json").read_text("utf-8"))["$defs"] for name in ("v1", "v2"))

    def words(found: Any, cls: str, field: str) -> set[str]:
        return set(found[cls]["properties"][field]["enum"])

    assert words(one, "SearchGroup", "family") == {"atomic-memory", "topic-memory", "experience", "profile", "code"}
    assert words(one, "SearchGroup", "mode") == {"fts", "vector", "hybrid", "snapshot", "code", "none"}
    assert words(one, "SearchGroup", "outcome") == {"completed", "not_run", "failed"}
    assert words(one, "OmittedGroup", "reason") == {
        "duplicate", "blank", "family_limit", "entry_limit", "below_min_bytes", "no_fitting_truncation",
        "rerank_not_selected", "not_retrieved",
    }  # fmt: skip
    for cls, field in (("SearchGroup", "mode"), ("SearchGroup", "outcome"), ("SearchGroup", "fallback_reason"),
                       ("OmittedGroup", "reason"), ("RerankGroup", "outcome")):  # fmt: skip
        assert words(one, cls, field) <= words(two, cls, field)


def test_a_receipt_of_each_version() -> None:
    """Both say what happened; digests are of exactly the query and the content, and neither is in it."""
    first, second = both(run())

    assert list(first) == [
        "schema", "receipt_id", "policy_id", "query_digest", "content_digest", "requested_max_bytes", "used_bytes",
        "truncated", "non_deterministic", "retrieval", "selected", "omitted", "stages",
    ]  # fmt: skip
    assert first["schema"] == first["policy_id"] == "powercontext.prepared-context-receipt.v1"
    assert first["query_digest"] == "sha256:" + hashlib.sha256(b"Why SQLite?").hexdigest()
    assert first["content_digest"] == "sha256:" + hashlib.sha256(b"We chose it.").hexdigest()
    assert (first["requested_max_bytes"], first["used_bytes"]) == (8000, 12)
    assert first["selected"] == [
        {
            "artifact_address": {
                "scope_id": "s",
                "artifact": {"family": "atomic-memory", "artifact_id": "n0", "revision": 1},
            },
            "rendered_bytes": 100,
            "truncated": False,
        }
    ]
    assert first["stages"] == [
        {"stage": "plan", "duration_ms": 1.0, "count": 1},
        {"stage": "retrieve", "duration_ms": 5.0, "count": 2},
    ]
    assert second["families"] == ["memory"]
    assert second["selected"] == [{"scope": 0, "family": 0, "artifact_id": "n0", "revision": 1, "rendered_bytes": 100}]
    assert "Why" not in json.dumps([first, second])


def test_an_address_comes_back_from_either_version() -> None:
    """Version 1 writes memory as atomic-memory; reading it leads to the family that stores it."""
    first, second = make(run(), 1), make(run(), 2)
    assert isinstance(second, ReceiptV2)

    address = Address("s", "memory", "n0", 1)
    assert Address.from_receipt(wire.to_json(first)["selected"][0]["artifact_address"]) == address
    assert second.addresses == (address,)


@pytest.mark.parametrize(
    ("query", "same"),
    [("  Why SQLite?\n", "Why SQLite?"), ("Cafe\u0301", "Caf\u00e9"), ("\u3000問い\u3000", "問い")],
)
def test_the_digest_is_of_the_normalised_query(query: str, same: str) -> None:
    """White space around it and forms of a character make no difference; anything else does."""
    assert query_digest(query) == query_digest(same)
    assert query_digest(query) != query_digest(query + "x")


def test_a_long_query_of_han_has_a_digest() -> None:
    """A query within its characters may be longer than 8192 bytes."""
    query = "资" * 8192
    first, _ = both(run(query=query))

    assert first["query_digest"] == "sha256:" + hashlib.sha256(query.encode()).hexdigest()


def test_an_empty_answer_has_a_receipt() -> None:
    """It tells nothing stored from nothing that fits."""
    nothing = run(content=None, outcome="no_content", empty_reason="no_content", selected=(),
                  omitted={("memory", "not_retrieved"): 1})  # fmt: skip
    tight = run(content=None, outcome="budget", empty_reason="budget", selected=(),
                omitted={("memory", "below_min_bytes"): 2, ("memory", "no_fitting_truncation"): 3})  # fmt: skip
    first, second = both(nothing)
    third, fourth = both(tight)

    assert (first["content_digest"], first["used_bytes"], first["selected"]) == (None, 0, [])
    assert first["omitted"] == [{"family": "atomic-memory", "reason": "not_retrieved", "count": 1}]
    assert [group["count"] for group in third["omitted"]] == [2, 3]
    assert (second["empty_reason"], fourth["empty_reason"]) == ("no_content", "budget")


def test_groups_are_counted_together_and_sorted() -> None:
    """What is alike is one group; a hybrid and a lexical search of one round are two."""
    searches = [
        Search(round=0, family="memory", mode="hybrid", outcome="completed"),
        Search(round=0, family="memory", mode="fts", outcome="completed", fallback_reason="inference_timeout"),
        Search(round=0, family="memory", mode="fts", outcome="completed", fallback_reason="inference_timeout"),
        Search(round=0, family="experience", mode="none", outcome="not_run"),
        Search(round=1, family="memory", mode="fts", outcome="completed", fallback_reason="reused_fts_fallback"),
    ]
    forward, _ = both(run(searches=tuple(searches)))
    backward, _ = both(run(searches=tuple(reversed(searches))))

    found = forward["retrieval"]["searches"]
    assert found == backward["retrieval"]["searches"]
    assert [tuple(group.values()) for group in found] == [
        (0, "atomic-memory", "fts", "completed", "inference_timeout", 2),
        (0, "atomic-memory", "hybrid", "completed", "none", 1),
        (0, "experience", "none", "not_run", "none", 1),
        (1, "atomic-memory", "fts", "completed", "reused_fts_fallback", 1),
    ]


def test_the_same_short_id_in_two_scopes_is_two_identities() -> None:
    """Every identity has its scope."""
    first, second = both(run(selected=(selection(scope="s"), selection(scope="t"))))

    assert [item["artifact_address"]["scope_id"] for item in first["selected"]] == ["s", "t"]
    assert (second["scopes"], [item["scope"] for item in second["selected"]]) == (["s", "t"], [0, 1])


def test_a_failed_expansion_keeps_the_first_round() -> None:
    """The round that was dropped is told, and nothing of it counts as a search."""
    rounds = (
        RecallRound(round=1, outcome="expansion_failed", retained=False),
        RecallRound(round=0, outcome="completed", retained=True),
    )
    first, _ = both(run(rounds=rounds))

    assert [(each["round"], each["outcome"], each["retained"]) for each in first["retrieval"]["rounds"]] == [
        (0, "completed", True), (1, "expansion_failed", False),
    ]  # fmt: skip
    assert len(first["retrieval"]["searches"]) == 1


@pytest.mark.parametrize("number", [18, 26])
def test_many_items_over_four_families(number: int) -> None:
    """Eighteen and twenty-six entries of four families fit version 1 with ids of 36 characters."""
    families = ("memory", "topic-memory", "profile", "experience")
    selected = tuple(
        attrs.evolve(selection(n), address=Address("project:payments", families[n % 4], f"{n:036d}", 3))
        for n in range(number)
    )
    searches = tuple(Search(round=0, family=family, mode="fts", outcome="completed") for family in families)
    first, second = both(run(selected=selected, searches=searches))

    assert len(first["selected"]) == len(second["selected"]) == number
    assert len(encoded(first)) <= v1.MOST_BYTES
    assert [item["artifact_address"]["artifact"]["artifact_id"] for item in first["selected"]] == [
        item["artifact_id"] for item in second["selected"]
    ]


def test_code_stands_behind_everything_else() -> None:
    """Its identity is that of a snippet; an incomplete one, or one in front of an item, leaves no receipt."""
    code = selection(7, family="code", evidence=CODE)
    first, second = both(run(selected=(selection(), code)))

    assert first["selected"][1]["code_evidence"] == {"scope_id": "s", **CODE}
    assert "artifact_address" not in first["selected"][1]
    assert second["selected"][1]["evidence"] == CODE
    both(run(selected=(code,)))
    short = {name: value for name, value in CODE.items() if name != "end_line"}
    for selected in ((code, selection()), (attrs.evolve(code, evidence=short),), (attrs.evolve(code, evidence={}),)):
        with pytest.raises(ReceiptError):
            make(run(selected=selected), 1)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"surface": "search"}, "prepare"),
        ({"query": None}, "prepare"),
        ({"split": True}, "split"),
        ({"budgets": (Used(unit="tokens", requested=400, used=3),)}, "bytes"),
        ({"searches": (Search(round=0, family="resource", mode="fts", outcome="completed"),)}, "family resource"),
        ({"selected": (selection(family="skill"),)}, "family skill"),
        ({"omitted": {("acme-log", "blank"): 1}}, "family acme-log"),
        ({"searches": (Search(round=0, family="memory", mode="none", outcome="late"),)}, "late"),
        ({"searches": (Search(round=0, family="memory", mode="fts", outcome="completed", fallback_reason="deadline"),)},
         "late"),
        ({"omitted": {("memory", "token_budget"): 1}}, "token_budget"),
        ({"omitted": {("memory", "late"): 1}}, "late"),
        ({"selected": (selection(detail="abstract"),)}, "in full"),
        ({"selected": (selection(evidence={"entry": 1}),)}, "identity fields"),
    ],
)  # fmt: skip
def test_what_version_1_cannot_say(more: dict[str, Any], told: str) -> None:
    """There is no receipt of version 1 then, rather than a lesser one; version 2 says it."""
    with pytest.raises(ReceiptError, match=told):
        make(run(**more), 1)
    check(make(run(**more), 2))


def test_what_never_was_a_candidate_is_no_omission_of_version_1() -> None:
    """What the floor rejected is told by version 2 alone."""
    first, second = both(run(omitted={("memory", "below_threshold"): 9, ("memory", "duplicate"): 1}))

    assert first["omitted"] == [{"family": "atomic-memory", "reason": "duplicate", "count": 1}]
    assert len(second["omitted"]) == 2


def _configurations(number: int) -> tuple[Rerank, ...]:
    return tuple(
        Rerank(round=0, outcome="selected", configuration=attrs.evolve(PLAIN, timeout_seconds=float(n + 1)))
        for n in range(number)
    )


_OMITTED = [(family, reason) for family in ("memory", "experience", "profile") for reason in v1.Reason.__args__]  # type: ignore[attr-defined]  # of a Literal
_SEARCHES = [
    Search(round=number, family=family, mode=mode, outcome="completed")
    for number in range(3)
    for family in ("memory", "experience", "profile")
    for mode in ("fts", "vector", "hybrid", "snapshot")
]
_RERANKS = tuple(
    Rerank(round=number, outcome=outcome, fallback_reason=reason, configuration=PLAIN)  # type: ignore[arg-type]  # words of the types
    for number in range(3)
    for outcome in ("selected", "fallback", "failed")
    for reason in ("none", "empty_selection", "inference_unavailable", "inference_timeout")
)


@pytest.mark.parametrize(
    ("within", "over"),
    [
        ({"selected": tuple(map(selection, range(32)))}, {"selected": tuple(map(selection, range(33)))}),
        ({"searches": tuple(_SEARCHES[:32])}, {"searches": tuple(_SEARCHES[:33])}),
        ({"reranks": _configurations(8)}, {"reranks": _configurations(9)}),
        ({"reranks": _RERANKS[:32]}, {"reranks": _RERANKS[:33]}),
        ({"omitted": dict.fromkeys(_OMITTED[:16], 1)}, {"omitted": dict.fromkeys(_OMITTED[:17], 1)}),
    ],
    ids=["selected", "searches", "configs", "reranks", "omitted"],
)
def test_each_limit_of_version_1(within: dict[str, Any], over: dict[str, Any]) -> None:
    """Up to a limit there is a receipt, beyond it none at all."""
    make(run(**within), 1)
    with pytest.raises(ReceiptError, match="are the most"):
        make(run(**over), 1)


def test_an_oversize_version_1_is_no_receipt() -> None:
    """Identities are never cut: 32 entries of long ids do not fit, and version 2 has them all."""
    selected = tuple(
        attrs.evolve(selection(n), address=Address("项" * 85, "memory", f"{n:02d}" + "字" * 42, 1)) for n in range(32)
    )
    with pytest.raises(ReceiptError, match="8192 are the most"):
        make(run(selected=selected), 1)

    receipt = make(run(selected=selected), 2)
    assert isinstance(receipt, ReceiptV2)
    assert receipt.addresses == tuple(each.address for each in selected)


def test_eight_items_are_small() -> None:
    """Version 2 takes at most 4 KB for eight items with ids of 36 characters."""
    selected = tuple(
        attrs.evolve(selection(n), address=Address("project:payments", "memory", f"{n:036d}", 12)) for n in range(8)
    )
    assert len(encoded(plain(make(run(selected=selected), 2)))) <= 4096


def test_a_reranker_is_told_with_what_it_was_called() -> None:
    """Calls that are alike share one configuration; a model is never deterministic, whatever its temperature."""
    calls = (
        Rerank(round=0, outcome="selected", configuration=MODEL),
        Rerank(round=0, outcome="selected", configuration=attrs.evolve(MODEL)),
        Rerank(round=1, outcome="fallback", fallback_reason="inference_timeout", configuration=MODEL),
    )
    first, second = both(run(reranks=calls, omitted={("memory", "rerank_not_selected"): 4}))

    (config,) = first["retrieval"]["rerank_configs"]
    assert config["config_id"] == config["config_digest"] == config_digest(MODEL)
    assert (config["prompt"]["scope_id"], config["prompt"]["artifact_address"]) == (None, None)
    assert [(each["round"], each["count"]) for each in first["retrieval"]["reranks"]] == [(0, 2), (1, 1)]
    assert first["non_deterministic"] is second["non_deterministic"] is True
    assert second["rerank_configs"][0]["prompt"] == 0
    assert second["prompts"][0]["key"] == "rerank"


def test_a_model_that_failed_is_non_deterministic_too() -> None:
    """What counts is that it was called; one that did not run counts for nothing."""
    failed = run(reranks=(Rerank(round=0, outcome="failed", fallback_reason="invalid_output", configuration=MODEL),))

    assert make(failed, 1).non_deterministic
    assert not make(run(reranks=(Rerank(round=0, outcome="selected", configuration=PLAIN),)), 1).non_deterministic
    assert not make(run(), 1).non_deterministic
    assert make(run(expanded_by_model=True), 1).non_deterministic


@pytest.mark.parametrize("version", [1, 2])
def test_a_reranker_without_evidence_leaves_no_receipt(version: int) -> None:
    """That nothing is known of it does not make it deterministic."""
    with pytest.raises(ReceiptError, match="does not say"):
        make(run(reranks=(Rerank(round=0, outcome="selected", configuration=None),)), version)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "acme/ranker-3"},
        {"effective_settings": {"temperature": 1, "max_output_tokens": 200}},
        {"effective_settings": {"temperature": 0}},
        {"timeout_seconds": 6.0},
        {"max_requests": 2},
        {"policy_id": "rerank.v2"},
        {"prompt": attrs.evolve(PROMPT, compiled_digest="sha256:" + "b" * 64)},
        {"prompt": attrs.evolve(PROMPT, selection="settings", selected_version="mine")},
    ],
)
def test_whatever_shapes_the_output_changes_the_digest(change: dict[str, Any]) -> None:
    """Two prompts are two configurations, though their policy has one id."""
    other = attrs.evolve(MODEL, **change)
    calls = (
        Rerank(round=0, outcome="selected", configuration=MODEL),
        Rerank(round=0, outcome="selected", configuration=other),
    )
    first, _ = both(run(reranks=calls))

    digests = [config["config_digest"] for config in first["retrieval"]["rerank_configs"]]
    assert digests == sorted({config_digest(MODEL), config_digest(other)})
    assert len(digests) == 2


def test_the_order_of_settings_is_no_difference() -> None:
    """The digest is of canonical JSON: 5 and 5.0 are one number, and keys have one order."""
    turned = attrs.evolve(MODEL, effective_settings={"max_output_tokens": 200, "temperature": 0.0}, timeout_seconds=5)

    assert config_digest(MODEL) == config_digest(turned)
    canonical = (
        '{"effective_settings":{"max_output_tokens":200,"temperature":0},"max_requests":1,"model":"acme/ranker-2",'
        '"non_deterministic":true,"policy_id":"rerank.v1","prompt":{"artifact_address":null,"builtin_version":"3",'
        f'"compiled_digest":"sha256:{"a" * 64}","definition_version":"1","key":"rerank","scope_id":null,'
        '"selected_version":"3","selection":"built_in"},"record":"powerctx.rerank-config.v1","timeout_seconds":5}'
    )
    assert config_digest(MODEL) == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"effective_settings": {"api_key": "sk-1234567890"}}, "not in the list"),
        ({"effective_settings": {"temperature": "hot"}}, "not in the list"),
        ({"effective_settings": {"temperature": True}}, "not in the list"),
        ({"effective_settings": {"reasoning_effort": "as the user said: SECRET CANARY"}}, "no single word"),
        ({"effective_settings": {"seed": 1 << 60}}, "too large"),
        ({"model": "https://user:SECRETCANARY@host/model?"}, "identity"),
        ({"model": None}, "deterministic"),
        ({"prompt": None}, "deterministic"),
        ({"non_deterministic": False}, "deterministic"),
        ({"non_deterministic": False, "model": None, "prompt": None}, "algorithm"),
    ],
)
def test_a_configuration_that_cannot_be_told(change: dict[str, Any], told: str) -> None:
    """What is on no list is not left out in silence, and no value is in the message."""
    with pytest.raises(ReceiptError, match=told) as refused:
        attrs.evolve(MODEL, **change)
    assert "CANARY" not in str(refused.value)
    assert "sk-" not in str(refused.value)


def test_no_setting_on_the_list_can_hold_content() -> None:
    """Text is one word at most, whatever the setting."""
    for name, kinds in SETTINGS.items():
        if str in kinds:
            with pytest.raises(ReceiptError):
                attrs.evolve(MODEL, effective_settings={name: "two words"})


def test_a_number_without_canonical_form_is_no_evidence() -> None:
    """Not a number has no digest."""
    with pytest.raises(ReceiptError, match="canonical"):
        config_digest(attrs.evolve(MODEL, timeout_seconds=float("nan")))


def test_the_record_shows_no_content() -> None:
    """Whoever logs one by mistake logs neither query nor content."""
    assert "SQLite" not in repr(run())
    assert "chose" not in repr(run())


def test_sizes_grow_with_the_entries() -> None:
    """32 KB up to 32 entries, 256 bytes more for each further one, and no more beyond 64."""
    assert [v2.most_bytes(n) for n in (0, 32, 33, 64, 65)] == [32768, 32768, 33024, 40960, 40960]
