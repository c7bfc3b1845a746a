"""Questions and answers, in the shapes and languages in which people write them."""

from pathlib import Path

import pytest

from almanac.spiders.reading.dialects import as_shown
from almanac.spiders.reading.faq import Pair, pairs_of_lines, pairs_of_structured_data, unpaired
from almanac.spiders.reading.markdown import render
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.outline import Line, outline
from tests.growth import assert_linear
from tests.spiders.file_reading import only_draft, read_items
from tests.spiders.files import docx, paragraph


def markdown_pairs(text: str) -> list[Pair]:
    return pairs_of_lines(outline(parse_markup(render(as_shown(text))).root, line_feeds=True))


def html_pairs(text: str) -> list[Pair]:
    return pairs_of_lines(outline(parse_markup(text).root))


def shown(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.question, pair.answer) for pair in pairs]


TWO_ON_PAYMENT = [("How do I pay?", "By card."), ("Can I return it?", "Yes.")]


@pytest.mark.parametrize(
    "text",
    [
        "# FAQ\n\n## How do I pay?\nBy card.\n\n## Can I return it?\nYes.\n",
        "How do I pay?\n-------------\nBy card.\n\nCan I return it?\n----------------\nYes.\n",
        "## 1. How do I pay?\nBy card.\n## 2. Can I return it? {#return}\nYes.\n",
        "**How do I pay?**\nBy card.\n\n**Can I return it?**\n\nYes.\n",
        "1. **How do I pay?** By card.\n2. **Can I return it**? Yes.\n",
        "Q: How do I pay?\nA: By card.\n\nQ: Can I return it?\nA: Yes.\n",
        "**Q1: How do I pay?**\n\nA1: By card.\n\n**Q2: Can I return it?**\n\nA2: Yes.\n",
        "# Help\nName: Ann?\nRoom: 1\n\nName: Bo?\nRoom: 2\n\n## How do I pay?\nBy card.\n## Can I return it?\nYes.\n",
        "### Q. How do I pay?\nA. By card.\n\n### Q. Can I return it?\nA. Yes.\n",
        "Q: How do I pay?\nBy card.\n\nQ: Can I return it?\nYes.\n",
        "<details><summary>How do I pay?</summary>\n\nBy card.\n\n</details>\n<details>\n<summary><b>Can I return "
        "it?</b></summary>\nYes.\n</details>\n",
        "How do I pay?\n\nBy card.\n\nCan I return it?\n\nYes.\n",
        "- [How do I pay?](#a)\n- [Can I return it?](#b)\n\n## How do I pay?\nBy card.\n## Can I return it?\nYes.\n",
    ],
)
def test_every_way_to_write_a_pair_in_markdown_gives_the_same_pairs(text: str) -> None:
    assert shown(markdown_pairs(text)) == TWO_ON_PAYMENT


@pytest.mark.parametrize(
    "text",
    [
        "<dl><dt>How do I pay?<dd>By card.<dt>Can I return it?<dd>Yes.</dl>",
        "<main><h3><button>How do I pay?</button></h3><div hidden><p>By card.</p></div><h3><button>Can I return "
        "it?</button></h3><div>Yes.</div></main>",
        "<div><button>How do I pay?</button><div>By card.</div></div><div><button>Can I return it?</button><div>"
        "Yes.</div></div>",
        "<p><b>How do I pay?</b><br>By card.</p><p><strong>Can I return it?</strong> Yes.</p>",
        "<nav><h2>Questions?</h2><p>menu</p></nav><h2>How do I pay?</h2><p>By card.</p><h2>Can I return it?</h2>"
        "<p>Yes.</p><footer><h2>Help?</h2>call</footer>",
    ],
)
def test_every_way_to_write_a_pair_in_html_gives_the_same_pairs(text: str) -> None:
    assert shown(html_pairs(text)) == TWO_ON_PAYMENT


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("**Q : Comment réserver ?**\n\nR : Par mail.\n\n**Q : Et annuler ?**\n\nR : Oui.", [("Comment réserver ?",
        "Par mail."), ("Et annuler ?", "Oui.")]),
        ("Câu hỏi 1: Giá vé?\nTrả lời: 5 ₫.\n\nCâu hỏi 2: Mấy giờ?\nTrả lời: 8 giờ.", [("Giá vé?", "5 ₫."), ("Mấy giờ?",
        "8 giờ.")]),
        ("**Hỏi:** Giá vé?\n**Đáp:** 5 ₫.\n\n**Hỏi:** Mấy giờ?\n**Đáp:** 8 giờ.", [("Giá vé?", "5 ₫."), ("Mấy giờ?",
        "8 giờ.")]),
        ("### Giá vé?\n5 ₫.\n### Mấy giờ?\n8 giờ.", [("Giá vé?", "5 ₫."), ("Mấy giờ?", "8 giờ.")]),
        ("ש: כמה עולה?\nת: חינם.\n\nש: מתי?\nת: היום.", [("כמה עולה?", "חינם."), ("מתי?", "היום.")]),
        ("## כמה עולה?\nחינם.\n## מתי?\nהיום.", [("כמה עולה?", "חינם."), ("מתי?", "היום.")]),
        ("**P: ¿Cuánto cuesta?**\nR: Nada.\n\n**P: ¿Cuándo?**\nR: Hoy.", [("¿Cuánto cuesta?", "Nada."), ("¿Cuándo?",
        "Hoy.")]),
        ("## 多少钱？\n免费。\n## 什么时候？\n今天。", [("多少钱？", "免费。"), ("什么时候？", "今天。")]),
        ("### Q1. いくらですか。\nA. 無料。\n### Q2. いつですか。\nA. 今日。", [("いくらですか。", "無料。"), ("いつですか。", "今日。")]),  # noqa: E501
        ("## كم السعر؟\nمجاني.\n## متى؟\nاليوم.", [("كم السعر؟", "مجاني."), ("متى؟", "اليوم.")]),
    ],
)  # fmt: skip
def test_languages_have_their_own_marks(text: str, pairs: list[tuple[str, str]]) -> None:
    assert shown(markdown_pairs(text)) == pairs


