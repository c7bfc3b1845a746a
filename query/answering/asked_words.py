"""Words by which questions ask, per language: interrogatives, nouns that name what is wanted, and beginnings of
questions to be answered by yes or no.

Lines are `language expressions`, regular expressions separated by `|`, for texts in lower case without diacritics;
diacritics here are for reading alone. They match whole words, in zh and ja anything.
"""

import re
from typing import Literal

from almanac.index.lexical.analyzer import fold

Kind = Literal[
    "hour",
    "date",
    "price",
    "duration",
    "percentage",
    "length",
    "weight",
    "temperature",
    "number",
    "stock",
    "phone",
    "email",
    "address",
    "name",
    "person",
    "place",
    "yes or no",
    "explanation",
]
Kinds = frozenset[Kind]
_SPACELESS = ("zh", "ja")


def _pattern(lines: str) -> re.Pattern[str]:
    spaced: list[str] = []
    others: list[str] = []
    for line in filter(None, map(str.strip, lines.split("\n"))):
        language, _, expressions = line.partition(" ")
        (others if language in _SPACELESS else spaced).append(fold(expressions.strip()))
    whole = rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)"
    return re.compile("|".join([whole, *others]))


def _table(rows: dict[str, str]) -> tuple[tuple[Kinds, re.Pattern[str]], ...]:
    return tuple((frozenset(kinds.split("/")) - {""}, _pattern(lines)) for kinds, lines in rows.items())  # type: ignore[misc]


