"""Pages whose main texts are equal: copies of one page are one item, different pages are all kept, each with what it
alone says.
"""

import random
from itertools import permutations

import pytest

from almanac.schemas.items import Item
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.html.blocks_beside import blocks_beside, keeps_little, marked_page
from almanac.transforms.sentence_hashes import sentences_of
from almanac.transforms.shared_texts import Read, SharedTexts
from tests.growth import assert_linear

_CLOSING = {
    "en": "Was this page helpful? Tell us what we can improve.",
    "vi": "Trang này có hữu ích không? Hãy cho chúng tôi biết.",
    "ja": "このページは役に立ちましたか。ご意見をお聞かせください。",
    "ar": "هل كانت هذه الصفحة مفيدة؟ أخبرنا بما يمكننا تحسينه.",
}
_OWN = {
    "en": (
        "Option {n} of the scheduler sets how long worker {n} waits. After {n} seconds it gives up and writes "
        "line {n} to the log."
    ),
    "vi": (
        "Tùy chọn {n} của bộ lập lịch đặt thời gian chờ của tiến trình {n}. Sau {n} giây nó dừng và ghi dòng {n} "
        "vào nhật ký."
    ),
    "ja": "スケジューラの設定{n}は、ワーカー{n}が待つ時間を決めます。{n}秒を過ぎると中止し、ログに{n}行目を書きます。",
    "ar": "يحدد الخيار {n} في المجدول مدة انتظار العامل {n}. بعد {n} ثانية يتوقف ويكتب السطر {n} في السجل.",
}
_MENU = [
    "Documentation of Almanac, release 7",
    "All rights reserved by the makers. No part of it may be sold without a letter that says so.",
]


def _page(url: str, text: str, side_blocks: list[str] | None, document_id: str | None = None) -> Read:
    return Item(
        "docs", "document", document_id or url, url, url, text, {}, {}, "raw", "2026-01-01T00:00:00+00:00"
    ), side_blocks


def _told_apart(pages: list[Read]) -> tuple[dict[str, str], dict[str, str], SharedTexts]:
    """URL → text of the items that are left; URL → URL that it equals of the others; what was found."""
    shared, once = SharedTexts(), Deduplication()
    for page in pages:
        shared.note(*page)
    shared.settle(lambda: iter(pages))
    left = {
        item.url: item.text
        for item in once.keep_first(
            shared.told_apart(pages, lambda item, url, name: once.drop(item, "equal", url, name))
        )
    }
    assert once.rejects == [] and len(left) + len(once.duplicates) == len(pages)
    return left, {duplicate.url: duplicate.equals["url"] for duplicate in once.duplicates}, shared


def _words(seed: str, characters: int) -> str:
    """Sentences that stand on the page of that seed only, of exactly so many characters."""
    dice, text = random.Random(seed), ""
    while len(text) < characters:
        text += "".join(dice.choices("abcdefghijklmnop", k=7)) + " "
    return text[: characters - 1].rstrip().ljust(characters - 1, "x") + "."


@pytest.mark.parametrize("language", _CLOSING)
def test_thirty_pages_with_one_closing_sentence_are_thirty_items_with_their_own_text(language: str) -> None:
    own = {
        f"/{n}": [" ".join(_OWN[language].format(n=f"{n}x{line}") for line in range(4)), f"- {n}a", f"- {n}b"]
        for n in range(30)
    }
    pages = [_page(url, _CLOSING[language], [_MENU[0], f"## {url}", *lines, _MENU[1]]) for url, lines in own.items()]
    left, equal, shared = _told_apart(pages)
    assert (len(left), equal) == (30, {})
    for url, text in left.items():
        assert text == f"{_CLOSING[language]}\n\n## {url}\n\n{own[url][0]}\n\n{own[url][1]}\n{own[url][2]}"
    assert [(shared_text.pages, shared_text.urls) for shared_text in shared.shared_texts] == [(30, ["/0", "/1"])]


