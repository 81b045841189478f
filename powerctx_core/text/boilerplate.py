"""Instructions to the model inside a query, which say nothing about what is looked for.

"Answer only from the provided context, do not call tools" would otherwise count as eight words that no item contains,
and a floor on the share of matched words would reject the one item that answers the question.

Patterns remove whole clauses only: a clause begins at the start of the query, after punctuation or after a word that
joins clauses, and ends at punctuation or at the end.  So "how does only use of the given context manager work" keeps
all its words.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["VERSION", "without_boilerplate"]

VERSION = 1

# A clause of either language holds one of its words; looking for these costs 1 us, the patterns 20.
_ENGLISH_HINTS = (
    *"context tool function search brows internet web knowledge information document passage source memor".split(),
    *"evidence material data notes excerpt snippet reference content result fact provided given suppl".split(),
    *"assistant text halluc make invent guess specul know concise brief sentence answer respond reply".split(),
)
_HAN_HINTS = (
    *"上下文 资料 信息 内容 文本 文档 文章 文件 材料 背景 知识 记忆 片段 段落 参考 证据 结果".split(),
    *"语境 工具 函数 插件 接口 搜索 联网 上网 网络 助手 助理".split(),
    *"编造 杜撰 捏造 臆 猜测 虚构 幻想 不知道 不清楚 无法回答 不确定 直接 如实 简洁 简短 简要 简明 问题 提问".split(),
)

_NOUN = (
    r"(?:contexts?|information|info|documents?|docs?|passages?|texts?|sources?|materials?|memor(?:y|ies)|evidence|facts?|"
    r"snippets?|excerpts?|references?|content|data|notes|search results|results)"
)
_GIVEN = (
    r"(?:given|provided|supplied|following|retrieved|attached|available|above|below|included|presented|preceding|"
    r"accompanying|relevant)"
)
_ONLY = r"(?:only|solely|exclusively|strictly|just|entirely|purely)"
_THE = r"(?:(?:the|this|that|these|those|my|your|any|our)\s+)?"
_PLACE = (
    r"(?:\s+(?:(?:that\s+(?:is|are|was|were|has\s+been|have\s+been)\s+|which\s+(?:is|are)\s+)?"
    r"(?:given|provided|supplied|retrieved|attached|available)(?:\s+(?:to\s+you|by\s+\w+|here|above|below))?|above|below|here|"
    r"you\s+(?:have|are\s+given|were\s+given|have\s+been\s+given)|i\s+(?:give|gave|provide|provided)(?:\s+(?:to\s+)?you)?))?"
)
_EVIDENCE = (
    rf"(?:{_THE}(?:{_NOUN}\s+(?:from|in|of|(?:contained|found|given)\s+in)\s+{_THE})?"
    rf"(?:{_GIVEN}\s+(?:(?:and|or)\s+{_GIVEN}\s+)?(?:(?:pieces|parts|chunks)\s+of\s+|\w+\s+)?{_NOUN}|context){_PLACE}|"
    rf"{_THE}(?:\w+\s+)?{_NOUN}\s+(?:(?:that\s+(?:is|are|was|were)\s+)?(?:given|provided|supplied|retrieved|attached)"
    rf"(?:\s+(?:to\s+you|here|above|below))?|above|below)|what(?:'s|\s+is)\s+(?:given|provided|in\s+the\s+context))"
)
_TASK = (
    r"(?:(?:the|this|my|our|user'?s?|following|below|all|any|these|each|question|questions|query|queries|request|it|me|"
    r"your|answer|answers|response|responses|reply|a|at\s+the\s+end)\s*){0,5}"
)
_ANSWER = r"(?:answer|respond|reply|base|ground|write|give|formulate|derive|generate|provide|rely|draw)"
_OUTSIDE = (
    r"(?:outside|external|prior|other|additional|your\s+own|own|general|background|world|pre-?trained|training|parametric|"
    r"previous|personal|internal|further|extra|else)"
)
_TOOLS = (
    r"(?:(?:any|the|other|external|additional|your|more)\s+){0,3}"
    r"(?:tools?|tool\s+calls?|functions?|function\s+calls?|plugins?)"
    r"(?:\s+(?:or|and|/)\s+(?:any\s+)?(?:external\s+)?(?:tools?|functions?|apis?|plugins?))?"
)
_ONLINE = r"(?:(?:any|the)\s+)?(?:web\s+search(?:es)?|search\s+engines?|web|internet|online)"
_NOT = r"(?:(?:do|must|should|(?:you\s+)?may)\s+not|don't|dont|never|mustn't|shouldn't|avoid|without|no)"
_USE = (
    r"(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|access(?:ing)?|rely(?:ing)?\s+on|refer(?:ring)?\s+to|"
    r"consult(?:ing)?|search(?:ing)?|brows(?:e|ing))"
)

_ENGLISH_CLAUSES = (
    # use only the given context (to answer the question) / only use the context below
    (
        rf"(?:{_ONLY}\s+(?:use|rely\s+on|consider|refer\s+to|draw\s+on|consult)|(?:use|rely|consider|refer|draw|consult)\s+"
        rf"(?:on\s+|to\s+)?{_ONLY}(?:\s+(?:on|to|from))?)\s+{_EVIDENCE}"
        rf"(?:\s+(?:to|for|when|while|in)\s+(?:{_ANSWER}(?:ing)?|your)\s*{_TASK})?"
    ),
    # use the provided context to answer the question
    rf"us(?:e|ing)\s+{_EVIDENCE}\s+(?:only|alone|to\s+{_ANSWER}\s*{_TASK})(?:\s+only)?",
    rf"us(?:e|ing)\s+{_THE}{_GIVEN}\s+{_NOUN}{_PLACE}",
    rf"{_ONLY}\s+(?:use\s+|from\s+)?{_THE}(?:given|provided|supplied|retrieved)\s+{_NOUN}{_PLACE}",
    rf"(?:stick|limit|restrict|confine|keep)\s+(?:yourself\s+|your\s+(?:answers?|responses?)\s+)?(?:{_ONLY}\s+)?to\s+{_EVIDENCE}",
    # using only the context (above)
    rf"(?:using|given|from|with|based|relying|according)\s+(?:on\s+|to\s+)?{_ONLY}\s+(?:on\s+|from\s+|to\s+|in\s+)?{_EVIDENCE}",
    rf"(?:{_ONLY}\s+)?(?:based|relying)\s+(?:{_ONLY}\s+)?(?:up)?on\s+{_EVIDENCE}(?:\s+(?:only|alone))?",
    rf"according\s+to\s+{_THE}(?:{_GIVEN}\s+{_NOUN}|context){_PLACE}",
    rf"given\s+{_THE}{_GIVEN}\s+{_NOUN}",
    # answer (the question) only from / using / based on the provided context
    (
        rf"(?:{_ONLY}\s+)?{_ANSWER}\s*{_TASK}(?:{_ONLY}\s+)?(?:based\s+|using\s+|from\s+|with\s+|on\s+|upon\s+|in\s+|by\s+using\s+|within\s+)+"
        rf"(?:{_ONLY}\s+)?(?:on\s+|from\s+)?{_EVIDENCE}(?:\s+(?:only|alone))?"
    ),
    # answer the (following) question (concisely)
    (
        r"answer\s+(?:the|this|my|user'?s?|following|below|\s)+(?:questions?|query|queries)(?:\s+(?:below|concisely|briefly|"
        r"accurately|carefully))*"
    ),
    r"(?:answer|respond|reply|be)\s+(?:concise(?:ly)?|brief(?:ly)?|in\s+(?:a|one)\s+(?:short\s+)?sentence)",
    # do not call tools / without using any tools / no external knowledge
    rf"{_NOT}\s+(?:(?:attempt|try)\s+to\s+)?{_USE}\s+(?:(?:or|and|/)\s+{_USE}\s+)?{_TOOLS}",
    rf"(?:do\s+not|don't|dont|never)\s+(?:use|search|browse|access|consult)\s+{_ONLINE}",
    r"no\s+(?:tool|function)s?(?:\s+(?:calls?|use|usage|calling))?(?:\s+(?:is|are)\s+(?:allowed|permitted|needed))?",
    (
        rf"{_NOT}\s+(?:{_USE}|includ(?:e|ing)|add(?:ing)?|bring(?:ing)?\s+in)\s+(?:any\s+)?(?:{_OUTSIDE}\s+)+"
        rf"(?:(?:or|and)\s+{_OUTSIDE}\s+)?(?:knowledge|information|sources?|data|facts?|context|material|memory)"
    ),
    rf"(?:no|without)\s+{_OUTSIDE}\s+(?:knowledge|information|sources?)",
    # do not make things up / hallucinate / guess
    (
        r"(?:do\s+not|don't|dont|never)\s+(?:(?:make|invent)\s+(?:up\s+)?(?:an?\s+|any\s+)?(?:anything|things?|stuff|facts?|"
        r"answers?|information|details|it|them)(?:\s+up)?|hallucinate|guess|speculate)"
        r"(?:\s+(?:(?:an|any|the)\s+)?(?:answers?|facts?|information))?"
    ),
    # if you don't know (the answer), say so / if the context does not contain the answer, say that you do not know
    (
        r"if\s+(?:you\s+(?:(?:do\s+not|don't|cannot|can't)\s+(?:know|find|answer)|are\s+(?:not\s+sure|unsure))"
        r"(?:\s+(?:the\s+|it|an\s+)?(?:answers?|question|information)?(?:\s+in\s+the\s+\w+)?)?|the\s+(?:answer|information|context|"
        r"documents?|passages?)\s+(?:is|are|does|do|cannot|can't|isn't|doesn't|don't)\b[^.,;:!?\n]{0,60})"
        r"[,\s]+(?:then\s+|just\s+|simply\s+|please\s+){0,3}(?:say|reply|respond|answer|state|tell|admit)\b"
        r"\s*(?:(?:so|no|that|with|you|i|me|it|unknown)\b|[\"“'`‘])[^.;:!?\n]{0,60}"
    ),
    r"(?:just\s+)?say\s+(?:that\s+)?(?:you|i)\s+(?:do\s+not|don't)\s+know",
    r"you\s+are\s+(?:a|an)\s+(?:[a-z]+\s+){0,2}(?:assistant|ai|chatbot)(?:\s+(?:that|who)\s+answers?\s+questions?)?",
)
_ENGLISH_START = (
    r"(?:^|(?<=[.,;:!?\n()\[\]*>，。；：！？—-]))(?:\s|[-*#>(]|\d{1,2}[.)]){0,8}"
    r"(?:(?:and|but|also|so|then|note|important|remember|instructions?|you\s+(?:must|should|can|may|are\s+to)|please|kindly|"
    r"always|make\s+sure\s+to|be\s+sure\s+to|strictly|simply|just|now)[\s:,]{1,4}){0,4}"
)
_ENGLISH_JOIN = r"|(?<=\w)\s+(?:and|but|or|while)\s+(?:please\s+|also\s+){0,2}"
_ENGLISH_END = r"(?=\s*(?:$|[.,;:!?\n()\[\]*—，。；：！？-]|(?:and|but|or|nor|without|while|please)\b))"
_ENGLISH_TAIL = r"(?:\s+(?:and|or|nor|without|while)(?=\s*(?:$|[.,;:!?\n])))?"

_HAN_NOUN = (
    r"(?:上下文|资料|信息|内容|文本|文档|文章|文件|材料|背景|知识库|知识|记忆|片段|段落|参考|证据|检索结果|结果|语境)"
)
_HAN_GIVEN = (
    r"(?:以上|以下|上述|下述|上面|下面|上文|下文|前面|后面|所给|给定|给出|给|所提供|我提供|提供|现有|已有|已知|检索到|检索|"
    r"参考|相关|附带|附上|这些|该|你|我|您|所|中|的)"
)
_HAN_ONLY = r"(?:只能|仅能|只可|只允许|只需|只|仅仅|仅限|仅|严格|完全|务必|必须|应当|应该|应|需要|需|要)"
_HAN_POLITE = r"(?:请您|请你|请|麻烦|务必|你|您|并且|并|同时|而且|注意|另外|切记|记住|且|也|和|及)"
_HAN_FROM = r"(?:根据|基于|依据|依照|按照|参考|参照|使用|利用|结合|依赖|依靠|引用|从|用|在)"
_HAN_ANSWER = (
    r"(?:来|进行|去|中|里|内|范围内|直接|如实|简洁|准确|地){0,4}(?:回答|作答|回复|答复|解答|应答|给出答案|生成答案)"
)
_HAN_TASK = r"(?:(?:我|用户|你|下面|以下|下列|上述|这个|该|所有|的){0,3}(?:问题|提问|询问))?"
_HAN_TOOLS = (
    r"(?:任何|其他|其它|外部|额外|别的|一切|的|内置|你自己|自己|已有|网络){0,4}"
    r"(?:工具|函数|插件|联网|搜索引擎|搜索|外部知识|外部信息|外部资料|知识|信息|资料|常识|tools?)"
    r"(?:调用|功能|搜索|查询)?"
)
# An order, not a complaint: 不能使用网络 is what somebody needs help with.
_HAN_NOT = r"(?:不要再|不要|不得|不可|不准|不许|不允许|不必|不应|不用|无需|无须|禁止|严禁|切勿|请勿|勿|别|避免)"

_HAN_CLAUSES = (
    # answer only from the provided context: 请只根据提供的上下文回答问题
    rf"{_HAN_ONLY}{{0,4}}{_HAN_FROM}(?:{_HAN_ONLY}|{_HAN_GIVEN}){{1,6}}{_HAN_NOUN}(?:的?(?:{_HAN_NOUN}|范围)){{0,2}}{_HAN_ANSWER}{_HAN_TASK}",
    rf"{_HAN_ONLY}{{0,4}}{_HAN_FROM}上下文(?:的?(?:{_HAN_NOUN}|范围)){{0,2}}{_HAN_ANSWER}{_HAN_TASK}",
    rf"(?:回答|作答|回复)(?:时|的时候|问题时)?(?:请)?{_HAN_ONLY}{{1,4}}{_HAN_FROM}{_HAN_GIVEN}{{0,4}}{_HAN_NOUN}(?:的?{_HAN_NOUN}){{0,2}}",
)
_HAN_WHOLE_CLAUSES = (
    rf"{_HAN_ONLY}{{1,4}}{_HAN_FROM}{_HAN_GIVEN}{{0,4}}{_HAN_NOUN}(?:的?{_HAN_NOUN}){{0,2}}",
    rf"{_HAN_FROM}{_HAN_GIVEN}{{1,4}}{_HAN_NOUN}(?:的?{_HAN_NOUN}){{0,2}}",
    rf"{_HAN_FROM}上下文(?:的?{_HAN_NOUN})?",
    rf"(?:仅限|只限|限于)(?:于|使用)?{_HAN_GIVEN}{{0,4}}{_HAN_NOUN}(?:的?{_HAN_NOUN}){{0,2}}",
    rf"(?:答案|回答|回复|内容)?{_HAN_ONLY}{{0,4}}(?:来自|来源于|出自|限于|基于){_HAN_GIVEN}{{0,4}}{_HAN_NOUN}(?:的?{_HAN_NOUN}){{0,2}}",
    # 不要调用工具 / 禁止使用外部知识
    (
        rf"(?:在回答时|回答时)?{_HAN_NOT}(?:再)?(?:去)?(?:调用|呼叫|使用|借助|动用|启用|依赖|引用|利用|运行|用)(?:或(?:调用|使用))?{_HAN_TOOLS}"
        rf"(?:(?:和|或|或者|、|与|及){_HAN_TOOLS}){{0,3}}"
    ),
    rf"{_HAN_NOT}(?:在(?:答案|回答)(?:中|里))?(?:添加|加入)(?:任何|自己)?的?(?:编造|虚构|杜撰|外部)的?(?:成分|内容|信息)",
    rf"{_HAN_NOT}(?:进行)?(?:联网|上网)(?:搜索|查询|检索)?",
    # do not make anything up: 不要编造答案
    (
        rf"{_HAN_NOT}(?:自行|随意|凭空|胡乱|擅自){{0,3}}(?:编造|杜撰|捏造|臆测|猜测|虚构|臆造|发挥|胡编乱造|幻想|瞎编)"
        rf"(?:任何|的|虚假|答案|内容|信息|事实){{0,4}}"
    ),
    (
        rf"如果?(?:你|您)?(?:不知道|不清楚|不确定|无法回答|{_HAN_GIVEN}{{0,4}}{_HAN_NOUN}(?:中|里)?(?:没有|不包含|不足|未提及)[^，。；！？,;!?\n]{{0,12}})"
        rf"(?:答案|相关信息){{0,2}}[，,]?(?:请|就|则|可以){{0,2}}(?:直接)?(?:说|回答|回复|告知)[^，。；！？,;!?\n]{{0,12}}"
    ),
    r"(?:你是|您是)一(?:个|名|位)[^，。；！？,;!?\n]{0,8}(?:助手|助理)",
    rf"(?:回答)?{_HAN_ONLY}{{0,4}}(?:简洁|简短|简要|简明|直接|如实)(?:地|扼要){{0,2}}(?:回答|作答|回复){_HAN_TASK}",
    r"回答(?:我的|下面的?|以下的?|下列的?|用户的?)+(?:问题|提问)",
)
_HAN_BREAK = r"\s，。；：！？、,.;:!?()（）\[\]【】*>-"
_HAN_START = rf"(?:^|(?<=[{_HAN_BREAK}]))\s{{0,2}}{_HAN_POLITE}{{0,4}}"
_HAN_END = rf"(?=$|[{_HAN_BREAK}])"


@cache
def _english() -> re.Pattern[str]:
    clauses = "|".join(f"(?:{clause})" for clause in _ENGLISH_CLAUSES)
    return re.compile(rf"(?:{_ENGLISH_START}{_ENGLISH_JOIN})(?:{clauses}){_ENGLISH_END}{_ENGLISH_TAIL}", re.IGNORECASE)


@cache
def _han() -> re.Pattern[str]:
    open_clauses = "|".join(f"(?:{clause})" for clause in _HAN_CLAUSES)
    whole_clauses = "|".join(f"(?:{clause})" for clause in _HAN_WHOLE_CLAUSES)
    return re.compile(
        rf"{_HAN_START}(?:(?:{open_clauses})(?:{_HAN_END}|(?=\w))|(?:{whole_clauses}){_HAN_END})", re.IGNORECASE
    )


def without_boilerplate(text: str) -> str:
    """*text* with every instruction clause replaced by as many blanks, so that positions stay.

    Args:
        text: a query, normalised, traditional characters folded, apostrophes straight.

    Returns:
        The same object when nothing was found.  Pure and thread-safe.  Each repeat in the patterns is bounded, so time
        grows with the length only; the first use in a process compiles them (50 ms).
    """
    lowered = text.lower()
    if any(map(lowered.__contains__, _ENGLISH_HINTS)):
        text = _blanked(_english(), text)
    if not text.isascii() and any(map(lowered.__contains__, _HAN_HINTS)):
        text = _blanked(_han(), text)
    return text


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    # Removing a clause can expose the start of the next one.
    for _ in range(4):
        shorter = pattern.sub(_blank, text)
        if shorter == text:
            return text
        text = shorter
    return text


def _blank(match: re.Match[str]) -> str:
    return " " * (match.end() - match.start())