# Where two begin at the same place, the longer one counts: "how long", not "how". The row before the last asks which of
# several, the last one asks for something, and nothing says for what.
ASKING = _table(
    {
        "hour": """
            en (?:at |from |until |till |by )?what time|at what hour|how (?:early|late)
            fr (?:à |des |jusqu'à |vers )?quelles? heures?
            es (?:a |hasta |desde )?qué horas?
            de (?:um |ab |bis )?wie ?viel uhr|um wie ?viel uhr
            it (?:a |fino a )?che or[ae]
            pt (?:a |até )?que horas?
            nl hoe laat
            vi (?:lúc )?mấy giờ|giờ nào
            he [במ]?איז[וה] שעה|באילו שעות|(?:עד |מ)?איזו שעה
            ru (?:в )?котором часу|во сколько
            ar (?:في )?اي ساعة
            zh 几点|幾點
            ja 何時に|何時から|何時まで|何時です
        """,
        "date/hour/duration": """
            en (?:since |by |until |till |from )?when|how soon|how quick(?:ly)?
            fr (?:depuis |jusqu'à )?quand
            es (?:desde |hasta )?cuándo
            de (?:seit |ab |bis )?wann
            it (?:da |fino a )?quando
            pt (?:desde |até )?quando
            nl (?:sinds |tot |vanaf )?wanneer
            vi (?:từ |đến )?(?:khi nào|lúc nào|bao giờ|hồi nào)
            he (?:מ|עד |ב)?מתי
            ru когда
            ar متى
            zh 什么时候|什麼時候|何时
            ja いつ
        """,
        "date": """
            en (?:on |in )?(?:what|which) (?:days?|dates?|years?|months?|century|weekdays?|season)
            fr (?:en )?quell?e?s? (?:jours?|dates?|années?|mois|siècle)
            es (?:en )?qué (?:días?|fechas?|años?|mes)
            de (?:an |in )?welche[mnrs]? (?:tage?n?|datum|jahr\\w*|monat\\w*|wochentag\\w*)
            it (?:in )?che (?:giorn[oi]|data|anno|mese)
            pt (?:em )?que (?:dias?|data|ano|mês)
            nl (?:op |in )?welke? (?:dag|dagen|datum|jaar|maand)
            vi (?:vào )?(?:ngày|thứ|năm|tháng) (?:nào|mấy|bao nhiêu)
            he ב?איזה (?:יום|תאריך|שנה|חודש)|ב?איזו שנה|באילו ימים
            ru в како[йм] (?:день|год\\w*|числ\\w*)
            ar في اي (?:يوم|سنة|عام|تاريخ)
            zh 哪一?[天年日月]
            ja 何[年月日曜]
        """,
        "duration": """
            en how (?:long|much time|many (?:minutes|hours|days|weeks|months|years))
            fr combien de (?:temps|minutes|jours|semaines|mois)|combien d'(?:heures|années)
            es cuánt[oa]s? (?:tiempo|minutos|horas|días|semanas|meses|años)
            de wie ?lange?|wie ?viele? (?:minuten|stunden|tage|wochen|monate|jahre)
            it quant[oaie] (?:tempo|minut\\w+|or[ae]|giorn\\w+|settiman\\w+|mes\\w+|ann[oi])
            pt quant[oa]s? (?:tempo|minutos|horas|dias|semanas|meses|anos)
            nl hoe ?lang|hoeveel (?:tijd|uur|dagen|weken|maanden|jaar)
            vi (?:trong )?bao lâu|(?:mấy|bao nhiêu) (?:phút|tiếng|ngày|tuần|tháng|năm)
            he ל?כמה (?:זמן|דקות|שעות|ימים|שבועות|חודשים|שנים)
            ru сколько (?:времени|минут|часов|дней|недель|месяцев|лет)|как долго
            ar كم من الوقت|كم (?:دقيقة|ساعة|يوم\\w*|اسبوع\\w*|شهر\\w*|سنة)
            zh 多久|多长时间|多長時間
            ja どのくらいの時間|何[分時日週]間|何年間|何か月
        """,
        "duration/length": """
            en how long (?:is|are)(?! .{0,60}\\b(?:open|closed|valid|kept|stored|warranty|guarantee|period|break|stay)\\b)
            de wie ?lang (?:ist|sind)(?! .{0,60}\\b(?:offen|geöffnet|geschlossen|gültig|garantie|gewährleistung|frist)\\b)
            nl hoe ?lang (?:is|zijn)(?! .{0,60}\\b(?:open|gesloten|geldig|garantie)\\b)
        """,  # noqa: E501
        "number/stock": """
            en how many (?:\\S+ ){1,8}(?:left|available|in stock|remain(?:ing)?)
            fr combien (?:\\S+ ){1,8}(?:en stock|disponibles?|reste(?:nt|-t-il)?)|combien reste-t-il
            es cuánt[oa]s (?:\\S+ ){1,8}(?:quedan|disponibles|en stock)|cuánt[oa]s quedan
            de wie ?viele? (?:\\S+ ){1,8}(?:übrig|verfügbar|auf lager|vorrätig)
            it quant[ie] (?:\\S+ ){1,8}(?:disponibili|rimangono|restano)
            pt quant[oa]s (?:\\S+ ){1,8}(?:disponíveis|em estoque|restam)
            nl hoeveel (?:\\S+ ){1,8}(?:over|beschikbaar|op voorraad)
        """,
        "price": """
            en how much (?:is|are|was|were|does|do|did|will|would|to|for|extra|more|must|money)|what (?:does|do|did|would|will) .{1,50}(?:cost|charge|pay)
            fr (?<!y )(?:à|c'est) combien(?! d(?:e |'))|(?:à )?combien (?:coûte\\w*|ça coûte|vaut|faut-il payer|dois-je payer|est|sont|pour)
            es cuánto (?:cuesta\\w?|vale\\w?|es|hay que pagar|cobran)
            de (?:was|wie ?viel) (?:kostet|kosten|zahlt|zahle|bezahlt)
            it quanto (?:costa\\w*|viene|si paga|pago)
            pt quanto (?:custam?|pago|é)
            nl (?:wat|hoeveel) (?:kost|kosten|betaal\\w*)
            vi bao nhiêu tiền|hết bao nhiêu|giá (?:\\w+ ){0,3}bao nhiêu
            he ב?כמה (?:\\w+ )?(?:עולה|עולים|עולות|כסף|משלמים|צריך לשלם)
            ru сколько стоит
            ar كم (?:سعر|يكلف|ثمن)\\w*
            zh 多少钱|多少錢
            ja いくら
        """,  # noqa: E501
        "percentage": """
            en what (?:percentage|share|proportion|percent)
            fr quelle? (?:pourcentage|part|proportion)
            es qué porcentaje
            de wie ?viel prozent|welcher anteil
            it che percentuale
            pt (?:que|qual a) percentagem
            nl welk percentage|hoeveel procent
            vi bao nhiêu (?:phần trăm|%)
            he (?:כמה|איזה) אחוז\\w*
            ru какой процент|сколько процентов
            zh 百分之几
            ja 何パーセント
        """,
        "length": """
            en how (?:far|high|deep|wide|tall|thick|broad)
            de wie ?(?:hoch|breit|tief|weit|dick)
            nl hoe (?:hoog|breed|diep|ver)
            vi bao (?:xa|cao|rộng|sâu)|dài bao nhiêu
            zh 多[高长長宽寬深远遠]
            ja どのくらいの(?:長さ|高さ|距離)
        """,
        "weight": """
            en how heavy|how much (?:\\S+ ){1,8}weighs?
            fr combien (?:\\S+ ){0,8}pèse\\w*
            es cuánto pesan?
            de wie ?schwer|(?:was|wie ?viel) (?:\\S+ ){0,8}wiegt
            it quanto pesano?
            pt quanto pesam?
            nl hoe zwaar|(?:wat|hoeveel) weegt
            vi nặng bao nhiêu|bao nhiêu (?:kg|ký|kí|gam|gram)
            he כמה שוקל\\w*
            ru сколько весит
            ar كم يزن
            zh 多重
        """,
        "temperature": """
            en how (?:hot|warm|cold)
            de wie ?(?:heiß|heiss|warm|kalt)
            nl hoe (?:heet|warm|koud)
        """,
        "number": """
            en how (?:many|much|old|often|big|loud|large|fast|strong|bright)
            fr (?:d'|de )?combien
            es cuánt[oa]s?
            de wie ?(?:viele?n?|oft|alt|gross|groß|laut|schnell)
            it quant[oaie]
            pt quant[oa]s?
            nl hoe(?:veel| vaak| oud| groot)
            vi bao nhiêu|mấy(?= (?:người|ngày|giờ|đêm|chỗ|con|cái|lần|tuổi|km|phút|tiếng|tuần|tháng|năm|phòng|vé|loại|món))
            he [בלמ]?כמה
            ru сколько
            ar كم
            zh 多少|[几幾][个個人台间]
            ja 何[人個台回本枚]|どれくらい
        """,  # noqa: E501
        "place": """
            en (?:from )?where(?: from| to)?|(?:from |in |to |at )?which (?:city|town|country|place|station)
            fr (?:d')?où
            es (?:de |a )?dónde
            de wo(?:her|hin)?
            it dove
            pt (?:de )?onde|aonde
            nl waar(?:heen|vandaan)?
            vi (?:ở )?(?:đâu|chỗ nào|nơi nào)
            he [מלב]?(?:איפה|היכן)|לאן|מאין
            ru где|куда|откуда
            ar (?:من )?اين
            zh 哪里|哪裡|哪儿|在哪
            ja どこ
        """,
        "person": """
            en who(?:m|se)?
            fr qui
            es (?:a |de )?quién(?:es)?
            de wer|wen|wem|wessen
            it chi
            pt quem
            vi ai
            he (?:ל|של |עם |את )?מי
            ru кто|кого|кому|чей
            zh 谁|誰
            ja だれ
        """,
        "explanation": """
            en why|how
            fr pourquoi|comment
            es por qué|cómo
            de warum|wieso|weshalb|wie(?! laute[nt])
            it perché|come
            pt porque|como
            nl waarom|hoe
            vi tại sao|vì sao|làm sao|(?:làm )?thế nào|như thế nào
            he למה|מדוע|איך|כיצד
            ru почему|зачем|как
            ar لماذا|كيف
            zh 为什么|為什麼|怎么|怎麼|如何
            ja なぜ|どうして|どうやって
        """,
        "name": """
            en (?:(?:from |in |to |at |of |by )?which|whose)
            fr quell?e?s?|(?:le|la|les)quell?e?s?
            es cuál(?:es)?|qué(?! (?:es|son|significa|hay|pasa|hago|hacer)\\b)
            de welche[mnrs]?|was für eine?[mnrs]?
            it quale?|quali
            pt qual|quais
            nl welke?
            vi nào
            he [בלמש]?(?:איזה|איזו|אילו)
            ru какой|какая|какие|какое
            ar اي
            zh 哪
            ja どの|どちら
        """,
        "": """
            en what
            fr que|quoi|qu'est-ce
            de was
            it cosa
            pt o que
            nl wat
            vi gì
            he [בלמש]?מה
            ru что
            ar ما|ماذا
            zh 什么|什麼
            ja 何
        """,
    }
)
# Interrogatives that also join clauses. They ask at the beginning of a clause or at the end of the question: "the days
# when it is closed" asks nothing.
JOINING = frozenset(
    fold(
        "when where who whom whose how why what which quand où qui que quoi comment cuando donde quien como was "
        "wo wer wen wem wie dove chi come quando onde "
        "quem perché porque cosa wat waar hoe ai gì nào מי מה איך כמה как что кто где когда ما"
    ).split(" ")
)
CLAUSE = re.compile(r"[.,;:!?、，。]+\s*")
BEFORE_CLAUSE = re.compile(
    r"(?:[.,;:!?¿(、，。-]|\b(?:and|et|y|und|en|va|is|are|c'est|est|es|ist|do|to|of|by|from|until|since|in|at|de|a|an"
    r"|um|seit|bis|per|da|para|van|tot))\s*$"
)

