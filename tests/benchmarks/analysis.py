"""How fast text is analysed, by language: `python tests/benchmarks/analysis.py [--data DIR] [--seconds S]`.

Items are chat turns of 100 to 300 characters, made of the words below by a fixed seed; the labelled sets are measured
too when their folder is there.  Figures are CPU time of one thread: bytes of UTF-8 a second, microseconds an item and a
query.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from powerctx_core.text.terms import analyse, analyse_query, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ITEMS = 2000
SETS = ("locomo", "madial_zh", "madial_en", "cmrc_zh", "cosqa_code")

# Words, by language.
LANGUAGES = {
    "English": """
        the and I you was went really to support group yesterday painting sunrise don't it's children camping class with
        pottery beautiful friends Caroline Melanie lovely thought about adoption agency last week, great! amazing?
        research mountains summer concert violin helped people community proud running charity race Mel's family
    """,
    "Chinese": """
        我们 昨天 去了 北京大学 图书馆， 资料库 备份 已经 完成。 喜欢 吃 火锅 的 朋友 很多， 数据 分析 结果 不 理想
        为什么 部署 失败？ 周末 爬山 天气 非常 好！ 项目 计划 需要 修改 会议 时间 在 下午 三点 孩子 学习 钢琴 音乐
    """,
    "Traditional": """
        我們 昨天 去了 臺灣大學 圖書館， 資料庫 備份 已經 完成。 喜歡 吃 火鍋 的 朋友 很多， 數據 分析 結果 不 理想
        為什麼 部署 失敗？ 週末 爬山 天氣 非常 好！ 計畫 需要 修改 會議 時間 在 下午 三點 孩子 學習 鋼琴 音樂
    """,
    "Japanese": """
        昨日は 東京都庁で 会議が ありました。 コーヒーを 飲みながら データベースの 設計を 話しました、 とても 楽しかった
        です。 週末は 山に 登る 予定 だから 天気が 心配 プログラミングを 勉強して います
    """,
    "Korean": """
        어제 학교에서 친구를 만났다. 데이터베이스를 백업하고 회의를 준비했다. 주말에는 산에 올라갈 계획이다. 커피를
        마시면서 음악을 들었다. 프로젝트가 실패한 이유를 모르겠다. 아이가 피아노를 배운다.
    """,
    "Thai": """
        เมื่อวาน ไป มหาวิทยาลัย กับ เพื่อน ฐานข้อมูล สำรอง เสร็จแล้ว ประชุม ตอนบ่าย
        อาหาร อร่อย มาก ดนตรี ภาษาไทย โครงการ ล้มเหลว เด็ก เรียน เปียโน
    """,
    "Russian": """
        вчера мы ходили в библиотеку университета с друзьями, резервная копия базы данных готова. почему развёртывание
        не удалось? в выходные поедем в горы, погода очень хорошая! дети учатся играть на пианино
    """,
    "Arabic": "ذهبت أمس إلى المكتبة مع الأصدقاء، قاعدة البيانات جاهزة. لماذا فشل النشر؟ الطقس جميل جدًا في عطلة الأسبوع",
    "Code": """
        def getUserName(self, user_id): return self._names[user_id] if user_id in self._names else None
        raise ValueError("unknown") import os.path for item in items: result.append(item.value) x = 3.14 * radius ** 2
        client.connect(host='127.0.0.1', port=8080) assert response.status_code == 200
    """,
}
UNSPACED = {"Chinese", "Traditional", "Japanese", "Thai"}


def turns(words: Sequence[str], between: str, generator: random.Random) -> list[str]:
    """Return texts of 100 to 300 characters of *words* in any order."""
    texts = []
    for _ in range(ITEMS):
        length = generator.randint(100, 300)
        parts: list[str] = []
        while sum(map(len, parts)) + len(between) * len(parts) < length:
            parts.append(generator.choice(words))
        texts.append(between.join(parts))
    return texts


def best(work: Callable[[], object], seconds: float) -> float:
    """Return the shortest time that *work* took in *seconds*, and at least twice, after a first run."""
    work()
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def row(name: str, items: Sequence[str], queries: Sequence[str], seconds: float) -> str:
    """Return the line of one language or set."""
    size = sum(len(item.encode()) for item in items)
    analysing = best(lambda: [analyse(item) for item in items], seconds)
    asking = best(lambda: [analyse_query(query) for query in queries], seconds)
    terms = [list(analyse(item)) for item in items]
    coding = best(lambda: [[encode(term) for term in item] for item in terms], seconds)
    return (
        f"{name:12} {size / analysing / 1e6:6.1f} MB/s {analysing / len(items) * 1e6:7.1f} us an item of "
        f"{sum(map(len, items)) / len(items):4.0f} characters, encode {coding / len(items) * 1e6:6.1f} us, "
        f"query {asking / len(queries) * 1e6:6.1f} us for {sum(map(len, queries)) / len(queries):3.0f} characters"
    )


def labelled(path: Path) -> list[str]:
    """Return the texts of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long to repeat each measurement")
    options = parser.parse_args()
    for name, words in LANGUAGES.items():
        items = turns(words.split(), "" if name in UNSPACED else " ", random.Random(7))
        say(row(name, items, [item[:50] for item in items], options.seconds))
    if not options.data.is_dir():
        say(f"no labelled sets at {options.data}; name their folder with --data")
        return
    for name in SETS:
        folder = options.data / name
        if folder.is_dir():
            say(row(name, labelled(folder / "items.jsonl"), labelled(folder / "queries.jsonl"), options.seconds))


if __name__ == "__main__":
    main()
