"""Terms of items and of queries."""

import os
import string
import subprocess
import sys
import threading
import unicodedata

import pytest
from hypothesis import given, strategies as st

from powerctx_core.text.terms import (
    QueryTerms,
    analyse,
    analyse_query,
    analysed_text,
    analysis_version,
    encode,
    rarest,
)

WORDS = st.text(string.ascii_letters, min_size=1, max_size=12)
HAN = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=20)
SYLLABLES = st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1, max_size=8)
KANA = st.text(st.characters(min_codepoint=0x30A1, max_codepoint=0x30FA), min_size=1, max_size=12)
ANY = st.text(st.characters(), max_size=200) | st.text(
    st.sampled_from("aB1._-'@/:&+#, 北コ한ก\u0301\u2019\ud800\0"), max_size=60
)


def meets(query: str, text: str) -> bool:
    """Whether any term of *query* is in *text*."""
    return any(term in analyse(text) for term in analyse_query(query).terms)


def covered(query: str, text: str) -> bool:
    """Whether every unit of *query* is in *text*."""
    return analyse_query(query).units <= analyse(text).keys()


class TestWords:
    def test_all_words_are_indexed(self):
        """The index drops no stop word and counts every occurrence."""
        assert {"the": 2, "cat": 2, "and": 1} == analyse("The cat and the cats")

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("painting", "She painted a sunrise"),
            ("camps", "We went camping"),
            ("café", "the CAFE at noon"),
            ("naive", "a naïve idea"),
            ("Straße", "STRASSE 5"),
            ("strasse", "Große Straße"),
            ("Lodz", "Łódź"),
            ("ΤΟΝΟΣ", "τόνος"),
            ("ежи", "Ёжик и ёж"),
            ("книги", "Книга на столе"),
            ("كتاب", "كِتَابٌ"),
            ("שלום", "שָׁלוֹם"),
            ("हिन्दी", "यह हिन्दी है"),
            ("full", "ｆｕｌｌ width"),
            ("１２", "room 12"),
            ("ガイド", "ｶﾞｲﾄﾞ"),
            ("file", "the ﬁle"),
            ("٣٥", "35"),
        ],
    )
    def test_forms_of_a_word_meet(self, query, text):
        """Inflection, case, accents, points and width do not keep a word from being found."""
        assert meets(query, text)

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("user_id", "the userId column"),
            ("userid", "the user_id column"),
            ("user", "the user_id column"),
            ("getUserName", "get_user_name()"),
            ("script", "JavaScript"),
            ("server", "HTTPServer"),
            ("API", "two APIs"),
            ("gpt4", "GPT-4 and others"),
            ("gpt", "GPT4"),
            ("utf8", "UTF-8"),
            ("wifi", "Wi-Fi"),
            ("known", "a well-known fact"),
            ("1.2.3", "release v1.2.3-beta"),
            ("v1.2.3", "v1.2.3"),
            ("3.11", "python3.11"),
            ("python", "python3.11"),
            ("1000", "1,000 people"),
            ("2023", "2023-05-08T13:56:00"),
            ("2023-05-08", "2023-05-08T13:56:00"),
            ("10 km", "a 10km run"),
            ("C++", "C/C++ code"),
            ("C#", "written in C#"),
            (".NET", "on .NET and Mono"),
            ("nodejs", "Node.js"),
            ("bob.smith@example.com", "mail Bob.Smith@example.com"),
            ("smith", "bob.smith@example.com"),
            ("example.com", "bob.smith@example.com"),
            ("/usr/local/bin", "/usr/local/bin"),
            ("local", "/usr/local/bin/tool"),
            ("main.py", "src/pkg/main.py"),
            ("R&D", "the R&D team"),
            ("O'Brien", "OBrien"),
            ("Mel", "Mel's house"),
            ("Mel", "Mel’s house"),
        ],
    )
    def test_identifiers_are_whole_and_in_parts(self, query, text):
        """Names of code, versions, addresses and paths are found as a whole, in parts, and in another spelling."""
        assert meets(query, text)

    @pytest.mark.parametrize(("query", "text"), [("C", "C++"), ("C++", "C#"), ("1.2.3", "1.2.4"), ("net", "network")])
    def test_different_names_stay_different(self, query, text):
        """A sign or a digit that makes another name keeps them apart."""
        assert not meets(query, text)

    @pytest.mark.parametrize("word", ["don't", "don’t", "DON'T", "dont", "do not"])
    def test_contractions_are_opened(self, word):
        """However it is written, don't is do and not."""
        assert {"do": 1, "not": 1} == analyse(word)

    @pytest.mark.parametrize(("text", "expected"), [("can't", "can not"), ("won’t", "will not"), ("I'm", "I am")])
    def test_other_contractions(self, text, expected):
        """Irregular contractions open as well."""
        assert analyse(expected) == analyse(text)

    def test_emoji(self):
        """An emoji is a term, whatever its skin."""
        assert ["👍"] == list(analyse("👍🏽"))[:1]
        assert meets("👍", "fine 👍🏽")
        assert meets("🇨🇳", "from 🇨🇳")

    def test_category_and_tags_are_analysed(self):
        """Words of title, category and tags are in the one analysed string, and no term spans two parts."""
        text = analysed_text("北", "京 text", "preferences", ["deploy"])

        assert {"prefer", "deploy", "text"} <= analyse(text).keys()
        assert "北京" not in analyse(text)

    def test_body_alone(self):
        """Without anything else the analysed string is the body."""
        assert "body" == analysed_text(None, "body", None, [])


