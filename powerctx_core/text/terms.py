"""Lexical analysis: the terms by which items are indexed, and the terms that a query asks for.

The index drops nothing; a query drops what carries no meaning and keeps what turns it round.  Both sides, and every
store, use the functions of this module only, so index, admission and gate always see the same terms.

All functions are pure, deterministic across processes, linear in their input and safe to call from any thread; none
raises for any string.  Importing the module loads neither the stemmer nor the table of traditional characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from powerctx_core.text import boilerplate, encoding, scripts, words
from powerctx_core.text.encoding import encode
from powerctx_core.text.stopwords import HAN_CHARACTERS, NEGATIONS
from powerctx_core.types import QueryTerms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

__all__ = ["QueryTerms", "analyse", "analyse_query", "analysed_text", "analysis_version", "encode", "rarest", "written"]

_RULES: Final = 1
"""Raised by every change that gives any text other terms."""

_QUOTED = re.compile(
    r"\"[^\"\n]{1,512}+\"|“[^”\n]{1,512}+”|„[^“”\n]{1,512}+[“”]|‘[^’\n]{1,512}+’|‚[^‘’\n]{1,512}+[‘’]|「[^」\n]{1,512}+」|『[^』\n]{1,512}+』|"
    r"《[^》\n]{1,512}+》|〈[^〉\n]{1,512}+〉|«[^»\n]{1,512}+»|‹[^›\n]{1,512}+›|`[^`\n]{1,512}+`|〝[^〞\n]{1,512}+〞|"
    r"(?<!\w)'[^'\n]{1,512}+'(?!\w)"
)


@cache
def analysis_version() -> str:
    """What the terms of a text depend on besides the text; an index made under another version has to be made anew.

    Returns:
        A short identifier of our rules, the stemmer, the table of traditional characters and Unicode's data.  The first
        call loads the libraries (30 ms).
    """
    return (
        f"terms-{_RULES}.{encoding.VERSION}+snowball-{words.stemmer_version()}+t2s-{scripts.table_version()}"
        f"+unicode-{unicodedata.unidata_version}"
    )


def analysed_text(title: str | None, text: str, category: str | None, tags: Sequence[str]) -> str:
    """The one string that stands for an item in the index, at admission and at the gate.

    Args:
        title: the title, if any.
        text: the body.
        category: the category, if any.
        tags: in the item's order.

    Returns:
        The parts that are not empty, each on a line of its own, so that no term spans two of them.
    """
    if not title and not category and not tags:
        return text
    return "\n".join(part for part in (title, text, category, *tags) if part)


def analyse(text: str) -> dict[str, int]:
    """The terms of *text* for the index, with how often each occurs; all words are in it.

    Args:
        text: what `analysed_text` gives; any string of any length.

    Returns:
        Occurrences by term, in order of first occurrence.  The length of the item is their sum.
    """
    if text.isascii():
        return dict(Counter(chain.from_iterable(map(words.terms_of, scripts.WORDS.findall(text)))))
    text = scripts.normalised(text)
    bag: list[str] = []
    patterns = scripts.ranges()
    if patterns.other.search(text):
        _add_mixed(bag, text)
    else:
        bag += chain.from_iterable(map(words.terms_of, scripts.WORDS.findall(text)))
        for run in patterns.cjk.findall(text):
            scripts.add_run(bag, run)
        for word in patterns.hangul.findall(text):
            scripts.add_hangul(bag, word)
    return dict(Counter(bag))


def _add_mixed(bag: list[str], text: str) -> None:
    for match in scripts.mixed().tokens.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "word":
            bag += words.terms_of(token)
        elif kind == "run":
            scripts.add_run(bag, token)
        elif kind == "hangul":
            scripts.add_hangul(bag, token)
        elif kind == "clusters":
            scripts.add_clusters(bag, token)
        else:
            bag.append(token)


def _parts(text: str) -> Iterator[tuple[int, Iterable[words.Part]]]:
    """The position of each token of a query, and its parts."""
    if text.isascii():
        for match in scripts.WORDS.finditer(text):
            yield match.start(), words.parts_of(match[0])
        return
    for found in scripts.mixed().tokens.finditer(text):
        kind, token = found.lastgroup, found[0]
        parts: Iterable[words.Part]
        if kind == "word":
            parts = words.parts_of(token)
        elif kind == "run":
            parts = scripts.run_parts(token)
        elif kind == "hangul":
            parts = scripts.hangul_parts(token)
        elif kind == "clusters":
            parts = scripts.cluster_parts(token)
        else:
            parts = ((token, False, True),)
        yield found.start(), parts


def _contentless(term: str) -> bool:
    return term in NEGATIONS or all(character in NEGATIONS or character in HAN_CHARACTERS for character in term)


def _selected(text: str, quotations: Sequence[tuple[int, int]], *, every: bool = False) -> QueryTerms:
    """The terms of *text* without its stop words, or with them when *every*, or when only negations would be left."""
    quoted: dict[str, bool] = {}
    kept: dict[str, bool] = {}
    pending = list(reversed(quotations))
    for start, parts in _parts(text):
        while pending and pending[-1][1] <= start:
            pending.pop()
        inside = bool(pending) and pending[-1][0] <= start
        chosen = quoted if inside else kept
        for term, stop, unit in parts:
            if not stop or inside or every:
                chosen[term] = unit or chosen.get(term, False)
    if not every and not quoted and all(map(_contentless, kept)):
        return _selected(text, quotations, every=True)
    terms = quoted | {term: unit for term, unit in kept.items() if term not in quoted} if quoted else kept
    units = frozenset(term for term, unit in terms.items() if unit) or frozenset(terms)
    return QueryTerms(tuple(terms), units, frozenset(quoted), len(terms))


def analyse_query(query: str) -> QueryTerms:
    """The terms that *query* asks for.

    Stop words are dropped, except in quotation marks, and except when nothing else is there but negations, which always
    stay.
    Instructions to the model ("answer only from the given context") are dropped unless the query is nothing else.

    Args:
        query: any string.

    Returns:
        The terms; none only when the query holds no letter, digit or emoji.  Their units are never none: words of
        alphabetic scripts (the parts of a compound, not the whole) and characters of Han; pairs only where single
        characters are not asked for (kana, Hangul, Thai and the like).
    """
    text = query if query.isascii() else scripts.normalised(query)
    core = boilerplate.without_boilerplate(text)
    quotations = [match.span() for match in _QUOTED.finditer(core)]
    selected = _selected(core, quotations)
    return selected if selected.terms or core is text else _selected(text, [])


def written(query: str, terms: Collection[str]) -> dict[str, str]:
    """How the words of *query* are written there that became terms of another form, such as stems.

    Args:
        query: any string.
        terms: those that are wanted, of :func:`analyse_query`.

    Returns:
        Term to word, where these differ: the first word that gives the term, or of a compound the part that does.
    """
    text = query if query.isascii() else scripts.normalised(query)
    if text.isascii():
        tokens = scripts.WORDS.findall(text)
    else:
        tokens = [found[0] for found in scripts.mixed().tokens.finditer(text) if found.lastgroup == "word"]
    found: dict[str, str] = {}
    for token in tokens:
        for term in words.terms_of(token):
            if term in terms and term not in found:
                found[term] = next((piece for piece in words.pieces_of(token) if term in words.terms_of(piece)), token)
    return {term: word for term, word in found.items() if term != word}


def rarest(query: QueryTerms, document_frequency: Mapping[str, int], limit: int = 64) -> tuple[str, ...]:
    """The terms of *query* that are worth looking up.

    Args:
        query: an analysed query.
        document_frequency: how many items hold each term; a term that is missing is in none.
        limit: how many terms at most.

    Returns:
        The terms that occur, in the order of the query.  When there are more than *limit*, they are the quoted ones
        first, then those in the fewest items, ties by position.
    """
    found = [term for term in query.terms if document_frequency.get(term, 0) > 0]
    if len(found) <= limit:
        return tuple(found)
    ranked = sorted(found, key=lambda term: (term not in query.quoted, document_frequency[term]))
    chosen = set(ranked[: max(limit, 0)])
    return tuple(term for term in found if term in chosen)
