"""faq_md: 74 questions with their answers. The truth was made by stripping Markdown with patterns, and says of an
answer 300 characters at most.
"""

import json
import re
from collections.abc import Iterator

from tests.reference.figures import Figure, equal
from tests.reference.journey import CONTENT, travel

_FILES = {
    "techhub_support_faq": "techhub_support_faq.md",
    "googletest": "googletest_faq.md",
    "datagouv_fr": "datagouv_foire_aux_questions.fr.md",
    "cadastre_fr": "datagouv_faq_cadastre.fr.md",
    "adresse_fr": "datagouv_faq_adresse.fr.md",
}
_TRUNCATED = 300  # characters that the truth says of an answer
# The truth left ">" out of tags, and a heading's `{#name}` and a paragraph's `{: .class}` in.
_MARKUP = re.compile(
    r"""!?\[([^\]]*)\]\([^)]*\)|</?[a-z]+(?:\s+[a-z]+="[^"]*")*\s*/?>?|\{#?\w+\}|\{:[^{}]*\}|&(?:#x?)?\w+;|[`*_#>|\\+-]"""
)


def faq_md() -> Iterator[Figure]:
    content = travel("faq_md")["faq"]
    pairs: dict[str, dict[str, str]] = {}
    for item in content.distinct_items:
        pairs.setdefault(item.url.partition("#")[0], {})[_plain(item.fields["question"])] = item.fields["answer"]
    truth = json.loads((CONTENT / "faq_md/expected.json").read_text(encoding="utf-8"))
    total = sum(map(len, truth.values()))
    yield Figure("pairs", len(content.distinct_items), total, [f"{r.url}: {r.reason}" for r in content.rejects])
    questions = {
        f"{name}: {_plain(pair['question'])}": True for name, expected_pairs in truth.items() for pair in expected_pairs
    }
    yield equal(
        "questions",
        {f"{name}: {question}": True for name, file in _FILES.items() for question in pairs.get(file, {})},
        questions,
    )
    differences = [
        f"{name}: {pair['question'][:60]}: {difference}"
        for name, expected_pairs in truth.items()
        for pair in expected_pairs
        if (
            difference := _difference(
                pairs.get(_FILES[name], {}).get(_plain(pair["question"]), ""), pair["answer"], _headings(_FILES[name])
            )
        )
    ]
    yield Figure("answers", total - len(differences), total, differences)


def _headings(file: str) -> set[str]:
    lines = (CONTENT / "faq_md" / file).read_text(encoding="utf-8").splitlines()
    return {_plain(line) for line in lines if line.startswith("#")}


def _plain(text: str) -> str:
    """Letters and punctuation only: without Markdown, tags and white space, which the truth treats in its own way."""
    text = _MARKUP.sub(lambda match: match[1] or " ", text)
    return "".join(text.split())


def _difference(answer: str, expected: str, headings: set[str]) -> str:
    """What differs, from the first difference on; empty where the answer is the one of the truth as far as that goes.

    Six answers of the truth run on into the heading of the next section; ours end before it.
    """
    wanted, whole = _plain(expected), _plain(answer)
    got = whole[: len(wanted)] if len(expected) >= _TRUNCATED else whole
    surplus = wanted.removeprefix(got)
    if got == wanted or (got and surplus != wanted and surplus.startswith(tuple(headings))):
        return ""
    at = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    return f"found …{got[at : at + 40]!r}, expected …{wanted[at : at + 40]!r}"
