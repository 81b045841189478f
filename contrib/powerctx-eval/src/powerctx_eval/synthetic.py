"""Text for measuring speed: made by a seed, with word frequencies like those of real text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate

from powerctx_core import Item

__all__ = ["LANGUAGES", "Text", "items"]

LANGUAGES = ("en", "zh")
THREAD = 50
_FREQUENT = """the of and to in a is that for it was on we with as be by at this from or an are not they have you but
were which one all their there can has more if will each about how up out them then she many some so these would other
into time look two write go see number no way could people my than first been call who now find long down day did get
come made may part over new sound take only little work know place year live back give most very after thing our just
name good sentence man think say great where help through much before line right too mean old any same tell boy follow
came want show also around form three small set put end does another well large must big even such because turn here why
ask went men read need land different home us move try kind hand picture again change off play spell air away animal
house point page letter mother answer found study still learn should world"""
_ONSETS = "b c d f g h k l m n p r s t v w st tr pl gr sh".split()
_NUCLEI = "a e i o u ea ou".split()
_CODAS = "n r s t l m ck nd st".split()
_HAN = """的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然
家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十
民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月
话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四"""


class Text:
    """A vocabulary whose n-th word is drawn about 1/n as often as the first, and what is made of it."""

    def __init__(self, lang: str, *, words: int = 20_000, seed: int = 7) -> None:
        self._lang = lang
        rng = random.Random(f"{lang}:{seed}")  # noqa: S311 (no secret)
        self._words = [*dict.fromkeys(_english(rng, words) if lang == "en" else _chinese(rng, words))]
        self._weights = [*accumulate(1 / (rank + 2.7) for rank in range(len(self._words)))]

    def words(self, rng: random.Random, count: int) -> list[str]:
        """Return *count* words."""
        return rng.choices(self._words, cum_weights=self._weights, k=count)

    def passage(self, rng: random.Random) -> str:
        """Return one to three sentences."""
        return ("" if self._lang == "zh" else " ").join(self._sentence(rng) for _ in range(rng.choice((1, 2, 2, 3))))

    def question(self, rng: random.Random, passage: str) -> str:
        """Return a query of some words of *passage* and some others."""
        if self._lang == "zh":
            start = rng.randrange(max(1, len(passage) - 6))
            return f"{passage[start : start + 6].strip('，。')}{''.join(self.words(rng, 2))}吗？"
        told = passage.rstrip(".").split()
        return " ".join([*rng.sample(told, min(5, len(told))), *self.words(rng, 3)]) + "?"

    def _sentence(self, rng: random.Random) -> str:
        if self._lang == "zh":
            parts = ["".join(self.words(rng, rng.randint(3, 7))) for _ in range(rng.randint(1, 3))]
            return "，".join(parts) + "。"
        words = self.words(rng, rng.randint(6, 16))
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), str(rng.randint(1, 2030)))
        return " ".join([words[0].capitalize(), *words[1:]]) + "."


def items(text: Text, rng: random.Random, size: int, scopes: int) -> Iterator[Item]:
    """Yield *size* items over *scopes*, in threads of 50."""
    placed = [0] * scopes
    for count in range(size):
        scope = count * scopes // size
        place = placed[scope]
        placed[scope] += 1
        yield Item(
            scope_id=f"bench/{scope}", text=text.passage(rng), thread=f"t{place // THREAD}", position=place % THREAD
        )


def _english(rng: random.Random, words: int) -> Iterator[str]:
    yield from _FREQUENT.split()
    for _ in range(words):
        syllables = rng.choice((1, 2, 2, 3))
        yield "".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) for _ in range(syllables)) + rng.choice(_CODAS)


def _chinese(rng: random.Random, words: int) -> Iterator[str]:
    characters = "".join(_HAN.split())
    yield from characters[:60]
    for _ in range(words):
        yield "".join(rng.choices(characters, k=rng.choice((1, 2, 2, 2, 3))))
