"""Formulas of a page: one line of text each, however KaTeX, MathJax, Wikipedia and others write them."""

import pytest
from lxml import etree

from almanac.spiders.mapping.readable import readable_text
from almanac.spiders.reading.formulas import tex_text
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
        pytest.param(KATEX, "a/b", id="katex"),
        pytest.param(f'<span class="katex-display">{KATEX}</span>', "a/b", id="katex-display"),
        pytest.param('<span class="katex-error" title="ParseError">x^2</span>', "x²", id="katex-error"),
        pytest.param(MATHJAX_2, "x²", id="mathjax-2"),
        pytest.param(MATHJAX_3, "x²", id="mathjax-3"),
        pytest.param(
            '<mjx-container class="MathJax" jax="SVG"><svg data-latex="x_1"></svg></mjx-container>',
            "x₁",
            id="mathjax-4",
        ),
        pytest.param('<script type="math/tex">x^2</script>', "x²", id="mathjax-script"),
        pytest.param('<span class="MathJax_Preview">x_1</span><script type="math/tex">x_1</script>', "x₁", id="moodle"),
        pytest.param(WIKIPEDIA, "10⁻³", id="wikipedia"),
        pytest.param(
            '<img class="mwe-math-fallback-image-inline" alt="{\\displaystyle x^{2}}">', "x²", id="wikipedia-image"
        ),
        pytest.param(
            '<img src="latex.php?x" class="latex" alt="\\frac{a}{b}" width="12" height="15">', "a/b", id="wordpress"
        ),
        pytest.param('<span class="arithmatex">\\(x^2\\)</span>', "x²", id="mkdocs"),
        pytest.param('<span class="math notranslate nohighlight">\\(\\alpha\\)</span>', "α", id="sphinx"),
        pytest.param('<span class="math inline"><em>x</em><sup>2</sup></span>', "x²", id="pandoc-html"),
        pytest.param('<span class="math inline">\\frac{1}{2}</span>', "1/2", id="pandoc-katex"),
        pytest.param('<span class="math-container">$x^2$</span>', "x²", id="stackexchange"),
        pytest.param('<math-renderer class="js-inline-math">$\\sqrt{x}$</math-renderer>', "√x", id="github"),
        pytest.param("\\(a+b\\)", "a+b", id="raw"),
        pytest.param("$$\\frac{a}{b}$$", "a/b", id="raw-display"),
        pytest.param("<m:math><m:mfrac><m:mi>a</m:mi><m:mi>b</m:mi></m:mfrac></m:math>", "a/b", id="prefixed"),
        pytest.param('<math alttext="x^2"></math>', "x²", id="alttext"),
        pytest.param(
            '<math><semantics><mrow></mrow><annotation encoding="application/x-tex">x^2</annotation></semantics>'
            "</math>",
            "x²",
            id="annotation",
        ),
        pytest.param("\\(\\frac{\\)", "\\frac{", id="unreadable-tex-stays-once"),
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
    # Inscriptis puts a space behind an inline element in a <span>
    assert "<em>" in markup or readable_text(markup_of(page.css("p")[0])) == line
    assert html_to_markdown(markup_of(page), "main") == f"# Note\n\n{line}"


@pytest.mark.parametrize(
    "markup",
    [
        "<code>\\(x^2\\)</code>",
        "costs $5 and $6",
        "escaped as \\(foo\\)",
        '<span class="math teacher">Ada</span>',
        "<p class=math>Algebra</p>",
    ],
)
def test_what_is_no_formula_stays(markup: str) -> None:
    page = parse_markup(f"<div>{markup}</div>")
    assert element_text(page.css("div")[0].root) == "".join(page.css("div ::text").getall())


def test_two_formulas_side_by_side_stay_two() -> None:
    page = parse_markup('<p><script type="math/tex">x</script> <script type="math/tex">x</script></p>')
    assert element_text(page.css("p")[0].root) == "x x"


