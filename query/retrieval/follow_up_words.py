"""The words by which a question leans on what was said before, by language: connectives that begin it, pronouns, and
requests for more.
"""

from collections.abc import Collection
from functools import cache

import regex  # type: ignore[import-untyped]  # ships no types

# At the beginning of a question. Each language has its own: Dutch "en" is "in" in French, Polish "a" an English
# article.
_CONNECTIVES = {
    "en": r"and|but|or|also|then|plus|what about|how about|what if|so",
    "fr": r"et|mais|ou|alors|aussi|donc|sinon|puis|qu'en est-il",
    "de": r"und|aber|oder|auch|dann|sonst|also|wie sieht es",
    "es": r"y|e|pero|o|entonces|también|qué hay de|qué tal",
    "it": r"e|ed|ma|o|allora|anche|invece|quindi",
    "pt": r"e|mas|ou|então|também|quanto a",
    "nl": r"en|maar|of|ook|dan|en dan",
    "vi": r"còn|thế|vậy|và|nhưng|hay|thì sao",
    "he": r"אבל|אז|גם|או|ואם|ומה|ואיך|ומתי|ואיפה|וכמה|ולמה|ומי|והאם|ועד",
    "ru": r"а|и|но|или|тогда|также",
    "uk": r"а|і|й|але|або|чи|тоді",
    "pl": r"a|i|ale|albo|lub|więc|też|także",
    "cs": r"a|ale|nebo|tak|také",
    "tr": r"peki|ve|ama|ya|veya",
    "ar": r"لكن|أو|أيضا|وماذا|وكيف|ومتى|وأين|وكم|ولماذا|ومن|وهل",
    "sv": r"och|men|eller|också|då",
    "da": r"og|men|eller|også",
    "no": r"og|men|eller|også",
    "zh": r"那么?|还有|另外|而且|但是?|那|那麼|還有",
    "ja": r"では|じゃあ?|それで|でも|また|あと|それなら",
    "ko": r"그럼|그리고|그러면|하지만|또",
}
# Words for something named before, anywhere in a question; where one has other uses, only what surrounds it in this
# one.
_PRONOUNS = {
    "en": r"it|its|they|them|theirs?|these|those|he|she|his|him|hers?|ones?(?=\W*$)|(?<!\b(?:is|are|was|were|be|will"
    r"|if) )there(?=\W*$)|from there|there then"
    r"|th(?:at|is)(?=\W*$)|(?:about|for|with|like|of|is|does|did|was|take|do|has) th(?:at|is)(?! \p{L}+ \p{L})"
    r"|(?:that|this|the other|the same) one|the same|the others?",
    "fr": r"(?<!(?:y a-t-|faut-|peut-|est-)) ?(?:elles?|ils?)(?! (?:y a|faut|est "
    r"possible))|cela|ça|ceci|celui|celles?|ceux|lui|leurs?|là-bas"
    r"|là|le mien|dedans|dessus",
    "de": r"er|(?-i:sie)|ihn|ihm|ihnen|ihrer?|deren|dessen|dort|dorthin|das(?=\W*$)"
    r"|(?:ist|kostet|geht|dauert|bedeutet|waren|sind|war|gilt|heißt|kann man|man) das"
    r"|da(?=\W*$)|dafür|davon|damit|daran|darauf|dazu|dabei|danach|darüber|darin|dies(?:er|e|es|en|em)?|jene[r"
    r"snm]?|dasselbe|derselbe",
    "es": (
        r"él|ellas?|ellos|eso|esto|es[eao]s?|est[eao]s?|aquel(?:la|los|las)?|aquello|allí|ahí|allá|les?|su|sus|suy"
        r"[oa]s?|el mismo|la misma|lo mismo"
    ),
    "it": r"ess[oaie]|lui|lei|loro|quell[oaie]|quest[oaie]|ciò|lì|là|su[oa]|suoi|sue|lo stesso|la stessa",
    "pt": (
        r"el[ea]s?|isso|isto|ess[ea]s?|est[ea]s?|aquilo|lá|ali|del[ea]s?|nel[ea]s?|disso|disto|nisso|seus?|suas?|o"
        r" mesmo|a mesma"
    ),
    "nl": (
        r"hij|zij|ze|hem|hun|hen|dat(?=\W*$)|(?:is|kost|duurt|kan|doet) "
        r"dat|dit|die|deze|daar|daarvan|daarvoor|ervan|ermee|ervoor|erbij|hetzelfde|dezelfde"
    ),
    "vi": r"nó|đó|đấy|ấy|này|kia|họ|chúng|thế|vậy|như trên",
    "he": r"זה|זאת|זו|הוא|היא|הם|הן|שם|לשם|משם|אותו|אותה|אותם|אותן|של[והםן]|שלהם|שלהן|ב[והםן]|בהם|ל[וה]|להם|להן|כזה|"
    r"כזאת|כאלה|ממנו|ממנה|מהם"
    r"|עליו|עליה|עליהם|איתו|איתה",
    "ru": (
        r"он|она|оно|они|его|её|ее|их|это|этот|эта|эти|этом|этого|там|туда|тот|та|те|такой|такая|им|ему|ней|нём|не"
        r"м|них|нему"
    ),
    "uk": r"він|вона|воно|вони|його|її|їх|це|цей|ця|ці|цього|там|туди|той|такий|йому|ній|ньому|них",
    "pl": r"on|ona|ono|oni|one|jego|jej|ich|to|ten|ta|te|tego|tym|tam|taki|taka|nim|niej|nich|go|mu",
    "cs": r"on|ona|ono|oni|jeho|její|jejich|to|ten|ta|ty|toho|tam|takový|něm|ní|nich|ho|mu",
    "tr": r"o|onu|onun|ona|onda|orada|oraya|bu|bunu|bunun|şu|onlar|onların",
    "ar": r"هو|هي|هم|هن|هذا|هذه|ذلك|تلك|هناك|فيها?|له|لها|منها?|عنها?|عليها?|بها?",
    "sv": r"den|det|de|dem|dess|deras|där|dit|detta|denna|dessa|han|hon|hans|hennes|samma",
    "da": r"den|det|de|dem|dens|dets|deres|der|dertil|dette|denne|disse|han|hun|hans|hendes|samme",
    "no": r"den|det|de|dem|dens|dets|deres|der|dit|dette|denne|disse|han|hun|hans|hennes|samme",
    "zh": r"它们?|他们?|她们?|牠|那里|那裡|那儿|那个|那個|这个|這個|这些|這些|那些|其中|此",
    "ja": r"それら?|その|そこ|そちら|あれ|あの|これ|この|ここ|彼女?",
    "ko": r"그것|그거|거기|그곳|이것|그는|그녀",
}
# Requests for more of the same, which name nothing themselves.
_MORE = {
    "en": r"(?:can you |could you |please )*(?:tell|give|show|say) (?:me |us )?(?:some )?more|(?:some )?more(?: "
    r"details?| info(?:rmation)?)?"
    r"|in more detail|go on|continue"
    r"|what else|anything else|elaborate|explain(?: more| further)?|and then|details",
    "fr": r"(?:dis|dites|peux-tu me dire|pouvez-vous me dire)[- ]?(?:m'|moi )?(?:en )?plus|(?:en "
    r"savoir|donne[rz]?[- ]m'en|m'en dire) plus"
    r"|plus de (?:détails|précisions)"
    r"|plus d'(?:infos?|informations?)|continue[rz]?|la suite|quoi d'autre|développe[rz]?|encore",
    "de": r"(?:erzähl(?:e|en sie)?|sag(?:e|en sie)?) (?:mir|uns) (?:noch )?mehr|(?:noch )?mehr(?: details| infos?| "
    r"informationen)?|was noch"
    r"|und weiter|weiter|genauer|ausführlicher"
    r"|einzelheiten|details",
    "es": r"(?:cuéntame|cuénteme|cuentame|dime|dígame|explícame) (?:algo )?más|más(?: detalles| información| "
    r"datos)?|qué más|algo más|sigue"
    r"|siga|continúa|continúe|en detalle",
    "it": r"(?:dimmi|raccontami|dammi|mi dica) (?:di |qualcosa in )?più|(?:più|altri|maggiori) "
    r"(?:dettagli|informazioni)|cos'altro|che altro"
    r"|altro|continua|continui|vai avanti",
    "pt": (
        r"(?:conta|conte|diga|diz|fala|fale)(?:-me| me)? mais|mais(?: detalhes| informações)?|(?:o )?que "
        r"mais|continua|continue|algo mais"
    ),
    "nl": r"(?:vertel|zeg)(?: me| mij| ons)? (?:nog )?meer|(?:nog )?meer(?: details| informatie| info)?|wat nog(?: "
    r"meer)?|ga (?:door|verder)"
    r"|en verder|verder",
    "vi": r"(?:hãy )?(?:nói|kể|giải thích|cho (?:tôi |mình |em |tao )?biết)(?: rõ| chi tiết)? (?:thêm|hơn)|thêm "
    r"(?:chi tiết|thông tin)"
    r"|chi tiết(?: hơn)?|còn gì (?:nữa|khác)|tiếp(?: tục)?",
    "he": r"(?:ספרו?י?|תספרו?י?|תגידו?י?|אמרו?י?)(?: לי| לנו)? עוד(?: קצת)?|עוד(?: פרטים| מידע| קצת)?|פרטים "
    r"נוספים|תמשיכי?|המשך|המשיכי?|פרטי?"
    r"|מה עוד|בפירוט|הרחיבי?|תרחיבי?",
    "ru": r"расскажи(?:те)?(?: мне)?(?: об этом)? (?:ещё|еще|больше|подробнее)|(?:ещё|еще|больше|подробнее)(?: "
    r"информации)?"
    r"|(?:что|а) (?:ещё|еще)|дальше|продолжай(?:те)?",
    "uk": r"розкажи(?:іть)?(?: мені)? (?:ще|більше|докладніше)|ще|докладніше|що ще|далі",
    "pl": r"(?:powiedz|opowiedz)(?: mi)? więcej|więcej(?: szczegółów| informacji)?|co jeszcze|dalej|kontynuuj",
    "cs": r"řekni(?: mi)? více?|víc(?:e)?(?: podrobností)?|co ještě|dál|pokračuj",
    "tr": r"(?:bana )?(?:biraz )?daha fazla(?: bilgi| anlat)?|daha fazlasını anlat|devam(?: et)?|başka",
    "ar": (
        r"(?:أخبرني|اخبرني|قل لي|حدثني)(?: عن)?(?: ال)?مزيدا?|المزيد|مزيد من "
        r"(?:التفاصيل|المعلومات)|أكمل|تابع|ماذا أيضا"
    ),
    "sv": r"berätta mer|mer(?: information)?|vad mer|fortsätt",
    "da": r"fortæl(?: mig)? mere|mere|hvad mere|fortsæt",
    "no": r"fortell(?: meg)? mer|mer|hva mer|fortsett",
    "zh": r"继续|繼續|更多|详细(?:点|一点|说明)?|詳細|还有(?:吗|呢|什么)|多说(?:一?点|些)|再说(?:一?点|些)",
    "ja": r"もっと(?:詳しく)?(?:教えて)?(?:ください)?|詳しく(?:教えて)?(?:ください)?|続けて|他には|ほかには",
    "ko": r"더(?: 자세히)?(?: 알려줘| 말해줘)?|자세히|계속|또 뭐",
}
_SPACELESS = frozenset(("zh", "ja", "ko"))  # their words have no boundaries to look for


