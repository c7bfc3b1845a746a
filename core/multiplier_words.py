"""Words and letters behind a number that stand for one power of ten, whatever the language: `Mio.`, `triệu`, 万,
`lakh`.
"""

_WORDS: dict[int, str] = {
    2: "百 백",
    3: "k thousand tsd tausend mille mila tys tis tisíc tūkst tusen tusind duizend ezer mii tuhatta hiljada "
    "tisuća nghìn ngàn тыс тысяч тысяча тысячи тис "
    "тисяч хил хиляди хиљада χιλ χιλιάδες אלף אלפים ألف آلاف هزار हज़ार हजार ribu rb 千 仟 천 พัน",
    4: "万 萬 만 หมื่น",
    5: "lakh lakhs lac lacs lpa लाख แสน",
    6: "m mm mn mln mio mill million millions millionen millionär millón millones milhão milhões milione milioni "
    "miljoen miljoenen miljon miljoner millioner "
    "millioen milion miliony milionů milionów milión milióny miliónov milijun milijuna miliona milioane "
    "millió miljoona miljoonaa milj milyon juta jt triệu tr "
    "млн миллион миллиона миллионов мільйон мільйонів милион милиона милиони εκατ εκατομμύρια מיליון مليون "
    "ملايين میلیون ล้าน",
    7: "crore crores cr करोड़",
    8: "億 亿 억",
    9: "b bn mrd mld md mds mia mlrd milliard milliards milliarde milliarden miliardo miliardi miljard miljarden "
    "miljarder milliarder miliard miliardy "
    "miliardů miliardów miliárd miliardă miliarde milijarda milijardi milliárd miljardi miljardia milyar "
    "miliar bilhão bilhões tỷ tỉ млрд миллиард миллиарда "
    "миллиардов мільярд милиард милиарда δισ δισεκατομμύρια מיליארד مليار میلیارد",
    12: (
        "tn trn billionen billón billones biljoen biljoner billioner bilion biliony bilionů bilionów trilhão "
        "trilhões трлн триллион триллионов 兆 조"
    ),
}
POWERS = {word: power for power, words in _WORDS.items() for word in words.split()}
"""Power of ten by word, casefolded."""
