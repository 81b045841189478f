"""Finding by words: which items are members, with how many occurrences of which terms."""

from __future__ import annotations

from typing import Any

from powerctx_core.ports import FetchRequest, LexicalRequest
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.text.terms import analyse, analyse_query
from powerctx_core.types import Filters, Item, Partition, QueryTerms

__all__ = ["FILTERS", "LARGE", "LexicalContract", "fill_filtered", "large", "word"]

FINDS = [
    ("北京", "他在北京大学读书"),
    ("北京大学", "北京大学"),
    ("火锅", "我喜欢吃火锅"),
    ("資料庫", "我们的资料库很小"),
    ("资料库", "我們的資料庫很小"),
    ("ラーメン", "昨日ラーメンを食べた"),
    ("らーめん", "きのうらーめんをたべた"),
    ("도서관", "도서관에서 공부했다"),
    ("도서관에서", "그 도서관은 크다"),
    ("deployments", "we deploy on Monday"),
    ("cafe", "Le Café de la Gare"),
    ("CAFÉ", "a small cafe\u0301"),
    ("ＳＱＬｉｔｅ", "sqlite is small"),
    ("базы", "база данных"),
    ("snake_case_name", "call snake_case_name()"),
    ("HTTPServer", "class HTTPServer: pass"),
    ("C++", "written in C++"),
    ("🚀", "to the 🚀 moon"),
]
NEGATIONS = [
    ("不要部署", "周五不要部署"),
    ("不", "我不吃肉"),
    ("没有", "没有测试"),
    ("not", "do not deploy"),
    ("never", "never deploy on a Friday"),
]
STOP_WORDS = [
    ("怎么办", "出错了怎么办"),
    ("what is this", "and what is this about"),
    ("to be or not to be", "to be or not to be, said he"),
    ("这是什么", "这是什么东西"),
]
MISSES = [("上海", "北京大学"), ("deploy", "depot"), ("cat", "concatenate"), ("a.c", "abc"), ("not", "deploy it")]

LARGE = 3000
FILTERS: list[dict[str, Any]] = [
    {"tags": ("x",)},
    {"category": "1"},
    {"since": Database.at(4)},
    {"until": Database.at(1)},
    {"tags": ("none",)},
]


def word(number: int) -> str:
    """Make a word that is one term of its own."""
    return "w" + "".join("bcdfghjkmp"[int(digit)] for digit in f"{number:03}")


def check_found(db: Database, cases: list[tuple[str, str]]) -> None:
    """Check, each pair in a scope of its own beside other words, that the query finds the text and nothing else."""
    for number, (_, text) in enumerate(cases):
        db.put(db.item("it", text, scope_id=f"{number}"), db.item("other", "zzz", scope_id=f"{number}"))

    assert {(query, text): db.found(query, f"{number}") for number, (query, text) in enumerate(cases)} == {
        case: {"it"} for case in cases
    }


def fill_filtered(db: Database) -> None:
    """Store six items that the filters tell apart."""
    for number in range(6):
        tags = ("x",) if number < 2 else ()
        db.add(str(number), "apple", tags=tags, category=str(number % 2), updated_at=db.at(number))


def large(db: Database) -> list[Item]:
    """Store a large partition of which ten items share a word, and six a tag."""
    items = [
        db.item(
            f"{n:04}",
            f"common common word{n % 7} {word(n % 1000)}" + (" rare 北京大学" if n % 300 == 0 else ""),
            tags=("few",) if n % 500 == 1 else (),
        )
        for n in range(LARGE)
    ]
    db.put(*items)
    return items