def test_a_formula_that_a_selector_chooses_is_read() -> None:
    page = parse_markup(f"<p>{_SQUARE}</p>")
    assert element_text(page.css("math")[0].root) == "x²"


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\frac{a+b}{c+d}", "(a+b)/(c+d)"),
        (r"x=\frac{-b\pm\sqrt{b^2-4ac}}{2a}", "x = (−b±√(b²−4ac))/(2a)"),
        (r"\frac{dy}{dx}=\frac{\partial^2 f}{\partial x^2}", "dy/dx = ∂²f/∂x²"),
        (r"\frac{\frac{a}{b}}{c}", "(a/b)/c"),
        (r"1\frac12", "1 1/2"),
        (r"\frac12 mv^2", "1/2 mv²"),
        (r"\sqrt{x}+\sqrt[3]{x}+\sqrt{a+b}+\sqrt{(a+b)}", "√x+∛x+√(a+b)+√(a+b)"),
        (r"\sum_{i=1}^n i^2", "∑ᵢ₌₁ⁿ i²"),
        (r"\sum_{k\in S} f(k)", "∑_(k∈S) f(k)"),
        (r"\int_0^1 f(x)\,dx", "∫₀¹ f(x) dx"),
        (r"\lim_{x\to0} \sin^2 x", "lim_(x→0) sin² x"),
        (r"(a+b)^2 {x^2}^3 A^{-1} x^q", "(a+b)²(x²)³A⁻¹x^q"),
        (r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", "(a b; c d)"),
        (r"\begin{cases}x&\text{if }x>0\\-x&\text{otherwise}\end{cases}", "{x if x > 0; −x otherwise"),
        (r"\begin{align}a&=b\\c&=d\end{align}", "a = b; c = d"),
        (r"\binom{n}{k}", "(n choose k)"),
        (r"\bar x\vec{AB}\hat{y}", "x̄AB⃗ŷ"),
        (r"\underbrace{a+b}_{n}", "(a+b)ₙ"),
        (r"{}^{14}_{6}\mathrm{C}", "¹⁴₆C"),
        (r"P(A\mid B)=\frac{P(B\mid A)P(A)}{P(B)}", "P(A ∣ B) = P(B∣A)P(A)/P(B)"),
        (r"f\colon X\to\mathbb{R}", "f: X → ℝ"),
        (r"1,000\,\mathrm{kg}", "1,000 kg"),
        (r"90^\circ f'(x)", "90°f′(x)"),
        (r"\mathrm{H_2O}", "H₂O"),
    ],
)
def test_tex_is_written_as_a_line(tex: str, text: str) -> None:
    assert tex_text(tex) == text


@pytest.mark.parametrize(
    ("mathml", "text"),
    [
        (
            "<mi>f</mi><mo>&#x2061;</mo><mo>(</mo><mi>x</mi><mo>)</mo><mo>=</mo><mn>2</mn><mo>&#x2062;</mo><mi>x</mi>",
            "f(x) = 2x",
        ),
        ("<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>", "¹⁴₆C"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a, b)"),
        (
            "<mtable><mlabeledtr><mtd><mtext>(1)</mtext></mtd><mtd><mi>E</mi><mo>=</mo><mi>m</mi></mtd>"
            "</mlabeledtr></mtable>",
            "E = m",
        ),
        ("<mi>𝑥</mi><mi mathvariant='double-struck'>R</mi>", "xℝ"),
        ("<mi>a</mi><mphantom><mi>b</mi></mphantom><mspace width='1em'/><mi>c</mi>", "a c"),
        ("<msup><mi>x</mi></msup><msqrt/><mfrac><mi>a</mi></mfrac>", "x√a"),
    ],
)
def test_mathml_is_written_as_a_line(mathml: str, text: str) -> None:
    assert formula_text(etree.fromstring(f"<math>{mathml}</math>")) == text


def test_endless_nesting_is_read_without_its_structure() -> None:
    page = parse_markup("<math>" + "<msqrt>" * 200 + "<mi>x</mi>" + "</msqrt>" * 200 + "</math>")
    assert element_text(page.root).count("x") == 1
    assert tex_text("{" * 900 + "x") == "{" * 900 + "x"
