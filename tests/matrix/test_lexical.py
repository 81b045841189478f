"""Finding by words: members, occurrences, lengths and statistics, on every backend."""

import pytest

from powerctx_core.ports import FetchRequest, LexicalRequest
from powerctx_core.text.terms import analyse, analyse_query
from powerctx_core.types import Filters, Partition, QueryTerms

pytestmark = [pytest.mark.matrix, pytest.mark.variants]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("北京", "他在北京大学读书"),
        ("北京大学", "北京大学"),
        ("火锅", "我喜欢吃火锅"),
        ("怎么办", "出错了怎么办"),
        ("資料庫", "我们的资料库很小"),
        ("资料库", "我們的資料庫很小"),
        ("ラーメン", "昨日ラーメンを食べた"),
        ("らーめん", "きのうらーめんをたべた"),
        ("도서관", "도서관에서 공부했다"),
        ("도서관에서", "그 도서관은 크다"),
        ("不要部署", "周五不要部署"),
        ("没有", "没有测试"),
        ("not", "do not deploy"),
        ("never", "never deploy on a Friday"),
        ("deployments", "we deploy on Monday"),
        ("cafe", "Le Café de la Gare"),
        ("CAFÉ", "a small cafe\u0301"),
        ("ＳＱＬｉｔｅ", "sqlite is small"),
        ("базы", "база данных"),
        ("snake_case_name", "call snake_case_name()"),
        ("HTTPServer", "class HTTPServer: pass"),
        ("C++", "written in C++"),
        ("🚀", "to the 🚀 moon"),
    ],
)
def test_finds(db, query, text):
    """Sub-words of Han, kana and Hangul, both forms of Chinese, negations and folded words are found."""
    db.add("it", text)
    db.add("other", "zzz")

    assert db.found(query) == {"it"}


@pytest.mark.parametrize(
    ("query", "text"), [("上海", "北京大学"), ("deploy", "depot"), ("cat", "concatenate"), ("a.c", "abc")]
)
def test_finds_nothing(db, query, text):
    """Other words are not found."""
    db.add("it", text)

    assert db.found(query) == set()


def test_all_of_the_item(db):
    """Title, body, category and tags are one text; abstract, overview, thread, origin and metadata are not searched."""
    db.add(
        "a", "body", title="title", category="category", tags=("tag", "two words"), abstract="abstract",
        overview="overview", thread="thread", origin="origin", meta={"meta": "meta"},
    )  # fmt: skip
    hidden = ("abstract", "overview", "thread", "origin", "meta")

    assert {query: db.found(query) for query in ("body", "title", "category", "tag", "words")} == {
        query: {"a"} for query in ("body", "title", "category", "tag", "words")
    }
    assert {query: db.found(query) for query in hidden} == {query: set() for query in hidden}


def test_occurrences(db):
    """Each member says how often it holds each term, and how long it is."""
    text = "apple pear apple 北京 apple-pie 北京大学"
    db.add("a", text, title="Apple", category="fruit", tags=("pear",))
    hit = db.hits("apple pear 北京 missing")["a"]
    terms = analyse(f"Apple\n{text}\nfruit\npear")

    assert dict(hit.matched) == {term: terms[term] for term in analyse_query("apple pear 北京").terms if term in terms}
    assert hit.matched["appl"] >= 4
    assert hit.length == sum(terms.values())


def test_many_occurrences(db):
    """Counts are exact far beyond one byte."""
    db.add("a", "apple " * 100_000 + "pear")

    assert dict(db.hits("apple pear")["a"].matched) == {"appl": 100_000, "pear": 1}


def test_no_terms(db):
    """Items and queries without any term are in order: the one counts as an item, the other finds nothing."""
    db.add("a", "...")
    db.add("b", "apple")
    result = db.lexical("?!")

    assert (result.hits, result.terms, result.statistics.items) == ((), (), 2)
    db.check_lexical("apple", [db.item("a", "..."), db.item("b", "apple")])


def test_statistics_follow(db):
    """Number, mean length and document frequencies are right after every kind of write."""
    held = {}
    steps = [
        ("put", "a", "apple 北京大学"),
        ("put", "b", "apple apple pear"),
        ("put", "a", "pear"),
        ("put", "a", "pear"),
        ("retire", "b", None),
        ("put", "c", "a long text about apple trees in 北京"),
        ("put", "b", "apple apple pear"),
        ("purge", "c", None),
        ("put", "c", "..."),
        ("put", "a", "apple 北京大学"),
        ("retire", "a", None),
        ("purge", "a", None),
        ("retire", "b", None),
        ("retire", "c", None),
    ]
    for kind, name, text in steps:
        if kind == "put":
            db.add(name, text)
            held[name] = db.item(name, text)
        else:
            getattr(db, kind)(name)
            held.pop(name, None)
        db.check_lexical("apple pear 北京 missing", list(held.values()))