class TestUnspaced:
    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("北京", "北京大学"),
            ("大学", "北京大学"),
            ("火锅", "喜欢吃火锅"),
            ("資料庫", "资料库"),
            ("资料库", "資料庫的備份"),
            ("軟體測試", "软体测试"),
            ("コーヒー", "アイスコーヒーを飲む"),
            ("東京", "東京都庁"),
            ("飲む", "コーヒーを飲みました、飲むよ"),
            ("さくら", "桜はさくらと読む"),
            ("학교", "학교에서 공부했다"),
            ("학교에", "학교는 멀다"),
            ("책을", "책이 많다"),
            ("집", "집에서"),
            ("ไทย", "ภาษาไทยง่าย"),
            ("ລາວ", "ພາສາລາວ"),
            ("ខ្មែរ", "ភាសាខ្មែរ"),
            ("手机", "C++手机"),
        ],
    )
    def test_part_of_a_word_is_found(self, query, text):
        """Scripts without spaces are found by any part of a word; particles and script variants do not block."""
        assert meets(query, text)

    def test_unit_is_the_character(self):
        """For Han the units are the distinct characters without stop characters; pairs only rank."""
        query = analyse_query("北京的大学")

        assert frozenset("北京大学") == query.units
        assert {"北京", "大学"} <= set(query.terms)

    def test_stop_characters(self):
        """A stop character is neither term nor unit, and a pair of two is no term."""
        query = analyse_query("我们的数据库是什么")

        assert not {"我", "们", "的", "是", "什", "么", "我们", "什么", "们的"} & set(query.terms)
        assert frozenset("数据库") == query.units

    def test_phrase_is_no_stop_elsewhere(self):
        """A character of a stop phrase stays in another word."""
        assert "何" in analyse_query("几何").terms
        assert "何" not in analyse_query("如何部署").terms

    @pytest.mark.parametrize("query", ["コーヒー", "さくら", "학교에서", "ภาษาไทย", "め", "집"])
    def test_units_without_han(self, query):
        """Other scripts without spaces have units too, and a text finds itself by all of them."""
        assert analyse_query(query).units
        assert covered(query, query)

    @given(HAN, st.data())
    def test_every_part_of_a_run_is_found(self, text, data):
        """Every term of any part of a run of Han is in the run's terms."""
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, len(text)))

        assert set(analyse_query(text[start:end]).terms) <= analyse(text).keys()

    @given(SYLLABLES, st.sampled_from(["은", "를", "에서", "까지"]))
    def test_particles(self, noun, particle):
        """A Korean word is found whatever particle follows it."""
        assert covered(noun, noun + particle)

    @given(KANA, KANA)
    def test_kana(self, word, other):
        """A word of kana is found inside a longer one."""
        assert covered(word, other + word)


