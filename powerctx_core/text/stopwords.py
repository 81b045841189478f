"""Stop words: what a query drops, never what the index drops.

Negations are in none of these lists, so that a query keeps its meaning.
The lists hold surface forms (case-folded, accent-folded, traditional folded to simplified), not stems.
"""

from __future__ import annotations

__all__ = ["CYRILLIC", "ENGLISH", "HANGUL", "HAN_CHARACTERS", "NEGATIONS", "RUN_PHRASES"]

ENGLISH = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each either few for from further get gets getting got had has have having
    he her here hers herself hi him himself his how i if in into is it its itself just let me more most much my myself
    of off ok okay on once one only onto or other our ours ourselves out over own please same shall she should since so
    some such than that the their theirs them themselves then there these they this those though through thus to too
    under until up upon us very was we were what when where whether which while who whom whose why will with would yes
    yet you your yours yourself yourselves
    """.split()
)
"""English function words."""

CYRILLIC = frozenset(
    """
    а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да для до его ее если есть еще же
    за здесь и из или им их к как какая какие какой ко когда кто ли мне может мы на над нам нас него нее нам них но о об
    он она они оно от очень по под при с со так также такой там те тем то того тоже той только том ты у уже чего чем что
    чтобы эта эти это этого этот я
    """.split()
)
"""Russian function words; no other word list shares their letters often enough to hurt."""

HANGUL = frozenset(
    "그 그것 그런데 그리고 나는 내가 너는 누가 누구 무슨 무엇 뭐 어느 어디 어디서 어디에 어떤 어떻게 언제 왜 "
    "이 이것 저 저것 저는 제가 좀".split()
)
"""Korean words that only ask or point; particles need no list, since syllable pairs do not see them."""

NEGATIONS = frozenset(
    """
    no nor not never none nothing nobody nowhere neither without cannot
    не нет ни без никогда
    不 没 无 非 别 未 勿 莫 否
    """.split()
)
"""Words and characters that turn a statement round: always kept, though they are no content by themselves."""

HAN_CHARACTERS = frozenset(
    "的了是在我你您他她它妳牠祢们这那哪谁什么怎吗呢吧啊呀嘛哦喔啦呗个和与及或也就都而着著过之其于被把让给从到对很还又再并且"
    "但因为所以有会能可要"
)
"""Han characters that are function words far more often than content."""

RUN_PHRASES = (
    # Chinese
    "为什么|怎么办|怎么样|怎么|怎样|怎办|什么样|什么时候|什么|如何|哪些|哪里|哪儿|哪个|多少|是否|可以|能够|应该|我们|你们|您们|他们|她们"
    "|它们|咱们|自己|这个|那个|这些|那些|这样|那样|这里|那里|这么|那么|一个|一些|一下|因为|所以|如果|但是|而且|并且|或者|以及|还是"
    "|然后|关于|对于|由于|虽然|请问|告诉我|时候|已经|就是"
    # Japanese
    "|ですか|でしたか|でした|でしょうか|でしょう|です|ますか|ましたか|ました|ます|ください|下さい|について|という|どのように|どうやって"
    "|どこ|いつ|だれ|なぜ|どれ|どの|どう|なに|それ|これ|あれ|その|この|あの|から|まで|している|していた|して|した|する|こと|もの|ため|よう"
)
"""
Alternatives, longest first where one begins another, of phrases inside a run of Han and kana that carry no content.

A phrase marks its characters as stop characters at that place only, so 以 in 可以 is one and 以 in 以色列 is not.
"""
