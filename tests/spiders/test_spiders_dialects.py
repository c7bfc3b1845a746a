"""Dialects of Markdown: what Obsidian, GitHub, Docusaurus, MkDocs, MyST, GitBook and kramdown add is read as their
readers see it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.items import Draft, Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.dialects import as_shown
from tests.growth import assert_linear


def _squeezed(text: str) -> str:
    return "|".join(line.strip() for line in text.split("\n") if line.strip())


def _draft(text: str, **keys: object) -> Draft:
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "*", **keys})
    [extraction] = map_pages([Page(url="a.md", body=text.encode(), content_type="text/markdown")], source, "en")
    assert not extraction.rejects
    return extraction.drafts[0]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "See [[Page]], [[Page|shown]], [[Page#Section]], [[Page#^block]], [[#Here]], [[a/b|]].",
            "See Page, shown, Page > Section, Page, Here, a/b.",
        ),
        ("[[Page]]s, l'[[Été]], 参见[[页面]]。[[A]][[B]]", "Pages, l'Été, 参见页面。AB"),
        ("| [[P\\|q]] | x |", "| q | x |"),
        ("a ![[x.png]] b ![[x.png|100]] c ![[x.jpg|A cat]] d", "a  b  c A cat d"),
        ("![[Note]] and ![[Note#Part|200x100]] and ![[f.pdf#page=3]]", "Note and Note > Part and f.pdf"),
        (
            "10<sup>6</sup> cells, 10<SUP>-3</SUP>, H<sub>2</sub>O, the 5<sup>th</sup>, $12<sup>99</sup>",
            "10⁶ cells, 10⁻³, H₂O, the 5th, $12.99",
        ),
        (
            "`10<sup>6</sup>`, said<sup>[1](#fn1)</sup>\n\n    10<sup>6</sup>",
            "`10<sup>6</sup>`, said<sup>[1](#fn1)</sup>|10<sup>6</sup>",
        ),
        ("==marked [[A]]== 这是==重点==内容 ^abc123\n^block-1", "marked A 这是重点内容"),
        ("``[[a]]`` A ` is a tick, [[B|b]] and ``` too.\n\n`[[c]]`", "``[[a]]`` A ` is a tick, b and ``` too.|`[[c]]`"),
        ("a %%hidden%% b\n%%\nhidden\n\nhidden\n%%\nc", "a  b|c"),
        ("a <!-- b --> c\n<!--\n```\nd\n```\n-->\ne", "a  c|e"),
        ("# Title {#my-id}\nText. {: .cls}\n{: .alone}\n* TOC\n{:toc}\n\n[[_TOC_]]\n", "# Title|Text."),
        ("> [!note] Title\n> Body [[A|b]].\n>\n> More.\n\nafter", "Title|Body b.|More.|after"),
        ("> [!TIP]+\n> Do.\n> > [!warning]- Careful\n> > Deep.", "Tip|Do.|Careful|Deep."),
        ("- list\n  > [!note] Inside\n  > body\n- next", "- list|Inside|body|- next"),
        (":::tip Title\nBody\n:::\nafter", "Title|Body|after"),
        ("::::note[Title]\n:::warning\nBody\n:::\n::::", "Title|Warning|Body"),
        ('::: {.callout-important title="Read me"}\nBody\n:::', "Read me|Body"),
        ("::: {.columns}\n::: {.column width=50%}\na\n:::\n:::", "a"),
        ("{/* open {a}", "{/* open {a}"),
        ("::: {#fig-x .a}\nBody\n:::\n::: {#tip-y .callout-tip}\nBody\n:::\n", "Body|Tip|Body"),
        (":::{seealso}\nA\n:::\n:::{toctree}\nB\n:::\n::: panel-tabset\nC\n:::\n", "See also|A|B|C"),
        (":::{admonition} Title\n:class: tip\nBody\n:::", "Title|Body"),
        ("```{note} Title\n:class: x\nBody [[A]]\n```", "Title|Body A"),
        ("::: code-group\n```js\n:::tip\n```\n:::", "```js|:::tip|```"),
        ('!!! note "Title"\n    Body\n\n    ```py\n    [[x]]\n    ```\n\nafter', "Title|Body|```py|[[x]]|```|after"),
        ("!!! Look here\n    Body", "Look here|Body"),
        ("??? question\n\tBody\nafter", "Question|Body|after"),
        ('=== "Linux"\n\n    apt\n\n=== "Mac"\n\n    brew\n', "Linux|apt|Mac|brew"),
        ('{% hint style="info" %}\nBody\n{% endhint %}\n{% tab title="Linux" %}\nx\n{% endtab %}', "Body|Linux|x"),
        ("{% include a.html %}\n`x`{number} {% raw %}", "{% include a.html %}|`x`{number} {% raw %}"),
        ("> \\[!TIP]\n> Do.", "> \\[!TIP]|> Do."),
        (
            '![a](b.png){ width="300" } [x](y(1)){ .md-button } `c`{.py} f(x){n=1}',
            "![a](b.png) [x](y(1)) `c` f(x){n=1}",
        ),
        ('# A { #id .b }\n## C {data-x="y z"}\n### D {x} {{ y }}\ntext {.no}', "# A|## C|### D {x} {{ y }}|text {.no}"),
        ('{{< tab "Mac" >}}\nbrew\n{{< /tab >}}', '{{< tab "Mac" >}}|brew|{{< /tab >}}'),
        (
            'import Tabs from \'@theme/Tabs\';\n\n# T\n\n<Tabs>\n<TabItem value="a" label="Apple">\n\nBody\n\n'
            "</TabItem>\n</Tabs>",
            "# T|Apple|Body",
        ),
    ],
)
def test_what_a_dialect_adds_is_read_as_its_readers_see_it(written: str, shown: str) -> None:
    assert _squeezed(as_shown(written)) == shown
    assert _squeezed(as_shown(written.replace("\n", "\r\n"))) == shown


def test_imports_exports_and_components_of_mdx_are_left_out() -> None:
    text = (
        "import {\n  A,\n} from 'x'\n\nexport const a = {\n  b: 1\n}\n\n<Card\n  title=\"Title\"\n>\n\nBody {/* "
        "note */}\n\n</Card>\n\nimport x from 'y'\n"
    )
    assert _squeezed(as_shown(text, is_mdx=True)) == "Title|Body"
    tab = "<Tabs>\n  <TabItem label='Apple'>\n\n    :::tip\n    Indented.\n    :::\n\n  </TabItem>\n</Tabs>\n"
    assert _squeezed(as_shown(tab, is_mdx=True)) == "Apple|Tip|Indented."  # MDX has no indented code


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("import A, {B} from './a'\nexport * from 'b';\nText.", "Text."),
        ("import 'a.css'\n\nimport \"duties are high\"\n\nimport { a", 'import "duties are high"|import { a'),
        ("export const F = () => {\n  const a = 1;\n\n  return a;\n}\n\n  Text.", "Text."),
        ("export const m = { a: 'x',\n  b: 'y' }\nText.", "Text."),
        ("export default [1]\nText.\n\nexport goods rose by (5)", "Text.|export goods rose by (5)"),
        ("export const open = {\nText.\n\n  More.", "Text.|More."),
    ],
)  # fmt: skip
def test_a_statement_of_mdx_ends_where_it_is_closed(statement: str, shown: str) -> None:
    assert _squeezed(as_shown(statement, is_mdx=True)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "import lib from 'lib'\nlib.run(1)",
        "Use:\n\nimport lib from 'lib'\nlib.run(1)\n\n<Foo>\n\n    let a = [[1]];",
        "# T\n\nimport lib from 'lib'\n\nexport default lib",
        "import data from 'the warehouse'\n\nText.",
        "if [[ -f x ]]; then", "[[1, 2], [3]] and [[1, 2]]", "df[['a', 'b']]", "[[[cog]]]",
        "[[1]](#ref) and [[x]][ref]", "\\[[no]] \\==no==", "[[a\nb]]",
        "if a==b or c==d and x == y, z == w", "Heading\n====", "100%% and 50%%, %%time or %%timeit", "mc ^2 and x^2",
        "{:a => 1} {#not}",
        "$[[e]]$ and $$\n[[x]]\n$$",
        "`[[a]]` and ``b `==c==` d``", "```\n[[a]]\n> [!note]\n<!-- b -->\n```", "~~~~\n~~~\n[[a]]\n~~~~",
        "    [[a]]\n    > [!note]", "> [!warning: keep the folder]\n> Do.", "<pre>\n[[a]]\n</pre>",
        "<pre>\n:::\n:::tip\n</pre>",
        "> ```\n> [[a]]\n> ```", "1. a\n\n    ```\n    [[a]]\n    ```", "::: unclosed\n[a]", "!!! wow this is great",
        "Map<K, V> and List<String>",
        "> quoted [text](x.md) ![alt](y.png)", "```{code-block} python\n[[a]]\n```",
        "<div align=\"center\">\n\n# T\n\n</div>",
    ],
)  # fmt: skip
def test_code_and_what_only_looks_like_a_dialect_stays(text: str) -> None:
    assert as_shown(text) == text
    assert as_shown(f"{text}\n\n[[A]]") == f"{text}\n\nA"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Above\n> [!NOTE]\n> body\n---\nbelow", "<p>Above</p>|<p>Note</p>|<p>body</p>|<hr />|<p>below</p>"),
        ("!!! note\n    body\n---\nbelow", "<p>Note</p>|<p>body</p>|<hr />|<p>below</p>"),
    ],
)
def test_a_call_out_is_no_part_of_what_stands_around_it(written: str, shown: str) -> None:
    assert _squeezed(MarkdownIt().render(as_shown(written))) == shown


def test_line_ends_stay() -> None:
    assert as_shown("[[A]]\r\nb\r\n") == "A\r\nb\r\n"
    assert as_shown("[[A]]\rb\r\r\nimport\r") == "A\r\nb\r\n\r\nimport\r\n"


def test_a_text_of_nothing_but_a_comment_is_kept_and_so_is_one_without_an_end() -> None:
    assert as_shown("<!-- only this -->") == "<!-- only this -->"
    assert as_shown("[[A]]\n<!-- open [[B]]") == "A\n<!-- open [[B]]"


def test_bodies_fields_and_titles_have_the_text_that_is_shown() -> None:
    text = (
        '---\nup: "[[Home|Start]]"\ntags: ["[[A]]", b]\n---\n# About [[Hanoi]]\n\n> [!note] Visas\n> See '
        "[[Visa#Fees]].\n\n```sh\n[[ -f x ]] && [[y]]\n```\n"
    )
    assert _draft(text).fields == {"up": "Start", "tags": ["A", "b"]}
    draft = _draft(
        text,
        fields={
            "first": {"css": "p"},
            "code": {"css": "pre"},
            "up": {"json": "up"},
            "all": {"css": "body", "type": "html"},
        },
    )
    assert (draft.title, draft.fields["first"], draft.fields["code"], draft.fields["up"]) == (
        "About Hanoi",
        "Visas",
        "[[ -f x ]] && [[y]]",
        "Start",
    )
    assert (
        draft.body is not None
        and _squeezed(draft.body) == "# About Hanoi|Visas|See Visa > Fees.|```sh|[[ -f x ]] && [[y]]|```"
    )
    assert "See Visa > Fees." in draft.fields["all"]


_PIECES = [
    "[[",
    "]]",
    "a",
    "|",
    "#",
    " ",
    "\n",
    "```\n",
    "`",
    "==",
    "%%",
    "> ",
    "[!note]",
    ":::",
    ":::tip\n",
    "!!! note\n",
    "    ",
    "<!--",
    "-->",
    "{:",
    "}",
    "$",
    "- ",
]


@given(st.lists(st.sampled_from([*_PIECES, "```{note}\n", "???", '=== "a"\n', "<b>", "# ", "\r"])), st.booleans())
def test_no_word_is_lost_where_nothing_is_a_comment(pieces: list[str], is_mdx: bool) -> None:
    text = "42\n".join(piece for piece in pieces if piece not in ("%%", "<!--", "{:"))
    assert as_shown(text, is_mdx=is_mdx).count("42") == text.count("42")


@given(st.lists(st.sampled_from(_PIECES)).map("".join))
def test_fenced_code_survives_any_text_above(text: str) -> None:
    code = "~~~~~~~~\n[[x]] ==y== %%z%% <!-- c -->\n\n> [!note]\n~~~~~~~~"
    shown = as_shown(f"{text.replace('```', '').replace('<!--', '').replace('%%', '')}\n\n# H\n\n{code}\n")
    assert code in shown


@pytest.mark.parametrize(
    "piece",
    [
        "`a` ",
        "a`b\n",
        "<!-- ",
        "%% ",
        "[[",
        "==a ",
        ":::a\n",
        "> [!note] a\n",
        "```\n",
        "!!! note\n    ",
        "{#a",
        "$a",
        "<pre>",
        " ^abc",
        "<A",
        "%%a\n",
    ],
)
def test_long_texts_take_linear_time(piece: str) -> None:
    assert_linear(as_shown, lambda pieces: "[[a]]\n" + piece * pieces, 60_000 // len(piece))