@pytest.mark.parametrize(("characters", "is_kept"), [(199, False), (200, True)])
def test_two_hundred_characters_that_stand_nowhere_else_make_a_page_of_its_own(characters: int, is_kept: bool) -> None:
    pages = [_page("/a", "Text.", [*_MENU, _words("a", 500)]), _page("/b", "Text.", [*_MENU, _words("b", characters)])]
    left, equal, shared = _told_apart(pages)
    assert (list(left), equal) == ((["/a", "/b"], {}) if is_kept else (["/a"], {"/b": "/a"}))
    assert bool(shared.shared_texts) == is_kept
    if not is_kept:
        assert left == {"/a": "Text."}  # one page, whose text is what was extracted


def test_copies_of_a_page_with_other_surroundings_are_one() -> None:
    """A print version without header and teasers, a second URL with other breadcrumbs, a time of printing inside a long
    paragraph.
    """
    teasers = [f"Teaser {n}. {_words(f't{n}', 150)}" for n in range(4)]
    legal = " ".join(_words(f"l{n}", 80) for n in range(6))
    pages = [
        _page("/p/1", "A lamp.", [*_MENU, "Home > Lamps > A lamp", *teasers[:2], legal]),
        _page("/p/1?from=sale", "A lamp.", [*_MENU, "Home > Sale > Lamps > A lamp", *teasers[2:], legal]),
        _page("/p/1?print", "A lamp.", ["Printed from /p/1", f"{legal} Printed on 3 May by Ann."]),
        _page("/p/2", "A chair.", [*_MENU, *teasers]),
    ]
    left, equal, shared = _told_apart(pages)
    assert left == {"/p/1": "A lamp.", "/p/2": "A chair."}
    assert equal == {"/p/1?from=sale": "/p/1", "/p/1?print": "/p/1"} and shared.shared_texts == []


def test_copies_of_a_page_whose_main_text_was_not_found_are_one_too_and_the_page_is_kept() -> None:
    """Each page under two URLs, and in print: nothing of it stands on one page only."""
    pages = []
    for n in range(12):
        content = [f"# Page {n}", _words(f"p{n}", 900), f"## Parameters of {n}", _words(f"q{n}", 300)]
        pages += [_page(f"/{n}", "Good luck!", [*_MENU, *content]), _page(f"/{n}/", "Good luck!", [*_MENU, *content])]
        pages += [_page(f"/{n}?print", "Good luck!", [*content, f"Printed from /{n}"])]
    left, equal, shared = _told_apart(pages)
    assert list(left) == [f"/{n}" for n in range(12)]
    assert all(_words(f"p{n}", 900) in left[f"/{n}"] and _MENU[1] not in left[f"/{n}"] for n in range(12))
    assert equal == {f"/{n}{end}": f"/{n}" for n in range(12) for end in ("/", "?print")}
    assert [shared_text.pages for shared_text in shared.shared_texts] == [12]


def test_the_order_of_pages_does_not_matter() -> None:
    full, stub = [*_MENU, _words("a", 400)], [_MENU[0]]
    pages = [
        _page("/a", "Good luck!", full),
        _page("/a?print", "Good luck!", full[2:]),
        _page("/b", "Good luck!", [*_MENU, _words("b", 250)]),
        _page("/stub", "Good luck!", stub),
    ]
    texts = [
        {url.partition("?")[0]: text for url, text in _told_apart(list(order))[0].items()}
        for order in permutations(pages)
    ]
    assert all(shared_texts == texts[0] for shared_texts in texts)
    assert texts[0].keys() == {"/a", "/b"}
    assert all("/stub" in _told_apart(list(order))[1] for order in permutations(pages))


def test_an_item_with_the_same_id_is_the_same_item_whatever_stands_beside_it() -> None:
    pages = [_page(f"/{n}", "A lamp.", [_words(f"c{n}", 300)], document_id="lamp") for n in range(2)]
    assert _told_apart(pages)[:2] == ({"/0": "A lamp."}, {"/1": "/0"})


def test_what_some_of_many_pages_share_is_kept_with_each_and_what_most_share_with_none() -> None:
    note, license_note = _words("note", 120), _words("license", 120)
    pages = [
        _page(
            f"/{n}",
            "Good luck!",
            [_words(f"p{n}", 300), *([note] if n < 3 else []), *([license_note] if n else []), "## See also"],
        )
        for n in range(30)
    ]
    left, _, _ = _told_apart(pages)
    assert [url for url, text in left.items() if note in text] == ["/0", "/1", "/2"]
    assert not any(license_note in text or "See also" in text for text in left.values())
    heading = [_page(f"/{n}", "Good luck!", ["## Usage", _words(f"p{n}", 300)]) for n in range(3)]
    assert all(text.startswith("Good luck!\n\n## Usage\n\n") for text in _told_apart(heading)[0].values())