class TestQueries:
    def test_stop_words_are_dropped(self):
        """What only asks is no term."""
        assert ("carolin", "go", "support", "group") == analyse_query(
            "When did Caroline go to the support group?"
        ).terms

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("怎么办", {"怎", "么", "办", "怎么", "么办"}),
            ("who are you", {"who", "are", "you"}),
            ("to be or not to be", {"to", "be", "or", "not"}),
            ("what is it?", {"what", "is", "it"}),
            ("这是什么", {"这", "是", "什", "么", "这是", "是什", "什么"}),
            ("为什么没有", {"为", "什", "么", "没", "有", "为什", "什么", "么没", "没有"}),
        ],
    )
    def test_only_stop_words(self, query, expected):
        """A query of stop words and negations keeps all of its words, and all are units or pairs of units."""
        actual = analyse_query(query)

        assert expected == set(actual.terms)
        assert {term for term in expected if term.isascii() or len(term) == 1} == actual.units

    @pytest.mark.parametrize(
        ("query", "negations"),
        [
            ("deploy not on friday", {"not"}),
            ("I don't like mushrooms", {"not"}),
            ("never eat nuts without milk, no sugar", {"never", "without", "no"}),
            ("不吃辣", {"不", "不吃"}),
            ("没有数据库", {"没", "没有"}),
            ("别部署", {"别", "别部"}),
            ("无糖", {"无", "无糖"}),
            ("非素食", {"非", "非素"}),
            ("не люблю грибы", {"не"}),
        ],
    )
    def test_negations_stay(self, query, negations):
        """What turns a statement round stays, in pairs too."""
        assert negations <= set(analyse_query(query).terms)

    @pytest.mark.parametrize(
        "query",
        [
            'about "the who"',
            "about “the who”",
            "about ‘the who’",
            "about 'the who'",
            "about «the who»",
            "about `the who`",
        ],
    )
    def test_quoted_words_stay_and_come_first(self, query):
        """Quoted words keep their stop words and precede all others."""
        actual = analyse_query("concert " + query)

        assert ("the", "who", "concert") == actual.terms
        assert frozenset({"the", "who"}) == actual.quoted

    @pytest.mark.parametrize(
        "query",
        ["上映《我是谁》", "上映「我是谁」", "上映『我是谁』", "上映“我是谁”", "上映〈我是谁〉", "上映‘我是谁’"],
    )
    def test_quoted_han(self, query):
        """Chinese quotation marks and titles quote."""
        actual = analyse_query(query)

        assert {"我", "是", "谁", "我是", "是谁"} == actual.quoted
        assert "我" == actual.terms[0]
        assert {"上", "映"} <= actual.units

    def test_apostrophes_do_not_quote(self):
        """Contractions and possessives are no quotations."""
        assert not analyse_query("don't touch Mel's or the boys' things").quoted

    def test_order_and_total(self):
        """Terms are distinct, in order of the query, and counted."""
        actual = analyse_query("zebra apple zebra mango")

        assert ("zebra", "appl", "mango") == actual.terms
        assert 3 == actual.total

    def test_whole_of_compound_is_no_unit(self):
        """A compound counts by its parts, so another spelling of it does not lower coverage."""
        assert frozenset({"user", "id"}) == analyse_query("user_id").units

    @pytest.mark.parametrize("query", ["", "   ", "?!…", "\0", "\ud800"])
    def test_nothing_to_ask(self, query):
        """A query without letters, digits or emoji has no terms."""
        assert QueryTerms((), frozenset(), frozenset(), 0) == analyse_query(query)

    def test_long_queries(self):
        """8192 characters of Han are analysed whole."""
        query = "".join(chr(0x4E00 + place) for place in range(8192))

        assert 14_000 < analyse_query(query).total


ENGLISH_INSTRUCTIONS = [
    "Use only the given context, do not call tools.",
    "use only the provided context and do not call any tools.",
    "Answer only from the provided context.",
    "Please answer using only the context below.",
    "Answer the question based only on the following context:",
    "Answer the following question using only the information provided above.",
    "Based on the context above,",
    "Based solely on the retrieved passages,",
    "Using the provided context, answer the question.",
    "Use the following pieces of context to answer the question at the end.",
    "Use ONLY the information in the provided context to answer.",
    "Do not use any external knowledge.",
    "Don’t use tools or functions.",
    "Never invoke external tools.",
    "Without calling tools, answer from the context.",
    "Do not search the web.",
    "Don't make anything up.",
    "Do not hallucinate.",
    "If you don't know the answer, say you don't know.",
    "If the answer is not in the context, say that you do not know.",
    "You are a helpful assistant.",
    "Restrict your answer to the given context.",
]
CHINESE_INSTRUCTIONS = [
    "请只根据提供的上下文回答，不要调用工具。",
    "只根据提供的上下文回答,不要调用工具,",
    "請只根據提供的上下文回答，不要呼叫工具。",
    "请仅基于给定的上下文进行回答。",
    "请根据以下资料回答问题：",
    "仅使用上述信息回答。",
    "只使用给定的上下文，不要使用任何工具。",
    "请严格按照给出的文档作答，不得使用其他知识。",
    "回答时请只参考上下文。",
    "禁止调用任何工具。",
    "不要联网搜索。",
    "请勿编造答案。",
    "如果不知道，请直接说不知道。",
    "你是一个智能助手。",
]