# Words for "when" at the beginning of a clause that asks nothing: "When many are arrested, what is done?"
CONDITION = re.compile(
    fold(
        r"(?:when (?!do|does|did|is|are|was|were|will|can|could|should|may|must)|quand (?!\w+-|est-ce)|cuando "
        r"|quando |wanneer |als |wenn |когда |khi )"
    )
)

# What is asked for by a noun: "opening hours", "prix du parking".
NAMED = _table(
    {
        "hour": """
            en opening (?:hours|times)
            fr horaires?
            es horarios?
            de öffnungszeit\\w*|uhrzeit\\w*
            it orari\\w?
            nl openingstijd\\w*
            vi giờ mở cửa
            he שעות (?:ה?פתיחה|הפעילות)
            ru часы работы
            zh 营业时间
            ja 営業時間
        """,
        "price": """
            en prices?|costs?|fees?|fares?|charges?(?! (?:a|an|the|its?|your|up|any|most|all|both|in|from|via|over|phones?|devices?|batteries|\\d+))
            fr prix|tarifs?|coûts?
            es precios?|tarifas?|costes?
            de preise?|kosten|gebühr\\w*
            it prezz[oi]|tariff[ae]|costo
            pt preços?|custo
            nl prijs|prijzen
            vi giá(?: vé| tiền)?|lệ phí
            he מחיר\\w*|עלות
            ru цена|цены|стоимость
            ar سعر|أسعار|ثمن
            zh 价格|價格
            ja 料金|値段
        """,  # noqa: E501
        "date": """
            en dates?
            es fechas?
            de datum
            he תאריך
            ru дата
            ar تاريخ
            zh 日期
            ja 日付
        """,
        "duration": """
            en duration|notice period|battery life
            fr durée
            es duración
            de dauer
            it durata
            pt duração
            nl duur
            vi thời gian|thời lượng
            he משך
            ru длительность
            ar مدة
            zh 时长
            ja 所要時間
        """,
        "percentage": """
            en percentage
            fr pourcentage
            es porcentaje
            de prozentsatz
            he אחוז
            zh 百分比
        """,
        "weight": """
            en weight
            fr poids
            es peso
            de gewicht
            it peso
            nl gewicht
            vi cân nặng|trọng lượng
            he משקל
            ru вес
            ar وزن
            zh 重量
            ja 重さ
        """,
        "temperature": """
            en temperature
            fr température
            es temperatura
            de temperatur
            nl temperatuur
            vi nhiệt độ
            he טמפרטורה
            ru температура
            zh 温度
        """,
        "length": """
            en height|width|depth|length|distance|dimensions?
            fr hauteur|largeur|longueur|profondeur|distance|dimensions?
            es altura|anchura|longitud|profundidad|distancia|dimensiones|medidas
            de höhe|breite|länge|tiefe|entfernung|abmessung(?:en)?|maße
            it altezza|larghezza|lunghezza|profondità|distanza|dimensioni
            pt largura|comprimento|profundidade|distância|dimensões
            nl hoogte|breedte|lengte|diepte|afstand|afmetingen
            vi độ dài|chiều (?:dài|rộng|cao|sâu)|khoảng cách
            he גובה|רוחב|אורך|עומק|מרחק
            ru высота|ширина|длина|глубина
            ar طول|عرض|ارتفاع
            zh 高度|长度|宽度
            ja 長さ|高さ|幅
        """,
        "phone": """
            en (?:tele|mobile |cell ?)?phone numbers?|telephone|hotline
            fr numéros? (?:de (?:téléphone|portable)|à appeler)|téléphone(?= (?:du|de)\\b|\\s*\\??$)
            es número de teléfono|teléfono(?= (?:del?)\\b|\\s*\\??$)
            de telefonnummer\\w*|rufnummer\\w*
            it numero di telefono|telefono(?= (?:del\\w*|di)\\b|\\s*\\??$)
            pt número de telefone|telefone(?= (?:d[aoe])\\b|\\s*\\??$)
            nl telefoonnummer
            vi số điện thoại
            he מספר (?:ה?טלפון)|טלפון של
            ru номер телефона
            ar رقم (?:ال)?هاتف
            zh 电话号码|電話號碼
            ja 電話番号
        """,
        "email": """
            en e-?mail address(?:es)?|e-?mail(?=\\s*\\??$)
            fr adresse (?:e-?mail|mail|électronique)|courriel(?=\\s*\\??$)
            es correo electrónico|dirección de correo
            de e-?mail-?adresse|mailadresse
            it indirizzo e-?mail
            pt endereço de e-?mail
            nl e-?mailadres
            vi địa chỉ (?:e-?mail|thư điện tử)
            he כתובת (?:ה?(?:מייל|אימייל)|דוא"ל)
            ru (?:адрес )?электронн\\w+ почт\\w+
            ar (?:ال)?بريد (?:ال)?[اإ]لكتروني
            zh 邮箱|電子郵件
            ja メールアドレス
        """,
        "address": """
            en (?:postal|street|your) address|(?<!ip )(?<!mac )(?<!web )address(?= of\\b)|(?:which|what) street
            fr (?:votre|ton|leur) adresse|adresse(?: postale|(?= (?:du|de la|de l'|des|de votre)))|quelle rue
            es (?:su|tu|vuestra) dirección|dirección(?= (?:del?)\\b)|qué calle
            de anschrift|(?:ihre|eure|deine) adresse|adresse(?= (?:de[rs]|von|vom)\\b)|welcher stra(?:ß|ss)e
            it (?:vostro|tuo|suo) indirizzo|indirizzo(?= (?:del\\w*|di)\\b)|che via
            pt (?:seu|vosso) endereço|endereço(?= (?:d[aoe])\\b)|que rua
            nl welke straat|(?:uw|jullie) adres|adres(?= van\\b)
            vi địa chỉ
            he ה?כתובת של|איזה רחוב
            ru адрес(?! (?:сайт|электронн)\\w*)
            ar عنوان
            zh 地址
            ja 住所
        """,
        "number": """
            en size|capacity|speed|number|age|ceiling|limit|budget
            fr taille|capacité|âge
            es tamaño|capacidad|edad
            de größe|kapazität|alter
            it capacità|età
            pt tamanho|capacidade|idade
            nl grootte|capaciteit|leeftijd
            vi kích thước
            he גודל
            ru размер
            ar حجم
            zh 尺寸|大小
            ja 大きさ
        """,
        "stock": """
            en (?:in )?stock(?! (?:exchange|market|options?|prices?))|availability|\\Aavailable\\Z
            fr (?:en )?stock|disponibilité|\\Adisponibles?\\Z
            es existencias|disponibilidad|\\Adisponibles?\\Z
            de (?:lager)?bestand|verfügbarkeit|auf lager|\\Averfügbar\\Z
            it disponibilità|giacenza
            pt estoque|disponibilidade
            nl voorraad|beschikbaarheid
        """,
    }
)
PRICE = NAMED[1][1]
# Words of a part of a price: beside one, a percentage tells a price. "99 % of the colours" does not.
REDUCTION = _pattern(
    r"""
    en off|discount\w*|reductions?|reduced|cheaper|deposit|tax|vat|surcharge|supplement|pay|paid|refund\w*
    fr réduction|remise|rabais|moins cher|acompte|taxe|tva|supplément|paie\w*|paye[rz]?|rembours\w+
    es descuento|rebaja|reembols\w+|depósito|iva|recargo|paga\w*
    de ermäßig\w*|rabatt\w*|nachlass|günstiger|anzahlung|mwst|aufschlag|(?:be)?zahl(?:en|t|ung)\w*|erstatt\w+
    it sconto|riduzione|ridott\w+|acconto|iva|rimbors\w+|paga\w*
    pt desconto|redução|reembols\w+|depósito|iva|paga\w*
    nl korting|aanbetaling|btw|toeslag|betaal\w*
    vi giảm|hoàn|đặt cọc|thuế|phụ thu|trả
    he [בלמשוה]?הנחה|[בלמשוה]?החזר|[בלמשוה]?מקדמה|מע"מ
    ru скидк\w*|возврат\w*|предоплат\w*|ндс
    ar خصم|تخفيض|عربون
    zh 折|优惠|優惠|退款|定金|税
    ja 割引|値引|返金|税
"""
)
# Beginnings, or in some languages endings, of questions that are answered by yes or no.
YES_OR_NO = re.compile(
    fold(
        r"^(?:(?:is|are|was(?! "
        r"(?:ist|sind|macht|muss|kann|darf|passiert|bedeutet|heisst|gibt|wird|kost\w+)\b)|were|do|does|did|can"
        r"|could|may|might|must|should"
        r"|shall|will|would|has|have|had|am|isn't|aren't|don't|doesn't|can't)\b"
        r"|est-ce (?:que|qu')|(?:peut|puis|peux|pouvons|pouvez|dois|doit|devons|faut|est|sont|a|ai|avez|as|ont"
        r"|y a)-(?:t-)?"
        r"(?:on|je|tu|il|elle|ils|elles|nous|vous|ce)\b|(?:on peut|peut on|est il|y a t il|c'est "
        r"possible|possible de)\b"
        r"|(?:puedo|puede|se puede|pueden|podemos|hay|es|son|está|están|tiene|tienen|tengo que|debo|debe|hace "
        r"falta|necesito|incluye|existe|aceptan)\b"
        r"|(?:ist|sind|war|kann|können|darf|dürfen|muss|müssen|soll|gibt|hat|haben|wird|werden|habe|brauche|br"
        r"aucht|bekomme|bietet|bieten)\b"
        r"|(?:posso|può|si può|possiamo|sono|c'è|ci sono|ha|hanno|devo|deve|bisogna|serve|avete|è "
        r"possibile|pode|podemos|e(?=\s)|são|tem|preciso)\b"
        r"|(?:zijn|kan|kunnen|mag|mogen|moet|moeten|heeft|hebben|wordt|worden|krijg|heb)\b"
        r"|(?:האם|אפשר|ניתן|מותר|יש|כדאי|צריך|חייבים)\b|(?:можно|есть ли|нужно ли|могу)\b|هل\b)"
        r"|\b(?:không|chưa|ok|okay|allowed|possible|permitted)\s*[?？]*$|\bли\b|吗[？?]?$|嗎[？?]?$|ますか|ですか"
    )
)
POLITE = re.compile(
    fold(
        r"^(?:(?:please|hi|hello|hey|bonjour|hola|hallo|ciao)[,! ]+)*(?:(?:can|could|would) you (?:please "
        r")?(?:tell|say|explain)(?: me| us)?|do you know"
        r"|tell me|i(?:'d| would) like to know|i wonder|pouvez-vous me dire|savez-vous|dites-moi|puede "
        r"decirme|sabe|sabes|dime|können sie mir sagen|wissen sie"
        r"|weißt du|sag mir|può dirmi|sa|pode dizer-me|sabe dizer|kunt u (?:mij|me) zeggen|weet u|cho "
        r"(?:tôi|mình|em) hỏi|אפשר לדעת|תגידו)\b[,:]?\s*"
    )
)
# A further part of a question begins behind one of these, with an interrogative of its own.
_AND = "and|et|y|e|und|en|và|и"
# Between two things that are asked for by nouns: "price and weight", "les tarifs et les horaires".
JOINED = re.compile(
    fold(
        rf"(?:,? (?:{_AND}) | ?[,/&] "
        r"?)(?:(?:the|its|their|le|la|les|du|des|el|los|las|den|die|das|der|il|lo|i|gli|os|as|de|het) |l')?"
    )
)
FURTHER = re.compile(
    fold(
        rf"[?？؟]+\s*(?:(?:{_AND})\s+)?|,?\s+(?:{_AND}|or|plus|sowie|also)\s+|[,;，、]\s*(?:(?:{_AND})\s+)?|,?\s+ו(?=\w)"
    )
)
PREPOSITION = re.compile(
    fold(
        r"(?:at|from|to|in|for|until|till|by|since|on|with|and|also|à|de|en|pour|depuis|dès|jusqu'à|desde|hasta|co"
        r"n|um|ab|seit|bis|für|mit|per|da|para|voor|met"
        r"|từ|vào|lúc|cho|ở)\s+"
    )
)

IN_LABELS = _table(
    {
        "place": """
            en place|location|venue|meeting point
            fr lieu|point de rendez-vous
            es lugar|punto de encuentro
            de ort|veranstaltungsort|treffpunkt
            it luogo
            pt local
            nl locatie
            vi địa điểm
            he מיקום
            ru место
            zh 地点|地點
            ja 場所
        """,
    }
)
"""Words that name a kind where they are the label of a field. In questions they may say something else: "What takes
place?", "Qué comida local hay?".
"""