def test_filters_keep_statistics(db):
    """Filters restrict the members, never the statistics."""
    for number in range(6):
        db.add(
            str(number), "apple", tags=("x",) if number < 2 else (), category=str(number % 2), updated_at=db.at(number)
        )
    whole = db.lexical("apple")
    filters = [{"tags": ("x",)}, {"category": "1"}, {"since": db.at(4)}, {"until": db.at(1)}, {"tags": ("none",)}]

    assert [db.found("apple", **some) for some in filters] == [{"0", "1"}, {"1", "3", "5"}, {"4", "5"}, {"0"}, set()]
    assert all(db.lexical("apple", **some).statistics == whole.statistics for some in filters)
    assert all(db.lexical("apple", **some).terms == whole.terms for some in filters)


def test_other_partitions_do_not_count(db):
    """Statistics are those of the partition alone."""
    db.add("a", "apple")
    for number in range(5):
        db.add(str(number), "apple pear", scope_id="other")
        db.add(str(number), "apple pear", family="experience")

    db.check_lexical("apple pear", [db.item("a", "apple")])


def word(number):
    """Make a word that is one term of its own."""
    return "w" + "".join("bcdfghjkmp"[int(digit)] for digit in f"{number:03}")


def test_rarest_terms(db):
    """Of more than 64 terms the rarest 64 are used, everywhere in the result."""
    items = [db.item(str(n), " ".join(word(k) for k in range(n, 100))) for n in range(100)]
    db.put(*items)
    query = " ".join(word(k) for k in range(100))
    result = db.lexical(query, k=1000)

    # Word k is in the items 0..k, so the first words are the rarest.
    assert set(result.terms) == {word(k) for k in range(64)}
    assert dict(result.statistics.document_frequency) == {word(k): k + 1 for k in range(64)}
    assert {hit.artifact_id for hit in result.hits} == {str(n) for n in range(64)}
    assert all(set(hit.matched) == {word(k) for k in range(int(hit.artifact_id), 64)} for hit in result.hits)
    db.check_lexical(query, items)


def test_quoted_terms_first(db):
    """Quoted words are used even when they are common."""
    db.put(*(db.item(str(n), " ".join(word(k) for k in range(n, 100))) for n in range(100)))
    result = db.lexical(" ".join(word(k) for k in range(99)) + f' "{word(99)}"', k=1000)

    assert set(result.terms) == {word(99), *(word(k) for k in range(63))}
    assert result.statistics.document_frequency[word(99)] == 100


def test_many_unknown_terms(db):
    """Terms that no item holds take no room among the 64."""
    db.add("a", "apple")
    query = " ".join(word(k) for k in range(500)) + " apple"

    assert db.found(query) == {"a"}
    assert db.lexical(query).terms == ("appl",)


def test_order_of_terms_is_the_callers(db):
    """A query that was made by hand is taken as it is."""
    db.add("a", "apple pear")
    query = QueryTerms(("pear", "appl", "none"), frozenset({"pear"}), frozenset(), 3)
    with db.snapshot() as snapshot:
        result = snapshot.lexical([LexicalRequest(partition=Partition("s", "memory"), query=query, k=5)])[0]

    assert result.terms == ("pear", "appl")
    assert dict(result.hits[0].matched) == {"pear": 1, "appl": 1}


def test_several_requests(db):
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
        assert list(snapshot.lexical([])) == []

    assert [{hit.artifact_id for hit in result.hits} for result in results] == [
        {"a", "b"},
        set(),
        {"c"},
        {"a"},
        {"d"},
        set(),
        {"a", "b"},
    ]
    assert [result.statistics.items for result in results] == [2, 0, 1, 2, 1, 2, 2]


def test_fetch(db):
    """The details of a member are those of its current revision; unknown keys are left out, repeated ones once."""
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


def test_large_partition(db):
    """In a large partition a store may leave out members beyond k, but no statistics, and none that few share."""
    items = [
        db.item(
            f"{n:04}",
            f"common common word{n % 7} {word(n % 1000)}" + (" rare 北京大学" if n % 300 == 0 else ""),
            tags=("few",) if n % 500 == 1 else (),
        )
        for n in range(3000)
    ]
    db.put(*items)
    few = {item.artifact_id for item in items if item.tags}
    rare = {f"{n:04}" for n in range(0, 3000, 300)}
    result = db.lexical("common", k=50)

    assert 50 <= len({hit.artifact_id for hit in result.hits}) == len(result.hits) <= 3000
    assert all(dict(hit.matched) == {"common": 2} for hit in result.hits)
    assert dict(result.statistics.document_frequency) == {"common": 3000}
    assert result.statistics.mean_length == sum(sum(db.terms(item).values()) for item in items) / 3000
    assert db.found("rare") == db.found("北京") == rare
    assert db.found("common", k=5, tags=("few",)) == few
    assert rare <= db.found("common rare", k=50)
    db.retire(*sorted(rare)[1:])
    assert db.found("rare") == {"0000"}
    result = db.lexical("rare common", k=50)
    assert dict(result.statistics.document_frequency) == {"rare": 1, "common": 2991}
    assert result.statistics.items == 2991
    db.put(*(db.item(name, "rare again") for name in sorted(rare)[1:]))
    assert db.found("rare") == rare
    assert dict(db.lexical("rare").statistics.document_frequency) == {"rare": 10}


def test_default_filters_are_false(db):
    """A filter that filters nothing changes nothing."""
    db.add("a", "apple")

    assert db.lexical("apple", time_field="event") == db.lexical("apple")
    assert not Filters(time_field="event")
