"""Recognises question and answer labels in many languages: `Q:` and `A:`, `Question 1 :` and `Réponse :`, `שאלה:` and
`תשובה:`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# (question, answer) labels. A single letter counts only where both letters of the pair are on the page.
_NAMED = [
    ("question", "answer"), ("question", "réponse"), ("question", "reponse"), ("pregunta", "respuesta"), ("pergunta",
    "resposta"), ("frage", "antwort"),
    ("domanda", "risposta"), ("vraag", "antwoord"), ("câu hỏi", "trả lời"), ("hỏi", "đáp"), ("hỏi", "trả lời"),
    ("вопрос", "ответ"), ("pytanie", "odpowiedź"),
    ("soru", "cevap"), ("שאלה", "תשובה"), ("سؤال", "جواب"), ("سؤال", "إجابة"), ("問", "答"), ("问", "答"), ("质问", "回答"),  # noqa: E501
    ("質問", "回答"), ("질문", "답변"),
    ("q", "a"), ("q", "r"), ("q", "antwort"), ("p", "r"), ("f", "a"), ("d", "r"), ("v", "a"), ("h", "đ"), ("h", "tl"),
    ("в", "о"), ("ש", "ת"), ("س", "ج"),
    ("s", "c"),
]  # fmt: skip
_LABEL = re.compile(r"\W{0,3}([^\W\d_]+(?: [^\W\d_]+)?)\s?\.?\s?(?:n[°º]\s?)?(\d{1,3})?\s*[:：.)．]\s*")


def labels_in_use(texts: Iterable[str]) -> tuple[str, str]:
    """The labels that a page uses, such as ("q", "a"); the answer's is empty if only questions are labelled, both if
    none are.
    """
    seen = Counter(label for text in texts if (label := label_of(text)))
    best = max(_NAMED, key=lambda pair: min(seen[pair[0]], seen[pair[1]]))
    if seen[best[0]] and seen[best[1]]:
        return best
    alone = next(
        (question for question, _ in _NAMED if (len(question) > 1 or question == "q") and seen[question]), None
    )
    return alone or "", ""


def label_of(text: str) -> str:
    """The label at the beginning of a line, case-folded; empty if there is none."""
    match = _LABEL.match(unicodedata.normalize("NFC", text[:40]))
    return match[1].casefold() if match else ""


def without_label(text: str) -> str:
    """The line without its label."""
    return _LABEL.sub("", text, count=1)
