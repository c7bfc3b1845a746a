"""Formulas of a page: one text each, its TeX where the page has it, however KaTeX, MathJax and Wikipedia write them."""

import pytest
from lxml import etree

from almanac.spiders.mapping.readable import readable_text
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.reading.mathml import formula_text
from almanac.spiders.selecting.selectors import element_text, markup_of
from almanac.transforms.html.page import html_to_markdown

_MATHML = '<math xmlns="http://www.w3.org/1998/Math/MathML"'
_SQUARE = f"{_MATHML}><msup><mi>x</mi><mn>2</mn></msup></math>"

KATEX = (
    f'<span class="katex"><span class="katex-mathml">{_MATHML}><semantics><mrow><mfrac><mi>a</mi><mi>b</mi>'
    "</mfrac></mrow>"
    '<annotation encoding="application/x-tex">\\frac{a}{b}</annotation></semantics></math></span><span '
    'class="katex-html" aria-hidden="true">'
    '<span class="base"><span class="mord"><span class="mfrac"><span class="mord">b</span><span class="mord">'
    "a</span></span></span></span></span></span>"
)
MATHJAX_2 = (
    '<span class="MathJax_Preview" style="color: inherit;"></span><span class="MathJax" id="MathJax-Element-1-Frame" '
    'data-mathml="&lt;math&gt;&lt;msup&gt;&lt;mi&gt;x&lt;/mi&gt;&lt;mn&gt;2&lt;/mn&gt;&lt;/msup&gt;&lt;/math&g'
    't;"><nobr aria-hidden="true">'
    f'<span class="math"><span class="mi">x</span><span class="mn">2</span></span></nobr>'
    f'<span class="MJX_Assistive_MathML" role="presentation">{_SQUARE}</span>'
    '</span><script type="math/tex" id="MathJax-Element-1">x^2</script>'
)
MATHJAX_3 = (
    '<mjx-container class="MathJax" jax="CHTML" display="true"><mjx-math class="MJX-TEX" aria-hidden="true">'
    '<mjx-msup><mjx-mi class="mjx-i">'
    '<mjx-c class="mjx-c1D465 TEX-I"></mjx-c></mjx-mi></mjx-msup></mjx-math><mjx-assistive-mml '
    f'unselectable="on">{_SQUARE}</mjx-assistive-mml></mjx-container>'
)
WIKIPEDIA = (
    '<span class="mwe-math-element"><span class="mwe-math-mathml-inline mwe-math-mathml-a11y" style="display: '
    f'none;">{_MATHML} '
    'alttext="{\\displaystyle 10^{-3}}"><semantics><mrow class="MJX-TeXAtom-ORD"><mstyle displaystyle="true" '
    'scriptlevel="0"><msup><mn>10</mn><mrow>'
    "<mo>&#x2212;<!-- − --></mo><mn>3</mn></mrow></msup></mstyle></mrow><annotation "
    'encoding="application/x-tex">{\\displaystyle 10^{-3}}</annotation>'
    '</semantics></math></span><img src="x.svg" class="mwe-math-fallback-image-inline" aria-hidden="true" '
    'alt="{\\displaystyle 10^{-3}}"></span>'
)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        pytest.param(KATEX, r"\frac{a}{b}", id="katex"),
        pytest.param(f'<span class="katex-display">{KATEX}</span>', r"\frac{a}{b}", id="katex-display"),
        pytest.param(MATHJAX_2, "x^2", id="mathjax-2"),
        pytest.param(MATHJAX_3, "x²", id="mathjax-3"),
        pytest.param(
            '<mjx-container class="MathJax" jax="SVG"><svg data-latex="x_1"></svg></mjx-container>',
            "x_1",
            id="mathjax-4",
        ),
        pytest.param('<script type="math/tex">x^2</script>', "x^2", id="mathjax-script"),
        pytest.param(
            '<span class="MathJax_Preview">x_1</span><script type="math/tex">x_1</script>', "x_1", id="moodle"
        ),
        pytest.param(WIKIPEDIA, r"{\displaystyle 10^{-3}}", id="wikipedia"),
        pytest.param('<span class="mwe-math-element"><img src="x.svg" alt="x_1"></span>', "x_1", id="wikipedia-image"),
        pytest.param('<span class="math notranslate nohighlight">\\(\\alpha\\)</span>', r"\(\alpha\)", id="sphinx"),
        pytest.param("\\(a+b\\)", r"\(a+b\)", id="raw"),
        pytest.param(f"{_SQUARE}<script>x()</script>", "x²", id="beside-a-script"),
        pytest.param("<m:math><m:mfrac><m:mi>a</m:mi><m:mi>b</m:mi></m:mfrac></m:math>", "a/b", id="prefixed"),
        pytest.param(
            f'{_MATHML}><mn>5</mn><semantics><mi>m</mi><annotation encoding="TeX">\\mathrm m</annotation></semantics>'
            "</math>",
            "5m",
            id="annotated-part",
        ),
        pytest.param(
            f'{_MATHML}><semantics><mi>x</mi><annotation encoding="text/plain">times x</annotation><annotation '
            'encoding="TeX">x_1</annotation></semantics></math>',
            "x_1",
            id="annotations",
        ),
        pytest.param(
            '<mjx-container><mjx-math><mjx-mn data-latex="5"></mjx-mn></mjx-math><mjx-assistive-mml>'
            f"{_SQUARE}</mjx-assistive-mml></mjx-container>",
            "x²",
            id="attribute-of-a-part",
        ),
        pytest.param(
            '<mjx-container><svg><g><g data-mml-node="math" data-latex="x_1"><g data-latex="x"></g></g></g></svg>'
            "</mjx-container>",
            "x_1",
            id="mathjax-4-svg",
        ),
        pytest.param(
            f'{_MATHML}><mn>5</mn><mtext><img alt="apples" src="a.png"></mtext></math>', "5", id="image-in-a-formula"
        ),
        pytest.param('<math alttext="x^2"></math>', "x^2", id="alttext"),
    ],
)
def test_formula_is_read_once_as_text(markup: str, text: str) -> None:
    """In a text, a field of HTML and a body alike."""
    page = parse_markup(
        f"<html><body><main><h1>Note</h1><p>It is proved here that {markup} holds for every number.</p></main>"
        "</body></html>"
    )
    line = f"It is proved here that {text} holds for every number."
    assert element_text(page.css("p")[0].root) == line
    assert readable_text(markup_of(page.css("p")[0])) == line
    assert html_to_markdown(markup_of(page), "main").replace("\\\\", "\\").endswith(line)


