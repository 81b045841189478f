"""Queries are words, whatever they look like: nothing in them reaches an engine's query language, on any backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import strategies as st

from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Item

__all__ = ["HostileContract"]

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


VALUES = ["'", '"', "%", "x' OR '1'='1", "\\", ":x", "?", "*", "NEAR(a b)", "😀", "\u2028"]
ANY_QUERY = st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*QUERIES[:50], *TEXTS])), max_size=5).map(
    " ".join
)
COPIES = 200


class HostileContract(StoreContract):
    """Queries are words, ids are ids: nothing in them reaches an engine's query language."""

    @pytest.fixture
    def texts(self, db: Database) -> list[Item]:
        """Store the texts and give their items."""
        items = [db.item(str(number), text) for number, text in enumerate(TEXTS)]
        db.put(*items)
        return items

    def test_hostile_queries(self, db: Database, texts: list[Item]) -> None:
        """Every query finds what its analysed words find, no more, no less, and raises nothing."""
        for query in QUERIES:
            db.check_members(query, texts)

    def test_hostile_queries_statistics(self, db: Database, texts: list[Item]) -> None:
        """The statistics of every query are those of its analysed words."""
        for query in QUERIES:
            db.check_statistics(query, texts)

    @pytest.mark.usefixtures("texts")
    def test_no_query_syntax(self, db: Database) -> None:
        """Operators are words at most."""
        assert db.found("alph*") == set()
        assert db.found("alphabe_") == set()
        assert db.found("alphabet NOT soup") >= {"0"}
        assert "0" in db.found("NOT alphabet")
        assert db.found("title:soup") == {"0", "2"}

    def test_hostile_queries_where_ranked(self, db: Database) -> None:
        """The same holds where an engine may leave out members, in a partition of thousands."""
        texts = TEXTS * COPIES
        db.put(*(db.item(str(number), text) for number, text in enumerate(texts)))
        frequency = Counter(term for text in TEXTS for term in db.terms(db.item(text=text)))
        for query in QUERIES:
            shown = ascii(query[:60])
            result = db.lexical(query, k=20)
            held = dict(result.statistics.document_frequency)

            assert held == {term: frequency[term] * COPIES for term in result.terms}, shown
            assert len(result.hits) >= min(20, max(held.values(), default=0)), shown
            for hit in result.hits:
                terms = db.terms(db.item(text=texts[int(hit.artifact_id)]))
                assert dict(hit.matched) == {term: terms[term] for term in result.terms if term in terms}, shown

    def test_any_query(self, db: Database, texts: list[Item], examples: Callable[[int], hypothesis.settings]) -> None:
        """What holds for the queries above holds for any."""

        @hypothesis.given(ANY_QUERY)
        @examples(60)
        def check(query: str) -> None:
            db.check_members(query, texts)

        check()

    def test_hostile_names(self, db: Database) -> None:
        """Nothing in an id, thread, category, tag or prefix is syntax."""
        db.add("other", "apple")
        for value in VALUES:
            db.add(value, "apple", scope_id=value, thread=value, category=value, tags=(value,), position=0)
        for value in VALUES:
            assert db.found("apple", value, category=value, tags=(value,)) == {value}, value
            assert db.listed(value, prefix=value) == [value], value
            assert db.neighbours(value, words="apple") == {value: []}, value
            assert db.current(value, value).thread == value, value
            assert db.found("apple", category=value) == set(), value
            assert db.listed(tags=(value,)) == [], value
        for value in VALUES:
            assert db.retire(value, scope_id=value) == 1, value
            assert db.purge(value, scope_id=value) == 1, value
        assert db.listed() == ["other"]