@pytest.mark.parametrize("labels", [("Q", "A"), ("Question", "Answer"), ("Frage", "Antwort")])
def test_one_pair_is_told_by_its_labels(labels: tuple[str, str]) -> None:
    assert shown(markdown_pairs("# Help\n{}: How do I pay?\n{}: By card.".format(*labels))) == TWO_ON_PAYMENT[:1]


def test_headings_above_the_questions_are_sections() -> None:
    pairs = markdown_pairs(
        "# Help\nHello.\n## Orders\n### How?\nOnline.\n#### By phone\nToo.\n## Payment\nAll about it.\n### Which "
        "cards?\nAll.\n"
    )
    assert [(pair.section, pair.question, pair.answer) for pair in pairs] == [
        ("Orders", "How?", "Online.\n\nBy phone\n\nToo."),
        ("Payment", "Which cards?", "All."),
    ]


def test_without_question_marks_the_deepest_headings_with_text_ask() -> None:
    assert shown(markdown_pairs("# Manual\n## Setup\n### Reset\nPress.\n### Mail\nGo there.\n")) == [
        ("Reset", "Press."),
        ("Mail", "Go there."),
    ]


def test_what_is_folded_or_bold_inside_an_answer_belongs_to_it() -> None:
    text = (
        "## Why A?\nSo.\n\n**Really?**\nYes.\n\n<details><summary>Code</summary>\n\n```py\nx  = 1\n```\n\n"
        "</details>\n\n## Why B?\nWell.\n"
    )
    assert shown(markdown_pairs(text)) == [
        ("Why A?", "So.\n\nReally? Yes.\n\nCode\n\n```py\nx  = 1\n```"),
        ("Why B?", "Well."),
    ]
    folded = "<details><summary>About {}</summary>\n\n**How?**\\\nOnline.\n\n**When?**\\\nNow.\n\n</details>\n"
    text = folded.format("tickets") + folded.format("food")
    assert [question for question, _ in shown(markdown_pairs(text))] == ["About tickets", "About food"]


def test_code_that_holds_a_fence_stands_between_longer_ones() -> None:
    assert shown(markdown_pairs("## Why?\n~~~~\n```\nx\n```\n~~~~\n")) == [("Why?", "````\n```\nx\n```\n````")]


def test_folded_sections_that_hold_questions_are_sections() -> None:
    pairs = markdown_pairs(
        "<details><summary>Orders</summary>\n<details><summary>How?</summary>\nSo.\n</details>\n</details>"
    )
    assert [(pair.section, pair.question, pair.answer) for pair in pairs] == [("Orders", "How?", "So.")]


def test_answers_keep_lists_and_tables() -> None:
    text = "## Who?\nThese:\n\n1. one\n2. two\n   - inner\n\n   more\n\n## What?\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert shown(markdown_pairs(text)) == [
        ("Who?", "These:\n\n1. one\n2. two\n  - inner\n   more"),
        ("What?", "a | b\n1 | 2"),
    ]


def test_anchors_are_the_questions_and_their_own() -> None:
    pairs = markdown_pairs("## Où ?\nA.\n## Où ?\nB.\n## ???\nC.\n")
    assert [(pair.anchor, pair.number) for pair in pairs] == [("#où", 1), ("#où-2", 2), ("#question", 3)]


def test_schema_org_pairs_are_taken_as_they_are() -> None:
    answer = {"@type": "Answer", "text": "<p>So &amp; so.</p><p>Or not.</p>"}
    question = {"@type": ["Question"], "name": "How?", "acceptedAnswer": answer}
    page = {"@type": "FAQPage", "mainEntity": [question, {"@type": "Question", "name": "No answer?"}, 7]}
    assert shown(pairs_of_structured_data([{"@graph": [page]}])) == [("How?", "So & so.\n\nOr not.")]