class TestInstructions:
    @pytest.mark.parametrize("instruction", ENGLISH_INSTRUCTIONS)
    def test_english(self, instruction):
        """Instructions to the model are no terms, before and behind the question."""
        question = "Where does Caroline live?"

        assert analyse_query(question) == analyse_query(f"{instruction} {question}")
        assert analyse_query(question) == analyse_query(f"{question} {instruction}")

    @pytest.mark.parametrize("instruction", CHINESE_INSTRUCTIONS)
    def test_chinese(self, instruction):
        """The same in Chinese, simplified or traditional, with punctuation of either width."""
        question = "北京大学在哪里？"

        assert analyse_query(question) == analyse_query(instruction + question)
        assert analyse_query(question) == analyse_query(question + instruction)

    @pytest.mark.parametrize("query", ["Do not call tools", "answer only from the provided context", "不要调用工具"])
    def test_nothing_else(self, query):
        """A query that is only an instruction keeps its words."""
        assert analyse_query(query).units

    def test_stop_words_beside_an_instruction(self):
        """Stop words are something else, so the instruction goes."""
        assert ("who", "are", "you") == analyse_query("Who are you? Do not call tools.").terms

    @pytest.mark.parametrize(
        "query",
        [
            "How do I use only the given context manager in python?",
            "why do agents not call tools",
            "What tools does Melanie use for pottery?",
            "based on the document Bob sent, when is the meeting",
            "if you don't know python say hello",
            "never use eval in python",
            "how do I sort a list, without using the internet",
            'who said "do not call tools"',
            "根据合同内容付款时间是什么",
            "不要用洗衣机洗毛衣",
            "不能使用网络，怎么办",
            "他说不要调用工具是什么意思",
            "如何使用上下文管理器",
            "参考资料在哪里",
            "回答问题的技巧",
        ],
    )
    def test_content_stays(self, query):
        """Words that only look like an instruction are all kept: a neutral clause in front changes nothing."""
        alone = analyse_query(query)

        assert {"zzyx", *alone.terms} == set(analyse_query("zzyx; " + query).terms)
        assert {
            "document",
            "tool",
            "context",
            "internet",
            "eval",
            "工",
            "上",
            "合",
            "洗",
            "参",
            "答",
            "网",
            "python",
        } & set(alone.terms)


class TestRarest:
    def test_only_terms_that_occur(self):
        """Terms in no item are left out, the order stays."""
        assert ("zebra", "mango") == rarest(analyse_query("zebra apple mango"), {"mango": 1, "zebra": 9, "appl": 0})

    def test_cap(self):
        """Quoted ones first, then the rarest, ties by position; the result is in the order of the query."""
        query = analyse_query('one1 two2 three3 "four4"')
        frequency = {"four4": 99, "one1": 5, "two2": 2, "three3": 2}

        assert ("four4", "two2") == rarest(query, frequency, 2)
        assert ("four4", "two2", "three3") == rarest(query, frequency, 3)
        assert () == rarest(query, frequency, 0)

    def test_default_cap(self):
        """At most 64 distinct terms are looked up, and the total says how many there were."""
        query = analyse_query(" ".join(f"w{number:03}x" for number in range(200)))

        assert 64 == len(rarest(query, dict.fromkeys(query.terms, 1)))
        assert query.total == len(query.terms) > 64


class TestEncode:
    @pytest.mark.parametrize("term", ["deploy", "2023", "sqlite3", "zebra", "stateoftheart"])
    def test_plain_terms_are_themselves(self, term):
        """A plain word needs no code."""
        assert term == encode(term)

    @pytest.mark.parametrize("term", ["the", "who", "not", "www", "com", "go", "a", "1", "z0abc", "z1the", "z2"])
    def test_what_engines_drop_is_coded(self, term):
        """Stop words and short words of engines, and what looks like a code, are coded."""
        assert term != encode(term)
        assert 3 <= len(encode(term))

    def test_pairs_are_short(self):
        """A pair of Han, kana or Hangul takes eight characters."""
        assert [8, 8, 8] == [len(encode(term)) for term in ("北京", "コー", "학교")]

    @given(st.lists(ANY | WORDS, min_size=2, max_size=20, unique=True))
    def test_injective_and_plain(self, terms):
        """Different terms have different codes, of at most 64 of a-z and 0-9."""
        codes = [encode(term) for term in terms]

        assert len(terms) == len(set(codes))
        assert all(
            set(code) <= set(string.ascii_lowercase + string.digits) and 1 < len(code) <= 64
            for code in codes
            if code not in terms
        )

    @given(st.text("za01y._", max_size=8), st.text("za01y._", max_size=8))
    def test_escapes_do_not_collide(self, one, other):
        """Text made of the signs of the code itself is told apart."""
        assert (one == other) == (encode(one) == encode(other))


