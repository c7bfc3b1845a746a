"""A language for each item, from its text where that is enough."""

import pytest

from almanac.schemas.declaration import Declaration
from almanac.schemas.items import Item, Page
from almanac.spiders.mapping.item_mapping import map_page
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.language import detect_language, language_of
from almanac.transforms.prepare import prepare_items


def _content(body: str, content_type: str = "text/html; charset=utf-8") -> Content:
    return Content(Page("http://x/", body.encode(), 200, content_type))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The money is paid back within fourteen days."), ("fr", "La somme est remboursée sous quatorze jours."),
        ("vi", "Tiền được hoàn lại trong vòng mười bốn ngày."), ("de",
        "Das Geld wird innerhalb von vierzehn Tagen erstattet."),
        ("he", "הכסף יוחזר בתוך ארבעה עשר ימים מיום הביטול."), ("zh", "取消预订后十四天内退还全部款项，不收取任何手续费。"),  # noqa: E501
        ("ja", "予約を取り消した日から十四日以内にお返しします。"), ("ru", "Деньги возвращаются в течение четырнадцати дней."),  # noqa: E501
    ],
)  # fmt: skip
def test_a_sentence_is_enough(language: str, text: str) -> None:
    detected, confidence = detect_language(text)
    assert detected == language
    assert confidence > 0.5
    assert detect_language(text) == (detected, confidence)


def test_text_wins_over_a_wrong_lang_attribute_and_the_attribute_over_too_little_text() -> None:
    assert (
        language_of(
            _content(
                "<html lang=de><nav>Startseite</nav><p>The money is paid back within fourteen days of the cancellation."
            ),
            "auto",
        )
        == "en"
    )
    assert language_of(_content('<html lang="pt-BR"><p>OK 123'), "auto") == "pt"
    assert language_of(_content("<p>123"), "auto") == "und"
    assert language_of(_content("<html lang=de><p>The money is paid back."), "fr-CA") == "fr-CA"


def test_each_item_of_a_page_has_its_own_language_in_its_metadata() -> None:
    source = {
        "name": "s", "kind": "site", "start_urls": ["https://example.org/"], "each": {"css": "li"}, "yields": "records",
        "fields": {"text": {"css": "p"}}, "text": "{text}",
    }  # fmt: skip
    page = _content(
        "<ul><li><p>The money is paid back within fourteen days.</p></li><li><p>Tiền được hoàn lại trong vòng "
        "mười bốn ngày.</p></li></ul>"
    )
    languages: dict[str, list[object]] = {}
    for language in ("auto", "en"):
        declaration = Declaration.model_validate({"name": "kb", "language": language, "sources": [source]})
        drafts = [
            item.draft for item in map_page(page, declaration.sources[0], declaration.language).items if item.draft
        ]
        items = [
            item
            for item in prepare_items(
                drafts, declaration.sources[0], "standard", language=declaration.language, workspace=None
            )
            if isinstance(item, Item)
        ]
        languages[language] = [item.metadata.get("language") for item in items]
    assert languages == {"auto": ["en", "vi"], "en": [None, None]}


def test_a_record_of_a_page_in_several_languages_has_that_of_its_own_fields() -> None:
    reviews = "".join(
        f"<li>{text}"
        for text in (
            "良いお茶です。とても美味しい。",
            "Очень вкусный чай, спасибо.",
            "Sehr guter Tee.",
            "Trà rất ngon.",
        )
        * 20
    )
    page = _content(
        f"<h1>Sencha tea</h1><ul>{reviews}</ul><p>First harvest from Shizuoka, price 1,500. Brew it at 70 degrees "
        "for one minute.</p>"
    )
    assert language_of(page, "auto") == "und"
    source = {
        "name": "s", "kind": "site", "start_urls": ["https://example.org/"], "yields": "records", "title": "{name}",
        "fields": {"name": {"css": "h1"}, "text": {"css": "p"}},
    }  # fmt: skip
    declaration = Declaration.model_validate({"name": "kb", "language": "auto", "sources": [source]})
    assert [item.draft.language for item in map_page(page, declaration.sources[0], "auto").items if item.draft] == [
        "en"
    ]