def test_two_formulas_side_by_side_stay_two() -> None:
    page = parse_markup('<p><script type="math/tex">x</script> <script type="math/tex">x</script></p>')
    assert element_text(page.css("p")[0].root) == "x x"


def test_a_formula_that_a_selector_chooses_is_read() -> None:
    page = parse_markup(f"<p>{_SQUARE}</p>")
    assert element_text(page.css("math")[0].root) == "x²"


@pytest.mark.parametrize(
    ("mathml", "text"),
    [
        ("<mfrac><mn>1</mn><mn>2</mn></mfrac>", "1/2"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mn>2</mn></mfrac>", "(a+1)/2"),
        ("<mn>10</mn><mfrac><mn>3</mn><mn>4</mn></mfrac><mi>cm</mi>", "10 3/4 cm"),
        ("<mn>2</mn><mrow><mfrac><mi>a</mi><mi>b</mi></mfrac></mrow><mo>+</mo><mn>1</mn>", "2 a/b+1"),
        ("<msup><mfrac><mn>1</mn><mn>2</mn></mfrac><mn>2</mn></msup><mn>3</mn>", "(1/2)²3"),
        ("<mi>x</mi><mo>=</mo><msqrt><mn>2</mn></msqrt><mn>3</mn>", "x=√2 3"),
        ("<mn>2</mn><mfenced><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></mfenced>", "2(a+b)"),
        ("<mi>f</mi><mfenced><mi>x</mi><mi>y</mi></mfenced>", "f(x, y)"),
        ("<mfenced open='|' close='|'><mi>x</mi></mfenced><mfenced/>", "|x|()"),
        (
            "<mfenced open='{' close='' separators='; |'><mi>a</mi><mi>b</mi><mi>c</mi><mi>d</mi></mfenced>",
            "{a; b| c| d",
        ),
        ("<mfenced separators=''><mi>a</mi><mi>b</mi></mfenced>", "(ab)"),
        ("<mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac>", "(n; k)"),
        ("<mn>10</mn><mo>&#x2062;</mo><msup><mi>x</mi><mrow><mo>−</mo><mn>3</mn></mrow></msup>", "10x⁻³"),
        ("<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>", "₆¹⁴C"),
        (
            "<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><msqrt><mi>i</mi><mo>+</mo><mi>j</mi></msqrt>",
            "∑ᵢⁿ√(i+j)",
        ),
        (
            "<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd></mtr></mtable>",
            "a b; c",
        ),
        ("<mi>a</mi><mphantom><mi>b</mi></mphantom><mspace width='1em'/><mi>c</mi>", "a c"),
        ("<msup><mi>x</mi></msup><msqrt/><mfrac><mi>a</mi></mfrac>", "x√a"),
    ],
)
def test_mathml_is_written_as_a_line(mathml: str, text: str) -> None:
    assert formula_text(etree.fromstring(f"<math>{mathml}</math>")) == text


def test_endless_nesting_is_read_without_its_structure() -> None:
    page = parse_markup("<math>" + "<msqrt>" * 200 + "<mi>x</mi>" + "</msqrt>" * 200 + "</math>")
    assert element_text(page.root).count("x") == 1
