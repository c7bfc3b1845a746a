"""Detection of refusals, in several languages: a reply in which a model states that it does not know is replaced by the
words for that (`query.answering.unknown`), and counts as no answer.
"""

import re
import unicodedata

from almanac.index.lexical.analyzer import fold

_DOCUMENTS = (
    r"(?:provided |given |available |internal |supplied "
    r")?(?:passages?|documents?|docs|documentation|context|sources?|texts?|excerpts?|information"
    r"|knowledge base)"
)
_SAYS = (
    r"(?:mention|say|state|contain|include|provide|give|specify|answer|cover|address|tell|indicate|discuss|describ"
    r"e|offer|list)"
)
# Patterns for texts after `_fold`: lower case, no diacritics (nor Japanese voicing marks), straight apostrophes, single
# spaces.
_PHRASES = (
    # English
    r"\b(?:i|we) (?:do not|don't|dont|really don't|honestly don't) know\b",
    r"\b(?:i|we) (?:do not|don't|did not|didn't) (?:have|see|find) (?:any |enough |sufficient |specific |relevant "
    r"|the )*"
    r"(?:information|details?|data|mention|answer|context)",
    r"\b(?:i am|i'm|we are|we're) (?:not sure|unsure|unable to (?:answer|find|say|tell|determine)|not able to "
    r"(?:answer|find|say|tell|determine))",
    r"\b(?:i|we) (?:can not|cannot|can't|could not|couldn't) (?:find|answer|determine|say|tell|locate)\b",
    r"\bi have no (?:information|idea|knowledge|data)\b",
    rf"\b{_DOCUMENTS} (?:do not|don't|does not|doesn't|did not|didn't) (?:explicitly |specifically |directly "
    rf"|actually )?{_SAYS}",
    rf"\b(?:no|none of the|nothing in the|neither of the) {_DOCUMENTS} "
    r"(?:mentions?|says?|states?|contains?|answers?|covers?|specif\w+)",
    rf"\b(?:is|are|was) (?:not|n't) (?:explicitly |specifically |directly )?"
    r"(?:mentioned|stated|specified|covered|answered|found|given|contained|included|provided|addressed)"
    rf" (?:in|by|within|anywhere in) (?:the |these |this |any |any of the )*{_DOCUMENTS}",
    r"\bthere is (?:no|not any) (?:information|mention|answer|data|details?)\b",
    r"\bno (?:relevant |specific )?(?:information|answer) (?:was|is|could be|can "
    r"be|about|on|regarding|available|found)\b",
    # French
    r"\b(?:je|nous) (?:ne|n') ?(?:le "
    r")?(?:sais|savons|dispose|disposons|trouve|trouvons|peux|pouvons|suis|ai|avons)\b.{0,20}\b(?:pas|aucune?)\b",
    r"\bj'ignore\b",
    r"\b(?:passages?|documents?|extraits?|sources?|textes?|contexte|informations?)\b.{0,25}\b(?:ne|n')\b "
    r"?.{0,40}\b(?:pas|aucune?)\b",
    r"\b(?:il n'y a|aucune?) .{0,15}(?:information|mention|reponse)",
    r"\bn'(?:est|sont) pas (?:mentionne|indique|precise)",
    # Spanish, Portuguese, Italian, German, Dutch
    r"\bno (?:lo )?(?:se|sabemos|dispongo|tengo informacion|tengo datos|encuentro|encontre|puedo responder)\b",
    r"\b(?:documentos?|pasajes?|fuentes?|textos?|contexto)\b.{0,20}\bno (?:\w+ "
    r")?(?:menciona|indica|dice|contiene|especifica|proporciona|incluye)",
    r"\bno hay (?:ninguna )?(?:informacion|mencion|respuesta)",
    r"\b(?:eu )?nao (?:sei|tenho informac|encontrei|ha informac)",
    r"\bnon (?:lo )?(?:so|dispongo|trovo|ho (?:informazioni|trovato)|ci sono informazioni)\b",
    r"\b(?:ich|wir) (?:weiss|wissen|kann|konnen|finde|finden|habe|haben)\b.{0,30}\b(?:nicht|keine?)\b",
    r"\b(?:dokumente?n?|passagen?|quellen?|texte?n?|kontext)\b.{0,40}\b(?:nicht|keine?)\b",
    r"\b(?:ik|wij|we) (?:weet|weten|vind|vinden|kan|kunnen|heb|hebben)\b.{0,20}\b(?:niet|geen)\b",
    # Vietnamese
    r"\b(?:toi|chung toi|minh) (?:khong|chua) (?:biet|ro|tim thay|co (?:thong tin|du lieu)|the (?:tra loi|tim))",
    r"\b(?:tai lieu|doan (?:van|trich)|nguon|van ban|ngu canh)\b.{0,30}\b(?:khong|chua) (?:de cap|noi|cho "
    r"biet|co|neu|cung cap|chua)",
    r"\bkhong (?:co|tim thay) (?:bat ky )?(?:thong tin|cau tra loi)",
    # Hebrew
    r"(?:אני|אנחנו|אנו) לא (?:יודע|יודעת|יודעים|בטוח|בטוחה|מוצא|מוצאת|יכול|יכולה)",
    r"(?:איני|אינני|איננו) (?:יודע|יודעת|יודעים|בטוח|בטוחה|יכול|יכולה|מוצא|מוצאת)",
    r"(?:אין|לא נמצא|לא נמצאה|לא מצאתי) (?:לי |בידי |לנו |ברשותי |כל |שום )*(?:מידע|תשובה|אזכור|התייחסות)",
    r"(?:המסמכים|הקטעים|הקטע|המסמך|המקורות|הטקסט|הטקסטים|המידע)(?: \S+){0,2}"
    r" (?:לא|אינו|אינם|אינה|אינן) (?:מזכיר|מציינ|מציין|מכיל|כולל|מספק|אומר|עונ|מתייחס|מפרט)",
    r"לא (?:מוזכר|מצוין|צוין|מופיע|נאמר|כתוב)\S* ב(?:מסמכים|קטעים|מסמך|מקורות|טקסט)",
    # Russian, Arabic, Chinese, Japanese
    r"(?:я|мы) не (?:знаю|знаем|нашел|нашла|нашли|могу ответить)|(?:документ|отрыв|источник|текст)\S*(?: "
    r"\S+){0,3} (?:не|нет) ",
    r"لا (?:اعرف|ادري|اعلم|نعرف)|(?:لا توجد|ليست? لدي) (?:اي "
    r")?(?:معلومات|اجابة)|(?:الوثائق|المستندات|المقاطع|النصوص) لا ",
    r"我不(?:知道|清楚|确定|能回答)|(?:文档|文件|资料|文章|段落|内容)[^。]{0,10}(?:没有|未|并未)|(?:没有|未)(?:找到|提及|提到|提供)[^。]{0,12}(?:信息|資訊|内容|答案)",
    r"(?:わかりません|分かりません|知りません|存じません)|(?:記載|情報|言及)(?:か|は)?(?:されていません|ありません|こさいません)",
)
_SAYS_SO = re.compile("|".join(_PHRASES))
_BUT = re.compile(
    r"(?:\b(?:but|however|though|although|yet|mais|cependant|toutefois|neanmoins|pero|sin "
    r"embargo|mas|porem|ma|tuttavia|aber|jedoch|allerdings|maar"
    r"|nhung|tuy nhien|но|однако)\b|(?<!\w)(?:אבל|אך|אולם|עם זאת)(?!\w)|لكن|但|不过|然而|ただし|しかし)"
)


def is_refusal(text: str, *, is_cited: bool, unknown: str = "") -> bool:
    """Whether a reply is a refusal. `text` is the reply up to its first citation, `is_cited` whether there is one.

    `unknown` are the words that the model was told to refuse with: they are a refusal, whatever they say.

    "I don't know the exact date, but tickets are sold from 9:00 [1]" is an answer; "The passages do not mention fees
    [1]." is a refusal.
    """
    folded = _fold(text)
    said, words = _SAYS_SO.search(folded), _fold(unknown)
    end = folded.index(words) + len(words) if words and words in folded else said.end() if said else None
    return end is not None and not (is_cited and _BUT.search(folded, end))


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text.replace("’", "'").replace("ʼ", "'").casefold())
    return " ".join(fold(plain).split())