def test_only_pages_with_main_texts_are_compared() -> None:
    pages = [_page("/a.md", "Text.", None), _page("/b.md", "Text.", None)]
    left, equal, shared = _told_apart(pages)
    assert (list(left), equal, shared.shared_texts) == (["/a.md"], {"/b.md": "/a.md"}, [])


def test_pages_that_are_equal_altogether_are_not_read_again() -> None:
    shared = SharedTexts()
    for url in "abc":
        shared.note(*_page(url, "Text.", [_words("same", 400)]))
    shared.settle(lambda: pytest.fail("read again"))


@pytest.mark.slow
def test_many_pages_with_one_text_take_no_quadratic_time() -> None:
    def twice_each(count: int) -> list[Read]:
        return [
            _page(f"/{n}{end}", "Good luck!", [*_MENU, *(_words(f"{n} {k}", 60) for k in range(20))])
            for n in range(count)
            for end in ("", "/")
        ]

    left, equal, _ = _told_apart(twice_each(200))
    assert (len(left), len(equal)) == (200, 200)
    assert_linear(_told_apart, twice_each, 80)


_PAGE = """<html><head><title>t</title><style>p {{}}</style></head><body><header>Site header that is long enough</header>
<nav>Home About</nav><div><a href="/1">One</a> <a href="/2">Two</a></div>
<a href="/3"><h3>A card</h3><p>with a text that is all link</p></a>
<article><p>{main}</p></article>
<div class="more"><h2>Usage</h2><p>Left <b>out</b>. Read <a href="/x">this</a>.</p><ul><li>first</li><li>second</li></ul>
<pre>a = 1

b = 2</pre><table><tr><td>k</td><td>v</td></tr></table>bare text</div>
<select><option>France</option></select><script>var x</script><footer>Imprint</footer></body></html>"""  # noqa: E501


def test_blocks_beside_the_main_text_are_what_is_neither_in_it_nor_navigation_nor_links() -> None:
    page = _PAGE.format(main="The main text, word for word.")
    expected = [
        "## Usage",
        "Left out. Read this.",
        "- first",
        "- second",
        "```\na = 1\n\nb = 2\n```",
        "k | v",
        "bare text",
    ]
    assert blocks_beside(marked_page(page), "# The main\n\n*text*, word for word!") == expected
    assert blocks_beside(marked_page(""), "text") == blocks_beside(marked_page("<p>"), "text") == []
    assert blocks_beside(marked_page("<p>Just\ufdd0 this</p>"), "just this") == []


def test_a_long_page_takes_no_quadratic_time() -> None:
    def tell(lines: list[str]) -> None:
        assert (
            blocks_beside(marked_page("".join(f"<p>{line}</p>" for line in lines)), " ".join(lines[::2])) == lines[1::2]
        )

    assert_linear(tell, lambda count: [f"Line {n * 7919} of a long table of contents {n}" for n in range(count)], 3_000)


def test_sentences_are_compared_by_letters_and_excerpts_are_none() -> None:
    assert sentences_of("One. Two!\nThree").keys() == sentences_of("- THREE\ntwo\none").keys()
    assert list(sentences_of("一つ目。二つ目。").values()) == [4, 4]
    assert len(sentences_of("Version 3.14 is e.g.here. ---")) == 1
    assert (
        sentences_of("The first words of another page…")
        == sentences_of("Ein anderer Text [...]")
        == sentences_of("続きは……")
        == {}
    )


def test_little_is_kept_where_less_than_a_tenth_is_and_more_than_a_line_was_left_out() -> None:
    assert keeps_little("x" * 99, ["y" * 500, "z" * 400])
    assert not keeps_little("x" * 101, ["y" * 900])
    assert not keeps_little("", ["y" * 499])
    assert keeps_little("", ["日" * 500])
