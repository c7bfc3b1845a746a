"""Slides as a person sees them in the show: in order, with merged cells and groups, without what is hidden."""

import io
import zipfile
from typing import Any

import pptx
import pytest
from lxml import etree
from pptx.util import Inches

from almanac.spiders.reading.document import Unreadable
from almanac.spiders.reading.slides import read_pptx

_NAMESPACES = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)


def _saved(deck: Any) -> bytes:
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def _slide(deck: Any, title: str = "Title") -> Any:
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = title
    return slide


def _box(shapes: Any, text: str, left: float, top: float) -> Any:
    made = shapes.add_textbox(Inches(left), Inches(top), Inches(1), Inches(0.5))
    made.text_frame.text = text
    return made


def _shown(deck: Any) -> list[tuple[Any, Any]]:
    elements = read_pptx(_saved(deck)).elements
    return [
        (element.place, list(map(list, element.rows)) if element.kind == "table" else element.text)
        for element in elements
    ]


def _texts(deck: Any) -> list[Any]:
    return [text for _, text in _shown(deck)]


def test_hidden_slides_are_not_published_and_keep_their_numbers() -> None:
    deck = pptx.Presentation()
    for title in ("One", "SECRET", "Three"):
        _slide(deck, title).notes_slide.notes_text_frame.text = f"{title} notes"
    deck.slides[1]._element.set("show", "0")
    assert _shown(deck) == [(1, "One"), (1, "One notes"), (3, "Three"), (3, "Three notes")]
    for slide in deck.slides:
        slide._element.set("show", "false")
    assert _shown(deck) == []


def test_hidden_shapes_and_those_beside_the_slide_are_not_published() -> None:
    deck = pptx.Presentation()
    slide = _slide(deck)
    group = slide.shapes.add_group_shape()
    _box(group.shapes, "SECRET in a group", 1, 2)
    for shape in (_box(slide.shapes, "SECRET", 1, 3), group):
        shape._element._nvXxPr.cNvPr.set("hidden", "1")
    for left, top in ((20, 2), (2, 20), (-3, 2), (2, -3)):
        _box(slide.shapes, "SECRET", left, top)
    _box(slide.shapes, "Over the edge.", -0.5, 4)
    assert _texts(deck) == ["Title", "Over the edge."]
    assert read_pptx(_saved(deck)).left_out == {"hidden": {"blocks": 6, "characters": 5 * 6 + 17}}


def test_shapes_come_from_top_to_bottom_and_side_by_side_from_the_left() -> None:
    deck = pptx.Presentation()
    slide = _slide(deck)
    for text, left, top in (("5", 1, 6), ("4", 7, 3.05), ("3", 4, 3), ("2", 1, 3.1)):
        _box(slide.shapes, text, left, top)
    assert _texts(deck) == ["Title", "2", "3", "4", "5"]


def test_a_group_that_was_moved_and_enlarged_has_its_texts_where_they_are_seen() -> None:
    deck = pptx.Presentation()
    slide = _slide(deck)
    _box(slide.shapes, "Middle", 1, 4)
    outer = slide.shapes.add_group_shape()
    inner = outer.shapes.add_group_shape()
    for text, top in (("Low", 2), ("High", 1)):
        _box(inner.shapes, text, 1, top)
    frame = outer._element.find(".//{*}xfrm")
    frame.find("{*}off").set("y", str(Inches(3)))
    frame.find("{*}ext").set("cy", str(int(frame.find("{*}chExt").get("cy")) * 2))
    assert _texts(deck) == ["Title", "High", "Middle", "Low"]


def test_merged_cells_stand_in_each_of_their_rows_and_in_the_first_of_their_columns() -> None:
    deck = pptx.Presentation()
    table = _slide(deck).shapes.add_table(5, 3, Inches(1), Inches(2), Inches(6), Inches(2)).table
    for row, texts in enumerate(
        (("Region", "Both", ""), ("North", "a", "1"), ("", "b\nc", "2"), ("Wide\v!", "", "3"), ("", "", ""))
    ):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    for first, last in (((0, 1), (0, 2)), ((1, 0), (2, 0)), ((3, 0), (4, 1)), ((3, 2), (4, 2))):
        table.cell(*first).merge(table.cell(*last))
    assert _texts(deck) == [
        "Title",
        [["Region", "Both", ""], ["North", "a", "1"], ["North", "b c", "2"], ["Wide !", "", "3"]],
    ]


