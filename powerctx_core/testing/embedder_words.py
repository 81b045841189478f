"""Texts that an embedder is asked for, and a process that watches what it opens and whom it calls."""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import mul
from typing import Any

from powerctx_core.config import structure
from powerctx_core.host import Host
from powerctx_core.ports import Embedder, EmbedRequest

__all__ = ["Watch", "cosine", "floats", "probe", "same"]

SAME = 1 - 1e-4
"""Cosine above which two vectors of one text are the same."""
MEBIBYTE = 1 << 20
ISO_639_1 = frozenset(
    """aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka
    kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl
    nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
    ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu""".split()
)
HEAVY = frozenset(
    "numpy scipy torch tensorflow jax onnxruntime transformers sentence_transformers sentencepiece tokenizers"
    " llama_cpp gensim sklearn pandas".split()
)
"""Packages that only the first ``embed`` may import."""
TEXTS = (
    "We chose SQLite because a single file needs no server.",
    "cat",
    "The deployment froze on Friday, so the release waits until Monday.",
    "他在北京大学读书，周末喜欢吃火锅。",
    "Backups of the store run every night and are kept for a week.",
    "def paste(): return subprocess.Popen(['xclip']).communicate()",
    "Minutes of the meeting about the budget. " * 40,
    "数据库迁移的时候，服务在周五停了两个小时。",
)
"""Texts with content, no two alike."""
HOSTILE = (
    "\x00", "store\x00release", "\x01\x02\x1b[31m\x7f\x85", "\ufeffrelease", "\u202erelease\u202c", "a\u2028b\u2029c",
    "مرحبا بالعالم", "שלום עולם", "😀", "👩‍👩‍👧‍👦🏳️‍🌈", "🇩🇪",
    "\u0301" * 50, "z͑ͫ̓ͪ̂ͫ̽͏̴̙̤", "ｒｅｌｅａｓｅ", "\U0010ffff", "\ue000", "\ufffd",
    "<s></s><unk>[CLS][SEP]<|endoftext|>", "</powerctx>", "'; DROP TABLE item; --", "{0} %s $1 null NaN", "\\", '"',
    "a" * 10_000, "\n" * 10_000, "?!" * 5_000, "......", "——。", "x", "0", "1e400",
)  # fmt: skip
NOTHING = ("", " ", " \n\t\r\n", "\u3000")
LONG: Mapping[str, str] = {
    "sentences": "We chose SQLite because a single file needs no server. " * (MEBIBYTE // 55),
    "Chinese": "他在北京大学读书，周末喜欢吃火锅。" * (MEBIBYTE // 51),
    "one word": "a" * MEBIBYTE,
    "emoji": "😀" * (MEBIBYTE // 4),
    "marks": "?!" * (MEBIBYTE // 2),
}
PAIRS: Mapping[str, Sequence[tuple[str, str]]] = {
    "en": (
        ("Which database do we use?", "The database that we use is SQLite."),
        ("What does the grey cat eat?", "The grey cat eats fish."),
        ("When does the train to Berlin leave?", "The train to Berlin leaves at nine."),
    ),
    "zh": (
        ("我们用哪种数据库？", "我们用的数据库是SQLite。"),
        ("灰色的猫吃什么？", "灰色的猫吃鱼。"),
        ("去柏林的火车几点出发？", "去柏林的火车九点出发。"),
    ),
    "ja": (
        ("データベースは何を使っていますか。", "データベースはSQLiteを使っています。"),
        ("灰色の猫は何を食べますか。", "灰色の猫は魚を食べます。"),
        ("ベルリン行きの列車は何時に出発しますか。", "ベルリン行きの列車は九時に出発します。"),
    ),
    "ko": (
        ("우리는 어떤 데이터베이스를 사용합니까?", "우리는 SQLite 데이터베이스를 사용합니다."),
        ("회색 고양이는 무엇을 먹습니까?", "회색 고양이는 생선을 먹습니다."),
        ("베를린행 기차는 언제 출발합니까?", "베를린행 기차는 아홉 시에 출발합니다."),
    ),
    "de": (
        ("Welche Datenbank benutzen wir?", "Die Datenbank, die wir benutzen, ist SQLite."),
        ("Was frisst die graue Katze?", "Die graue Katze frisst Fisch."),
        ("Wann fährt der Zug nach Berlin?", "Der Zug nach Berlin fährt um neun."),
    ),
    "fr": (
        ("Quelle base de données utilisons-nous ?", "Notre base de données est SQLite."),
        ("Que mange le chat gris ?", "Le chat gris mange du poisson."),
        ("Quand part le train pour Berlin ?", "Le train pour Berlin part à neuf heures."),
    ),
    "es": (
        ("¿Qué base de datos usamos?", "La base de datos que usamos es SQLite."),
        ("¿Qué come el gato gris?", "El gato gris come pescado."),
        ("¿Cuándo sale el tren a Berlín?", "El tren a Berlín sale a las nueve."),
    ),
    "it": (
        ("Quale database usiamo?", "Il database che usiamo è SQLite."),
        ("Che cosa mangia il gatto grigio?", "Il gatto grigio mangia pesce."),
        ("Quando parte il treno per Berlino?", "Il treno per Berlino parte alle nove."),
    ),
    "pt": (
        ("Que base de dados usamos?", "A base de dados que usamos é SQLite."),
        ("O que come o gato cinzento?", "O gato cinzento come peixe."),
        ("Quando parte o comboio para Berlim?", "O comboio para Berlim parte às nove."),
    ),
    "nl": (
        ("Welke database gebruiken wij?", "De database die wij gebruiken is SQLite."),
        ("Wat eet de grijze kat?", "De grijze kat eet vis."),
        ("Wanneer vertrekt de trein naar Berlijn?", "De trein naar Berlijn vertrekt om negen uur."),
    ),
    "ru": (
        ("Какую базу данных мы используем?", "Мы используем базу данных SQLite."),
        ("Что ест серая кошка?", "Серая кошка ест рыбу."),
        ("Когда отправляется поезд в Берлин?", "Поезд в Берлин отправляется в девять."),
    ),
    "ar": (
        ("ما قاعدة البيانات التي نستخدمها؟", "قاعدة البيانات التي نستخدمها هي SQLite."),
        ("ماذا تأكل القطة الرمادية؟", "القطة الرمادية تأكل السمك."),
        ("متى يغادر القطار إلى برلين؟", "يغادر القطار إلى برلين في الساعة التاسعة."),
    ),
}
"""Language -> questions and their answers; every other answer is unrelated."""
PROGRAM = "import sys; from powerctx_core.testing.embedder_words import probe; probe(sys.argv[1])"


def floats(vector: bytes) -> Sequence[float]:
    """Return the values of a vector."""
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(one: bytes, other: bytes) -> float:
    """Return the cosine of two vectors of unit length."""
    total: float = sum(map(mul, floats(one), floats(other)))
    return total


def same(one: Sequence[bytes], other: Sequence[bytes]) -> list[bool]:
    """Tell of each pair of vectors whether it is the same one; zeros are the same as zeros."""
    return [a == b or cosine(a, b) >= SAME for a, b in zip(one, other, strict=True)]


class Watch:
    """Notes what the process does: big files, connections, other processes."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def take(self) -> list[str]:
        """Return what was noted since the last time."""
        seen, self.seen = self.seen, []
        return seen

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith((".py", ".pyc")):
            with suppress(OSError):
                if os.stat(arguments[0]).st_size > MEBIBYTE:  # noqa: PTH116 - a Path would be made for every file
                    self.seen.append(f"opened {arguments[0]}")
        elif event in ("socket.connect", "socket.sendto"):
            address = arguments[1]
            # What is no tuple is a path on this machine.
            if isinstance(address, tuple) and not _loopback(str(address[0])):
                self.seen.append(f"connected to {address[0]}")
        elif event == "socket.getaddrinfo" and not _loopback(str(arguments[0])):
            self.seen.append(f"asked for the address of {arguments[0]}")
        elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
            self.seen.append(f"started {arguments[0]}")


def _loopback(host: str) -> bool:
    return host in ("localhost", "::1", "None", "") or host.startswith("127.")


def probe(argument: str) -> None:
    """Make an embedder in a process of its own, watch it, and print what was seen.

    Args:
        argument: JSON object with ``name``, ``settings``, ``plugins``, ``extra`` and ``texts``.
    """
    job: dict[str, Any] = json.loads(argument)
    extra = [importlib.import_module(name) for name in job["extra"]]
    with Host.compose(structure(job["settings"]), allow=job["plugins"], extra=extra) as host:
        there, threads, watch = set(sys.modules), threading.active_count(), Watch()
        embedder: Embedder = host.part("powerctx_embedders", job["name"])
        profile = embedder.profile
        costs = watch.take()
        costs += [f"imported {name}" for name in sorted(HEAVY & (set(sys.modules) - there))]
        costs += ["started a thread"] * (threading.active_count() > threads)
        vectors = embedder.embed(EmbedRequest(texts=tuple(job["texts"])))
        found = {
            "fingerprint": profile.fingerprint,
            "costs": costs,
            "did": watch.take(),
            "vectors": [vector.hex() for vector in vectors],
        }
    sys.stdout.write(f"\n{json.dumps(found)}\n")