@pytest.mark.parametrize(
    ("name", "question"), [("A &amp; B?", "A & B?"), ("<b>Why</b> me?", "Why me?"), ("What is <br>?", "What is <br>?")]
)
def test_names_in_structured_data_are_text(name: str, question: str) -> None:
    node = {"@type": "Question", "name": name, "acceptedAnswer": {"text": "So."}}
    assert shown(pairs_of_structured_data([node])) == [(question, "So.")]


def test_prose_has_no_pairs() -> None:
    assert markdown_pairs("# Title\n\nA text. Is it one? It is.\n") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "end", "count"),
    [
        ("<details>", "", 15_000),
        ("<div>", "x?", 15_000),
        ("> ", "x", 100_000),
        ("- ", "x", 15_000),
        ("**", "", 80_000),
        ("Q: ", "", 15_000),
        ("# ?\n", "", 1500),
    ],
)
def test_hostile_pages_take_linear_time(piece: str, end: str, count: int) -> None:
    assert_linear(markdown_pairs, lambda pieces: piece * pieces + end, count)


def test_what_is_no_pair_is_told_in_linear_time_whatever_the_order_of_the_pairs() -> None:
    def page(count: int) -> tuple[list[Line], list[Pair]]:
        pairs = [
            Pair(f"What is {number}?", f"It is the number {number}.\nAnd so on.", "", number, "")
            for number in range(count)
        ]
        notes = [f"Note {number}" for number in range(count)]
        return [
            Line(text)
            for pair, note in zip(pairs, notes, strict=True)
            for text in (pair.question, *pair.answer.split("\n"), note)
        ], pairs

    lines, pairs = page(2_000)
    assert list(unpaired(lines, pairs[::-1])) == [f"Note {number}" for number in range(2_000)]
    assert_linear(lambda given: list(unpaired(*given)), page, 500)


def test_pairs_are_items_with_addresses_of_their_own(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "a.md": "# FAQ\n## Où ?\nIci.\n",
        "b.html": "<h1>FAQ</h1><dl><dt>Quand ?<dd>Demain.</dl>",
        "c.docx": docx(paragraph("Why?", "Heading1") + paragraph("So.")),
    }
    drafts, rejects = read_items(tmp_path, {**files, "d.md": "No question."}, format="faq", yields="records")
    assert [(draft.url, draft.document_id, draft.title, draft.fields) for draft in drafts] == [
        ("a.md#où", "a.md#où", "Où ?", {"question": "Où ?", "answer": "Ici."}),
        ("b.html#quand", "b.html#quand", "Quand ?", {"question": "Quand ?", "answer": "Demain."}),
        ("c.docx#why", "c.docx#why", "Why?", {"question": "Why?", "answer": "So."}),
    ]
    assert [(reject.url, reject.reason[:40]) for reject in rejects] == [
        ("d.md", "no question with an answer found: headin")
    ]


def test_pairs_as_documents_and_by_declared_rules(tmp_path: Path) -> None:
    text = "# FAQ\n## Tickets\n### How?\nOnline.\n### Why?\nSo.\n"
    drafts, _ = read_items(
        tmp_path, {"a.md": text}, format="faq", fields={"at": {"json": "number"}, "part": {"json": "section"}}
    )
    assert [(draft.body, draft.title, draft.fields) for draft in drafts] == [
        ("How?\n\nOnline.", "How?", {"at": 1, "part": "Tickets"}),
        ("Why?\n\nSo.", "Why?", {"at": 2, "part": "Tickets"}),
    ]


@pytest.mark.parametrize(
    "page",
    ["<dl><dt>How?<dd>Online.</dl>", "<details><summary>How?</summary>Online.</details>", "<h2>How?</h2><p>Online."],
)
def test_pairs_of_a_page_are_read_by_rules_on_json_alone(tmp_path: Path, page: str) -> None:
    rules = {"q": {"json": "question", "required": True}, "a": {"json": "answer", "required": True}}
    assert only_draft(read_items(tmp_path, {"a.html": page}, format="faq", yields="records", fields=rules)).fields == {
        "q": "How?",
        "a": "Online.",
    }


def test_pairs_of_a_page_leave_it_whole_for_declared_rules(tmp_path: Path) -> None:
    page = "<details><summary>Why <b>me</b>?</summary><p>So.</p></details>"
    assert only_draft(
        read_items(tmp_path, {"a.html": page}, format="faq", fields={"s": {"css": "summary"}})
    ).fields == {"s": "Why me?"}


@pytest.mark.parametrize("kind", ["application/ld+json; charset=utf-8", "application/LD+JSON"])
def test_pairs_in_structured_data_are_read_as_shops_write_it(tmp_path: Path, kind: str) -> None:
    data = (
        '{"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": "Why?", "acceptedAnswer": {"text": '
        '"So."}},]}'
    )
    draft = only_draft(read_items(tmp_path, {"a.html": f'<script type="{kind}">{data}</script>'}, format="faq"))
    assert draft.body == "Why?\n\nSo."
