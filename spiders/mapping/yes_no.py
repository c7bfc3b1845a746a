"""Words for yes and no, and for what is in stock and what is not: lower case, in the languages of shops. What is not
listed here is no answer.
"""

import re

_YES = """
    1 | ano | auf lager | available | còn hàng | có | da | disponibil | disponibile | disponibilă |
    disponible | dostupné | elérhető | em estoque | en stock | evet | i lager | igen | in stoc | in stock |
    instock | instoreonly | ja | kapható | kyllä | készleten | lieferbar | limitedavailability | mevcut |
    na sklade | na skladě | on | onlineonly | op voorraad | oui | på lager | raktáron | raktáron van | si |
    sim | skladem | skladom | stoc limitat | stokta | stokta var | sì | sí | tak | true | var | verfügbar |
    vorrätig | vrai | wahr | y | ya | yes | în stoc | đúng | άμεσα διαθέσιμο | διαθέσιμο | ναι |
    σε απόθεμα | в наличии | в наличност | в наявності | да | доступно | есть | на склад | наличен |
    налична | налично | так | є | є в наявності | במלאי | כן | آری | بله | در انبار موجود است | متاح |
    متوفر | متوفر في المخزون | موجود | موجود است | موجود در انبار | نعم | उपलब्ध | उपलब्ध है | जी हाँ |
    सत्य | स्टॉक में | स्टॉक में उपलब्ध | स्टॉक में है | हाँ | हां | উপলব্ধ | সত্য | স্টকে আছে | হাঁ |
    হ্যাঁ | จริง | พร้อมจำหน่าย | พร้อมส่ง | มีสินค้า | มีสินค้าในสต็อก | ใช่ | ☑ | ✅ | ✓ | ✔ | はい |
    在庫あり | 是 | 有貨 | 有货 | 예
"""
_NO = """
    0 | agotado | ausverkauft | currently unavailable | discontinued | ei | elfogyott |
    en rupture de stock | epuizat | epuizată | esaurito | esgotado | falsch | false | faux | fără stoc |
    hayir | hayır | hết hàng | ikke på lager | indisponibil | indisponibilă | indisponible | không |
    không còn hàng | không có | mevcut değil | n | ne | nedostupné | nee | nei | nein | nej | nem |
    nem elérhető | nem kapható | není na skladě | není skladem | nicht auf lager | nicht lieferbar |
    nicht verfügbar | nicht vorrätig | nie | nie je na sklade | nie je skladom | niet op voorraad |
    nincs készleten | nincs raktáron | no | no disponible | no longer available | non | non disponibile |
    not available | not in stock | nu | nu este disponibil | nu este in stoc | nu este în stoc | não |
    off | out of stock | outofstock | rupture de stock | sai | slut i lager | sold out | soldout |
    stoc epuizat | stokta yok | temporarily out of stock | tidak | tükendi | udsolgt | uitverkocht |
    unavailable | utsolgt | vypredané | vyprodáno | yok | épuisé | εκτόσ αποθέματοσ | εξαντλήθηκε |
    εξαντλημένο | μη διαθέσιμο | όχι | відсутня | відсутній | закінчився | изчерпан | изчерпана |
    изчерпано | не | не е в наличност | не е на склад | не е налично | недоступно | нема в наявності |
    немає | немає в наявності | нет | нет в наличии | няма | няма в наличност | няма наличност | ні |
    отсутствует | разпродадено | распродано | розпродано | אזל מהמלאי | אין במלאי | לא | לא במלאי |
    اتمام موجودی | خیر | غير متاح | غير متوفر | لا | موجود نمی باشد | موجود نمیباشد | موجود نیست |
    ناموجود | نفد من المخزون | نه | अनुपलब्ध | असत्य | आउट ऑफ स्टॉक | उपलब्ध नहीं | उपलब्ध नहीं है |
    जी नहीं | नहीं | स्टॉक में नहीं | स्टॉक में नहीं है | स्टॉक समाप्त | না | মিথ্যা | স্টক আউট |
    স্টক শেষ | স্টকে নেই | สินค้าหมด | สินค้าหมดชั่วคราว | หมดสต็อก | เท็จ | ไม่ | ไม่จริง | ไม่มีสินค้า |
    ไม่มีสินค้าในสต็อก | ไม่ใช่ | ☐ | ✗ | ✘ | ❌ | いいえ | 否 | 在庫なし | 缺貨 | 缺货 | 아니요
"""
YES = frozenset(word.strip() for word in _YES.split("|"))
NO = frozenset(word.strip() for word in _NO.split("|"))
# Phrases may be followed by more, as in "In stock (3 available)"; single words may not ("on sale" is not "on").
_PHRASES = sorted((text for text in (*YES, *NO) if " " in text), key=len, reverse=True)
_PHRASE = re.compile(rf"({'|'.join(map(re.escape, _PHRASES))})(?:\W|$)")
# What denies a phrase after it: "in stock: no", and languages whose verb comes last.
_DENIED = re.compile(
    r"\W*(?:no|not|non|não|δεν|όχι|tidak|nej|nei|ei|nicht|nein|niet|nee|ikke|inte|nie|není|ne|nem|nincs|nu|нет|не|"
    r"няма|немає|нема|ні|không|לא|לא|لا)\b"
    r"|.*(?:नहीं|নেই|نیست|نمی|\byok\b|\bdeğil\b|ない)"
)


def answer(text: str) -> bool | None:
    """Whether a text in small letters says yes; None if it says neither yes nor no."""
    if text in YES or text in NO:
        return text in YES
    bare = text.strip(" .!✓✔☑✅✗✘❌")
    if phrase := _PHRASE.match(bare):
        if phrase[1] in NO:
            return False
        counts = [int(digits) for digits in re.findall(r"\d{1,9}", bare)]
        return None if _DENIED.match(bare, phrase.end(1)) else not counts or any(counts)  # "In stock: 0"
    return bare in YES if bare in YES or bare in NO else None