@cache
def connective(tag: str) -> "regex.Pattern[str] | None":
    """Matches a question that begins with a connective of a language, to the connective's end; None for a language
    without a list.
    """
    return _pattern(_CONNECTIVES, tag, r"^[\s\p{P}]*", "")


@cache
def pronoun(tag: str) -> "regex.Pattern[str] | None":
    """Finds words of a language for what was named before; None for a language without a list."""
    return _pattern(_PRONOUNS, tag, "", "")


@cache
def request_for_more(tag: str) -> "regex.Pattern[str] | None":
    """Matches a question that begins with a request for more of the same, to the request's end; None for a language
    without a list.
    """
    return _pattern(_MORE, tag, r"^[\s\p{P}]*", "")


def _pattern(words: dict[str, str], tag: str, before: str, after: str) -> "regex.Pattern[str] | None":
    if tag not in words:
        return None
    begin, end = ("", "") if tag in _SPACELESS else (r"(?<![\p{L}\p{M}\p{N}])", r"(?![\p{L}\p{M}\p{N}])")
    return regex.compile(f"{before}{begin}(?:{words[tag]}){end}{after}", regex.IGNORECASE)


def languages_with_lists(tags: Collection[str]) -> list[str]:
    """Those of the tags for which there are lists; English, where there is none."""
    return [tag for tag in tags if tag in _PRONOUNS] or ["en"]
