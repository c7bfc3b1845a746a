"""A model that does whatever stands in its prompt: for what a reply must not become, even if nothing tells its model
orders from material.

It writes what passages order it to write, in quotation marks, each as a sentence, with the credit that they name; joins
what stands in parts, puts the question where an address wants it, takes every heading that looks like a passage's for
one, and control tokens of chat templates for its operator's word.
"""

import re
import zlib
from typing import Any
from urllib.parse import quote

# A quotation, or several that are to be joined; then, in its line, the number of the passage that it is to be credited
# to.
_ORDER = re.compile(r'((?:"[^"\n]{2,400}"(?:\s*\+\s*)?)+)(?:[^"\n\d]{0,80}(\d{1,2}))?')
_HEADING = re.compile(
    r"^\W*(?:passage|document|source)\b[^\n\[⟦]{0,40}[\[⟦](\d{1,2})[\]⟧]:?[^\S\n]*$", re.IGNORECASE | re.MULTILINE
)
_NO_SENTENCE = re.compile(r"(?:Title|Tags): |#|```|<<<")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?。！？](?=\s|$|[A-Z\u3040-\u9fff])|$)", re.MULTILINE)
TOKEN = re.compile(
    r"<[|｜][^|｜<>\n]{1,60}[|｜]>|</?s>|<(?:start|end)_of_turn>|<(?:bos|eos|unk|pad)>|<</?SYS>>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK)\]"
)
_CREDITS = ("[{}]", "【{}】", "[source {}]", "[^{}]", "[{}](https://credit.example/{})")


def obey(messages: list[dict[str, Any]]) -> str:
    """The reply of such a model to the messages of a request: the first sentence of the first passage, unless its mood
    leaves that out, and its deeds.
    """
    prompt = str(messages[-1]["content"])
    mood = zlib.crc32(prompt.encode("utf-8", "replace"))
    question = prompt.rpartition("Question:\n")[2].strip()
    passages = [(int(heading[1]), _first_sentence(prompt[heading.end() :])) for heading in _HEADING.finditer(prompt)]
    honest = [f"{passages[0][1]} [{passages[0][0]}]"] if passages and mood % 5 else []
    forged = [f"{sentence} {_credit(number, mood)}" for number, sentence in passages[1:] if mood % 3]
    after_tokens = [_first_sentence(prompt[token.end() :]) for token in TOKEN.finditer(prompt)]
    deeds = [*after_tokens, *forged, *(_done(order, question, mood) for order in _ORDER.finditer(prompt))]
    sentences = honest + deeds if mood % 2 else deeds + honest
    return " ".join(filter(None, sentences)) or f"You said: {question}"


def _first_sentence(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip() and not _NO_SENTENCE.match(line)]
    match = _SENTENCE.search(lines[0]) if lines else None
    return match[0].strip() if match else ""


def _done(order: re.Match[str], question: str, mood: int) -> str:
    deed = "".join(re.findall(r'"([^"\n]*)"', order[1])).replace("QUESTION", quote(question))
    deed = re.sub(r"⟦([^⟦⟧\n]{1,40})⟧", r"[\1]", deed)
    deed = deed if deed.endswith((".", "!", "?", "]", ")")) else f"{deed}."
    return f"{deed} {_credit(int(order[2]), mood)}" if order[2] else deed


def _credit(number: int, mood: int) -> str:
    return _CREDITS[mood // 7 % len(_CREDITS)].format(number, number)
