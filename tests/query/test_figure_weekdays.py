"""Days of the week are found by name, within ranges, and abbreviated where an abbreviation is nothing else."""

import pytest
from babel import Locale

from almanac.query.answering.figure_weekdays import weekdays_in
from tests.growth import assert_linear
from tests.query.cldr import LANGUAGES

_MON, _TUE, _WED, _THU, _FRI, _SAT, _SUN = range(7)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("open on Mondays", {_MON}), ("Fermé le lundi.", {_MON}), ("freitags und samstags auch von 18 Uhr", {_FRI,
        _SAT}), ("ביום שני", {_MON}),
        ("Thứ Hai nghỉ", {_MON}), ("星期一休息", {_MON}),
        ("Di. bis Do.: 10:30–17:30 Uhr", {_TUE, _WED, _THU}), ("Fr. und Sa.: 10:30–22:00 Uhr", {_FRI, _SAT}),
        ("So.: 9:00–18:00 Uhr", {_SUN}),
        ("Mo.: Ruhetag", {_MON}), ("Zeitraum | Di. bis Fr. | Sa. u. So.", {_TUE, _WED, _THU, _FRI, _SAT, _SUN}),
        ("Am Mo. geschlossen", {_MON}),
        ("Mon–Fri 9–5", {_MON, _TUE, _WED, _THU, _FRI}), ("Sat | 9–5", {_SAT}), ("Sun 10 am to 4 pm", {_SUN}),
        ("Fri-Mon", {_FRI, _SAT, _SUN, _MON}),
        ("du mardi au jeudi", {_TUE, _WED, _THU}), ("lun. : fermé", {_MON}), ("mar. et sam. 9 h – 12 h", {_TUE, _SAT}),
        ("sam. 9 h 30", {_SAT}),
        ("dal lunedì al mercoledì", {_MON, _TUE, _WED}), ("ma t/m wo 9:00", {_MON, _TUE, _WED}), ("пн–ср", {_MON, _TUE,
        _WED}),
        ("Monday, Wednesday and Friday", {_MON, _WED, _FRI}), ("Tuesday through Thursday", {_TUE, _WED, _THU}),
        ("segunda a sexta", {_MON, _TUE, _WED, _THU, _FRI}), ("de terça a sábado", {_TUE, _WED, _THU, _FRI, _SAT}),
        ("às segundas", {_MON}),
        ("Segunda: 9h", {_MON}), ("segunda-feira", {_MON}), ("星期一至五 9:00", {_MON, _TUE, _WED, _THU, _FRI}),
        ("周六至周日", {_SAT, _SUN}), ("周一至五月底", {_MON}),
        ("todas as quintas-feiras", {_THU}), ("Aberto segundas e quartas-feiras", {_MON, _WED}),
        ("segunda e terça-feira", {_MON, _TUE}),
        ("Às terças e quintas: 9h", {_TUE, _THU}), ("segunda, quarta e sexta-feira", {_MON, _WED, _FRI}),
        ("SEGUNDA A SEXTA", {_MON, _TUE, _WED, _THU, _FRI}),
        ("toda quinta", {_THU}), ("礼拜三休息", {_WED}), ("às segundas e quartas", {_MON, _WED}), ("周一至五早上", {_MON, _TUE,  # noqa: E501
        _WED, _THU, _FRI}),
        ("周五到天津", {_FRI}), ("周六到三亚旅游", {_SAT}), ("每周三至五天", {_WED}), ("周一到五号", {_MON}),
        ("周一至五及公众假期", {_MON, _TUE, _WED, _THU, _FRI}), ("周二至日均可参观", {_TUE, _WED, _THU, _FRI, _SAT, _SUN}), ("周五到天全县",  # noqa: E501
        {_FRI}),
        ("El sábado, segunda función", {_SAT}), ("domenica, quinta edizione", {_SUN}), ("quarta-feira e segunda edição",
        {_WED}),
    ],
)  # fmt: skip
def test_days_of_the_week_are_found(text: str, days: set[int]) -> None:
    assert weekdays_in(text) == days


@pytest.mark.parametrize(
    "text",
    [
        "Das ist so. Mit der Bahn", "So 10 people came", "do it so 10 Uhr passt", "Do we mi", "So. That was it.",
        "Fr. Müller leitet es.",
        "He sat in the sun and sat there.", "The sun: a star", "Il va à la mer. Ses amis aussi.", "vers le mar",
        "March 3", "so-so", "Do you open at 10?",
        "ein Glas Wein di Roma", "Wed | ".replace("Wed", "wed"),
        "¿A qué hora abre la segunda planta?", "A che ora apre la quarta sala?", "Quinta da Regaleira",
        "la quinta y sexta planta", "sobe à segunda sala",
        "A terça parte do preço", "Fica na quinta, longe da cidade", "todas as quintas do Douro",
        "Apre la quinta. Poi si va.",
    ],
)  # fmt: skip
def test_words_that_look_like_abbreviations_are_no_days(text: str) -> None:
    assert weekdays_in(text) == frozenset()


def test_each_name_is_read_in_capitals_and_with_either_turkish_i() -> None:
    for locale in map(Locale.parse, LANGUAGES.split()):
        for number, name in locale.days["format"]["wide"].items():
            for written in (name, name.upper(), name.upper().replace("I", "İ"), name.replace("i", "ı"), name.title()):
                assert weekdays_in(f"{written} 9:00") <= set(range(7)), written
            assert number in weekdays_in(name), name


@pytest.mark.parametrize("piece", ["Mo. ", "Mon–", "so ", "Fr., | ", "Mo | ", "Mo \n"])
def test_a_long_text_is_read_in_one_pass(piece: str) -> None:
    assert_linear(weekdays_in, lambda pieces: piece * pieces, 600)