class TestRobust:
    @given(ANY)
    def test_any_text(self, text):
        """No text raises; terms are bounded, and a query finds the text that it is."""
        terms, query = analyse(text), analyse_query(text)

        assert all(0 < len(term) <= 64 for term in terms)
        assert set(query.terms) <= terms.keys()
        assert bool(query.terms) == bool(query.units)
        assert query.units | query.quoted <= set(query.terms)

    @given(ANY)
    def test_composed_and_decomposed(self, text):
        """NFC and NFD give the same terms."""
        assert analyse(unicodedata.normalize("NFC", text)) == analyse(unicodedata.normalize("NFD", text))

    @given(
        st.lists(
            WORDS.map(str.lower) | st.sampled_from(["été", "ёж", "straße", "τόνος", "user_id", "don't"]), max_size=8
        )
    )
    def test_case(self, words):
        """Case makes no difference to words that are all in one."""
        text = " ".join(words)

        assert analyse(text) == analyse(text.upper())
        assert set(analyse_query(text).terms) == set(analyse_query(text.upper()).terms)

    @pytest.mark.parametrize(
        "unit",
        [
            "a",
            "a.",
            "a's",
            "a@",
            "a/",
            "1.",
            "aB",
            "北京",
            "コーヒ",
            "한",
            "ภา",
            "é-",
            "\u0301\u0316",
            "e\u0301\u0316",
            "\0",
            "ﷺ",
            "👍",
            "\ud800",
        ],
    )
    def test_a_megabyte(self, unit):
        """A mebibyte of anything is analysed in linear time, and long terms are cut."""
        text = unit * (2**20 // len(unit.encode("utf-8", "surrogatepass")))

        assert all(len(term) <= 64 for term in analyse(text))

    @pytest.mark.parametrize(
        "unit", ["\n", " ", "- ", "“", '"', "请", "不要使用", "use the given ", "if you don't know ", "and "]
    )
    def test_hostile_queries(self, unit):
        """Openings of quotations and instructions without an end cost no more than linear time."""
        assert analyse_query((unit * 8192)[:8180] + "上下文 context").total < 9000

    def test_long_words_stay_different(self):
        """Words that are equal in their first 64 characters are two terms, of which each is found."""
        one, other = "x" * 100 + "a", "x" * 100 + "b"

        assert analyse(one).keys() != analyse(other).keys()
        assert meets(one, f"see {one}")
        assert not meets(one, other)

    def test_floods_of_marks(self):
        """A word under many marks is still the word."""
        assert "cafe" in analyse("cafe" + "\u0301" * 20)

    def test_threads(self):
        """Threads that start at once get equal results."""
        text = "Painting camps user_id 資料庫 책을 ภาษาไทย привет " * 20
        expected, actual = analyse(text), []
        threads = [threading.Thread(target=lambda: actual.append(analyse(text))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [expected] * 8 == actual


class TestProcess:
    def run(self, code: str, seed: str = "0") -> str:
        """What *code* prints in a new process."""
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8", env=environment
        ).stdout

    def test_deterministic(self):
        """Terms and codes, their order included, do not depend on the hash seed."""
        code = (
            "from powerctx_core.text.terms import *; t = 'Painting userId 資料庫 «the who» v1.2.3 책을';"
            "print(analyse(t), analyse_query(t).terms, [encode(x) for x in analyse(t)])"
        )

        assert self.run(code, "1") == self.run(code, "2")

    def test_light_import(self):
        """Importing loads no heavy library, and English needs neither tables nor `regex`."""
        code = (
            "import sys, powerctx_core.text.terms as t; heavy = {'Stemmer', 'opencc', 'regex'};"
            "print(sorted(heavy & sys.modules.keys()));"
            "t.analyse('Camping trips'); print(sorted(heavy & sys.modules.keys()))"
        )

        assert "[]\n['Stemmer']\n" == self.run(code)

    def test_version(self):
        """The version names every source of difference and is stable."""
        version = analysis_version()

        assert version == analysis_version()
        assert ["terms", "snowball", "t2s", "unicode"] == [part.partition("-")[0] for part in version.split("+")]
