"""Queries are words, whatever they look like: nothing in them reaches an engine's query language, on any backend."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.matrix, pytest.mark.variants]

TEXTS = [
    "alphabet soup",
    "near miss",
    "title text tags",
    "and or not",
    'The quick brown fox; it\'s "quoted" (once) 100% sure_thing',
    "DROP TABLE item",
    "null",
    "北京大学 火锅",
    "nul\x00byte",
    "back\\slash and C:\\path",
    "*",
]

QUERIES = [
    *"\"'*^()[]{}%_\\;:-+~!?@#$&|/<>=,.`",
    '"alphabet',
    '"alphabet"',
    '"alphabet" *',
    "alph*",
    "^alphabet",
    "alphabet AND missing",
    "missing OR alphabet",
    "NOT alphabet",
    "alphabet NOT soup",
    "NEAR(near miss)",
    "NEAR(near miss, 1)",
    "near NEAR/2 miss",
    "title:alphabet",
    "{title text}: alphabet",
    "- title : alphabet",
    "text MATCH 'alphabet'",
    "+alphabet -soup",
    "(alphabet",
    "alphabet)",
    "'; DROP TABLE revision; --",
    "' OR '1'='1",
    "%",
    "alph%",
    "alphabe_",
    "\x00",
    "alphabet\x00soup",
    "nul\x00byte",
    "null",
    "NULL",
    ":query",
    "?",
    "?1",
    "@p0",
    "$1",
    "%s",
    "%(text)s",
    "{0}",
    "\\",
    "\\'",
    "C:\\path",
    "/* alphabet */",
    "-- alphabet",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "\ufeffalphabet",
    "alpha\u200bbet",
    "\u202ealphabet\u202c",
    "\u2028alphabet\u0085",
    "ａｌｐｈａｂｅｔ",
    "alphabet " * 900,
    "a" * 8192,
    "x " * 4096,
    "北" * 8192,
    "北京大学火锅" * 1365,
    "".join(chr(0x4E00 + n) for n in range(8192)),
    " ".join(f"word{n}" for n in range(800)),
    "😀" * 8192,
    "\u0301" * 8192,
    "\x00" * 8192,
    '"' * 8192,
    "(" * 8192,
    '"alphabet" ' * 700,
]


def label(query):
    """Name a query in test ids."""
    return ascii(query[:24])[1:-1] + (f"… {len(query)}" if len(query) > 24 else "")


@pytest.fixture
def filled(db):
    """Give a store with the texts, and their items."""
    items = [db.item(str(number), text) for number, text in enumerate(TEXTS)]
    db.put(*items)
    return db, items


@pytest.mark.parametrize("query", QUERIES, ids=label)
def test_query(filled, query):
    """A query finds what its analysed words find, no more, no less, and raises nothing."""
    db, items = filled

    db.check_lexical(query, items)


def test_no_syntax(filled):
    """Operators are words at most."""
    db, _ = filled

    assert db.found("alph*") == set()
    assert db.found("alphabe_") == set()
    assert db.found("alphabet NOT soup") >= {"0"}
    assert "0" in db.found("NOT alphabet")
    assert db.found("title:soup") == {"0", "2"}


def test_large_partition(db):
    """The same holds where an engine ranks, in a partition of thousands."""
    texts = TEXTS * 200
    db.put(*(db.item(str(number), text) for number, text in enumerate(texts)))
    frequency = {}
    for text in TEXTS:
        for term in db.terms(db.item(text=text)):
            frequency[term] = frequency.get(term, 0) + 200
    for query in QUERIES:
        result = db.lexical(query, k=20)
        held = dict(result.statistics.document_frequency)
        assert held == {term: frequency[term] for term in result.terms}, label(query)
        assert len(result.hits) >= min(20, max(held.values(), default=0)), label(query)
        for hit in result.hits:
            terms = db.terms(db.item(text=texts[int(hit.artifact_id)]))
            assert dict(hit.matched) == {term: terms[term] for term in result.terms if term in terms}, label(query)


@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*QUERIES[:50], *TEXTS])), max_size=5).map(" ".join))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_query(filled, query):
    """The same holds for any query."""
    db, items = filled

    db.check_lexical(query, items)


@pytest.mark.parametrize("value", ["'", '"', "%", "x' OR '1'='1", "\\", ":x", "?", "*", "NEAR(a b)", "😀", "\u2028"])
def test_identity(db, value):
    """The same holds for ids, threads, categories, tags and prefixes."""
    db.add("other", "apple")
    db.add(value, "apple", scope_id=value, thread=value, category=value, tags=(value,), position=0)

    assert db.found("apple", value, category=value, tags=(value,)) == {value}
    assert db.listed(value, prefix=value) == [value]
    assert db.neighbours(value) == {value: []}
    assert db.latest(value, value).thread == value
    assert db.found("apple", category=value) == set()
    assert db.listed(tags=(value,)) == []
    assert db.retire(value, scope_id=value) == 1
    assert db.purge(value, scope_id=value) == 1
    assert db.listed() == ["other"]