def test_an_empty_table_is_none() -> None:
    deck = pptx.Presentation()
    _slide(deck).shapes.add_table(2, 2, Inches(1), Inches(2), Inches(6), Inches(2))
    assert _texts(deck) == ["Title"]


def test_titles_items_and_texts() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Annual\nReport"
    frame = slide.placeholders[1].text_frame
    frame.text = "A text."
    item = frame.add_paragraph()
    item.text, item.level = "An item.", 2
    etree.SubElement(item._p.get_or_add_pPr(), "{http://schemas.openxmlformats.org/drawingml/2006/main}buChar").set(
        "char", "•"
    )
    read = read_pptx(_saved(deck))
    assert [(element.kind, element.text, element.level) for element in read.elements] == [
        ("title", "Annual", 1), ("title", "Report", 2), ("text", "A text.", 0), ("item", "An item.", 2),
    ]  # fmt: skip
    assert read.title == "Annual" and read.unit == "slide"


@pytest.mark.parametrize("kind", ["dt", "ftr", "sldNum"])
def test_what_stands_on_each_slide_is_left_out(kind: str) -> None:
    deck = pptx.Presentation()
    shape = _box(_slide(deck).shapes, "REPEATED", 1, 7)
    shape._element.nvSpPr.nvPr.append(etree.fromstring(f'<p:ph {_NAMESPACES} type="{kind}"/>'))
    assert _texts(deck) == ["Title"]


def test_a_shape_with_a_formula_is_read_once() -> None:
    deck = pptx.Presentation()
    slide = _slide(deck)
    shape = _box(slide.shapes, "So ", 1, 3)._element
    math = "<m:f><m:num><m:r><m:t>a+1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    paragraph = shape.txBody.p_lst[0]
    paragraph.append(
        etree.fromstring(f"<a14:m {_NAMESPACES}><m:oMathPara><m:oMath>{math}</m:oMath></m:oMathPara></a14:m>")
    )
    both = etree.fromstring(
        f'<mc:AlternateContent {_NAMESPACES}><mc:Choice Requires="a14"/><mc:Fallback/></mc:AlternateContent>'
    )
    shape.addprevious(both)
    both[0].append(shape)
    fallback = _box(slide.shapes, "PICTURE", 1, 3)._element
    both[1].append(fallback)
    assert _texts(deck) == ["Title", "So (a+1)/2"]


def test_a_damaged_deck_says_so() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_saved(pptx.Presentation()))) as parts, zipfile.ZipFile(out, "w") as archive:
        for part in parts.namelist():
            archive.writestr(part, b"<x/>" if part == "ppt/presentation.xml" else parts.read(part))
    with pytest.raises(Unreadable, match="damaged PPTX file"):
        read_pptx(out.getvalue())


def _standing(frame: Any, *stretches: tuple[str, int]) -> None:
    """Writes the stretches as runs of the frame's first paragraph, each raised by so many per mille of its size."""
    for text, baseline in stretches:
        run = frame.paragraphs[0].add_run()
        run.text = text
        if baseline:
            run.font._element.set("baseline", str(baseline))


def test_raised_and_lowered_runs_are_characters() -> None:
    deck = pptx.Presentation()
    slide = _slide(deck, "Title")
    _standing(
        _box(slide.shapes, "", 1, 3).text_frame,
        ("2.4 × 10", 0),
        ("-", 30000),
        ("6", 30000),
        (" of H", 0),
        ("2", -25000),
        ("O on the 5", 0),
        ("th", 30000),
    )
    cell = slide.shapes.add_table(1, 2, Inches(1), Inches(4), Inches(4), Inches(1)).table.cell(0, 1)
    _standing(cell.text_frame, ("10", 0), ("8", 30000))
    _standing(slide.notes_slide.notes_text_frame, ("25 m", 0), ("2", 30000))
    assert _texts(deck) == ["Title", "2.4 × 10⁻⁶ of H₂O on the 5th", [["", "10⁸"]], "25 m²"]