class LexicalContract(StoreContract):
    """Finding by words: index, admission and gate analyse the same text in the same way."""

    def test_finds_sub_words(self, db: Database) -> None:
        """Sub-words of Han, kana and Hangul, both forms of Chinese, stems and folded words are found."""
        check_found(db, FINDS)

    def test_finds_negations(self, db: Database) -> None:
        """Negations are words like others."""
        check_found(db, NEGATIONS)

    def test_finds_stop_words(self, db: Database) -> None:
        """A query of stop words only is looked for with all its words."""
        check_found(db, STOP_WORDS)

    def test_finds_no_other_words(self, db: Database) -> None:
        """Words that only look alike are not found."""
        for number, (_, text) in enumerate(MISSES):
            db.add("it", text, scope_id=f"{number}")

        assert {case: db.found(case[0], f"{number}") for number, case in enumerate(MISSES)} == {
            case: set() for case in MISSES
        }

    def test_what_is_searched(self, db: Database) -> None:
        """Title, body, category and tags are one text; abstract, overview, thread, origin, metadata are not in it."""
        db.add(
            "a", "body", title="title", category="category", tags=("tag", "two words"), abstract="abstract",
            overview="overview", thread="thread", origin="origin", meta={"meta": "meta"},
        )  # fmt: skip
        hidden = ("abstract", "overview", "thread", "origin", "meta")

        assert {query: db.found(query) for query in ("body", "title", "category", "tag", "words")} == {
            query: {"a"} for query in ("body", "title", "category", "tag", "words")
        }
        assert {query: db.found(query) for query in hidden} == {query: set() for query in hidden}

    def test_occurrences(self, db: Database) -> None:
        """Each member says how often it holds each term, and how long it is."""
        text = "apple pear apple 北京 apple-pie 北京大学"
        db.add("a", text, title="Apple", category="fruit", tags=("pear",))
        hit = db.hits("apple pear 北京 missing")["a"]
        terms = analyse(f"Apple\n{text}\nfruit\npear")

        assert dict(hit.matched) == {
            term: terms[term] for term in analyse_query("apple pear 北京").terms if term in terms
        }
        assert hit.matched["appl"] >= 4
        assert hit.length == sum(terms.values())

    def test_many_occurrences(self, db: Database) -> None:
        """Counts are exact far beyond one byte."""
        db.add("a", "apple " * 100_000 + "pear")

        assert dict(db.hits("apple pear")["a"].matched) == {"appl": 100_000, "pear": 1}

    def test_without_terms(self, db: Database) -> None:
        """Items and queries without any term are in order: the one is never found, the other finds nothing."""
        db.add("a", "...")
        db.add("b", "apple")
        result = db.lexical("?!")

        assert (result.hits, result.terms) == ((), ())
        assert db.found("apple") == {"b"}

    def test_filters_restrict_members(self, db: Database) -> None:
        """Every filter restricts the members."""
        fill_filtered(db)

        assert [db.found("apple", **some) for some in FILTERS] == [
            {"0", "1"},
            {"1", "3", "5"},
            {"4", "5"},
            {"0"},
            set(),
        ]

    def test_rarest_terms(self, db: Database) -> None:
        """Of more than 64 terms the rarest 64 are used, everywhere in the result."""
        db.put(*(db.item(str(n), " ".join(word(k) for k in range(n, 100))) for n in range(100)))
        result = db.lexical(" ".join(word(k) for k in range(100)), k=1000)

        # Word k is in the items 0..k, so the first words are the rarest.
        assert set(result.terms) == {word(k) for k in range(64)}
        assert set(result.statistics.document_frequency) == {word(k) for k in range(64)}
        assert {hit.artifact_id for hit in result.hits} == {str(n) for n in range(64)}
        assert all(set(hit.matched) == {word(k) for k in range(int(hit.artifact_id), 64)} for hit in result.hits)

    def test_quoted_terms_first(self, db: Database) -> None:
        """Quoted words are used even when they are common."""
        db.put(*(db.item(str(n), " ".join(word(k) for k in range(n, 100))) for n in range(100)))
        result = db.lexical(" ".join(word(k) for k in range(99)) + f' "{word(99)}"', k=1000)

        assert set(result.terms) == {word(99), *(word(k) for k in range(63))}

    def test_many_unknown_terms(self, db: Database) -> None:
        """Terms that no item holds take no room among the 64."""
        db.add("a", "apple")
        query = " ".join(word(k) for k in range(500)) + " apple"

        assert db.found(query) == {"a"}
        assert db.lexical(query).terms == ("appl",)

    def test_order_of_terms_is_the_callers(self, db: Database) -> None:
        """A query that was made by hand is taken as it is."""
        db.add("a", "apple pear")
        query = QueryTerms(("pear", "appl", "none"), frozenset({"pear"}), frozenset(), 3)
        with db.snapshot() as snapshot:
            result = snapshot.lexical([LexicalRequest(partition=Partition("s", "memory"), query=query, k=5)])[0]

        assert result.terms == ("pear", "appl")
        assert dict(result.hits[0].matched) == {"pear": 1, "appl": 1}

    def test_several_requests(self, db: Database) -> None:
        """Several requests of one call are each answered, in their order, repeated ones too."""
        db.add("a", "apple", tags=("x",))
        db.add("b", "apple")
        db.add("c", "pear", scope_id="other")
        db.add("d", "apple", family="experience")
        requests = [
            db.request("apple"),
            db.request("apple", "nowhere"),
            db.request("pear", "other"),
            db.request("apple", tags=("x",)),
            db.request("apple", family="experience"),
            db.request("?!"),
            db.request("apple"),
        ]
        with db.snapshot() as snapshot:
            results = snapshot.lexical(requests)
            none = list(snapshot.lexical([]))

        assert none == []
        assert [{hit.artifact_id for hit in result.hits} for result in results] == [
            {"a", "b"},
            set(),
            {"c"},
            {"a"},
            {"d"},
            set(),
            {"a", "b"},
        ]

    def test_many_large_requests(self, db: Database) -> None:
        """One call takes 32 requests of 64 terms each: a scope and the 31 that it may refer to."""
        words = [word(number) for number in range(64)]
        db.put(*(db.item(f"a{scope}", " ".join(words[scope:]), scope_id=f"scope-{scope}") for scope in range(32)))
        requests = [db.request(" ".join(words), f"scope-{scope}") for scope in range(32)]
        with db.snapshot() as snapshot:
            results = snapshot.lexical(requests)

        assert [{hit.artifact_id: dict(hit.matched) for hit in result.hits} for result in results] == [
            {f"a{scope}": dict.fromkeys(words[scope:], 1)} for scope in range(32)
        ]

    def test_fetched_details(self, db: Database) -> None:
        """Details are those of the current revision, with what is known of it already; unknown keys are left out."""
        db.add("a", "old")
        db.add("a", "apple", title="T", tags=("x",))
        db.add("b", "apple")
        with db.snapshot() as snapshot:
            keys = {hit.artifact_id: hit.key for hit in snapshot.lexical([db.request("apple")])[0].hits}
            found = snapshot.fetch(FetchRequest(keys=(keys["b"], keys["a"], keys["b"], 1 << 61)))

            assert set(found) == set(keys.values())
            candidate = found[keys["a"]]
            assert (candidate.address.uri, candidate.title, candidate.head) == ("powerctx://s/memory/a@2", "T", "apple")
            assert candidate.length == sum(analyse("T\napple\nx").values())
            assert candidate.matched == {}
            assert candidate.cosine is None
            hit = snapshot.lexical([db.request("apple t")])[0].hits
            known = {known.key: known for known in hit if known.artifact_id == "a"}
            request = FetchRequest(
                keys=(keys["a"], keys["b"]), terms=("appl", "none"), hits=known, cosines={keys["b"]: 0.25}
            )
            found = snapshot.fetch(request)

        assert list(found) == [keys["a"], keys["b"]]
        assert (dict(found[keys["a"]].matched), found[keys["a"]].cosine) == ({"appl": 1, "t": 1}, None)
        assert (dict(found[keys["b"]].matched), found[keys["b"]].cosine) == ({"appl": 1}, 0.25)

    def test_best_of_a_large_partition(self, db: Database) -> None:
        """In a large partition a store may leave out members beyond k, but none that few share."""
        items = large(db)
        few = {item.artifact_id for item in items if item.tags}
        rare = {f"{n:04}" for n in range(0, LARGE, 300)}
        result = db.lexical("common", k=50)

        assert 50 <= len({hit.artifact_id for hit in result.hits}) == len(result.hits) <= LARGE
        assert all(dict(hit.matched) == {"common": 2} for hit in result.hits)
        assert db.found("rare") == db.found("北京") == rare
        assert db.found("common", k=len(few), tags=("few",)) == few
        assert rare <= db.found("common rare", k=50)
        db.retire(*sorted(rare)[1:])
        assert db.found("rare") == {"0000"}
        db.put(*(db.item(name, "rare again") for name in sorted(rare)[1:]))
        assert db.found("rare") == rare

    def test_default_filters(self, db: Database) -> None:
        """A filter that filters nothing changes nothing."""
        db.add("a", "apple")

        assert db.lexical("apple", time_field="event") == db.lexical("apple")
        assert not Filters(time_field="event")
