"""The parts of a sheet's number format (ECMA-376, 18.8.31): sections between semicolons, each made of places for digits
and of what stands around them.
"""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

_PARTS = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.?)|(?P<space>_.?)|\*.?|\[\$(?P<currency>'
    r"[^\]-]*)[^\]]*\]|\[(?P<condition>[<>=]+)(?P<bound>[^\]]*)\]|\[[^\]]*\]?"
    r"|(?P<end>;)|(?P<general>General)|(?P<exponent>E[-+](?=[0#?]))|(?P<one>.)",
    re.IGNORECASE | re.DOTALL,
)
_KINDS = {
    "0": "digit",
    "#": "digit",
    "?": "digit",
    ".": "point",
    ",": "comma",
    "%": "percent",
    "/": "slash",
    "@": "all",
}
_BRACKETS = re.compile(r"[()\s]")
_MAX_SECTIONS = 4
_MAX_AMBIGUOUS = 6  # digits of a number with a single mark
MAX_POWER = 300  # of ten, of numbers that are written
_WIDE = Context(prec=2 * MAX_POWER)
_PLAIN_POWERS = range(-10, 21)  # of ten: what is smaller or greater is written with its power


class Marks(NamedTuple):
    """What separates decimals and thousands. Where they are guessed, none stands where it could be taken for the other,
    as in 1,234.
    """

    decimal: str = "."
    group: str = ","
    is_guess: bool = False


class Part(NamedTuple):
    """A part of a section: `literal`, `digit`, `point`, `comma`, `percent`, `slash`, `exponent` or `all`, the value
    without a format.
    """

    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One of the formats between semicolons, and the numbers that it says it is for."""

    parts: tuple[Part, ...] = ()
    condition: str = ""
    bound: Decimal = Decimal(0)

    @property
    def literals(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "literal")

    @property
    def is_dash(self) -> bool:
        """Whether it shows a dash, perhaps beside a currency, in place of a number."""
        return (
            "-" in self.literals
            and not self._has("all")
            and not any(part.kind == "digit" and part.text == "0" for part in self.parts)
        )

    def accepts(self, value: Decimal) -> bool:
        under, over, same = value < self.bound, value > self.bound, value == self.bound
        return {"<": under, ">": over, "=": same, "<=": under or same, ">=": over or same, "<>": not same}.get(
            self.condition, True
        )

    def differs_by_sign_only(self, other: "Section") -> bool:
        """Whether nothing but brackets or a colour tells what the two write."""
        return _BRACKETS.sub("", self.literals) == _BRACKETS.sub("", other.literals)

    def written(self, value: Decimal, marks: Marks) -> str:
        """The text of a number that is not negative."""
        if self._has("all"):
            return "".join(
                plain_number(value, marks) if part.kind == "all" else part.text
                for part in self.parts
                if part.kind in ("all", "literal")
            )
        if not self._has("digit"):
            return "".join(part.text for part in self.parts)
        if self._has("slash"):
            return self._as_fraction(value)
        value = value.scaleb(2 * self._count("percent") - 3 * self._thousands_left_out, _WIDE)
        end = self._index("exponent", len(self.parts))
        point = min(self._index("point", end), end)
        places = sum(part.kind == "digit" for part in self.parts[point:end])
        if end == len(self.parts):
            return self._digits(_rounded(value, places), point, end, marks)
        step = max(1, sum(part.kind == "digit" for part in self.parts[:point]))
        power = value.adjusted() // step * step if value else 0
        if _rounded(value.scaleb(-power), places).adjusted() >= step:
            power += step
        sign = "-" if power < 0 else self.parts[end].text
        return (
            f"{self._digits(_rounded(value.scaleb(-power), places), point, end, marks)}E{sign}"
            f"{_whole(self.parts[end + 1 :], str(abs(power)), '')}"
        )

    def _digits(self, value: Decimal, point: int, end: int, marks: Marks) -> str:
        whole, _, rest = f"{value:f}".partition(".")
        digits = [at for at, part in enumerate(self.parts[:point]) if part.kind == "digit"]
        is_grouped = bool(digits) and any(part.kind == "comma" for part in self.parts[digits[0] : digits[-1]])
        decimals = _decimals(self.parts[point:end], rest, marks.decimal)
        is_clear = not marks.is_guess or marks.decimal in decimals or len(whole) > _MAX_AMBIGUOUS
        return _whole(self.parts[:point], whole.lstrip("0"), marks.group if is_grouped and is_clear else "") + decimals

    @property
    def _thousands_left_out(self) -> int:
        """How often the number is divided by a thousand: the commas behind its last digit before the point or the
        end.
        """
        commas, is_behind = 0, True
        for part in reversed(self.parts):
            if part.kind == "comma" and is_behind:
                commas += 1
            elif part.kind in ("digit", "point"):
                is_behind = part.kind == "point"
        return commas

    def _as_fraction(self, value: Decimal) -> str:
        """1 1/2, or 3/2 where the format has no place for a whole number in front."""
        slash = self._index("slash", 0)
        before, behind = (
            "".join(part.text for part in parts).strip() for parts in (self.parts[:slash], self.parts[slash + 1 :])
        )
        fixed = re.match(r"[1-9]\d*", behind)
        places = sum(part.kind == "digit" for part in self.parts[slash:])
        exact = Fraction(value)
        below = int(fixed[0]) if fixed else exact.limit_denominator(10 ** min(max(places, 1), 6) - 1).denominator
        above = round(exact * below)
        whole, above = divmod(above, below) if " " in before else (0, above)
        return " ".join([*([str(whole)] if whole or not above else []), *([f"{above}/{below}"] if above else [])])

    def _has(self, kind: str) -> bool:
        return any(part.kind == kind for part in self.parts)

    def _count(self, kind: str) -> int:
        return sum(part.kind == kind for part in self.parts)

    def _index(self, kind: str, default: int) -> int:
        return next((at for at, part in enumerate(self.parts) if part.kind == kind), default)


@lru_cache(maxsize=1024)
def sections_of(code: str) -> tuple[Section, ...]:
    """The sections of a format, one at least."""
    sections: list[Section] = []
    parts: list[Part] = []
    condition, bound = "", Decimal(0)
    for match in _PARTS.finditer(code):
        kind = match.lastgroup
        if kind == "end":
            sections.append(Section(_with_fractions(parts), condition, bound))
            parts, condition, bound = [], "", Decimal(0)
        elif kind == "bound":
            condition, bound = match["condition"], _bound(match["bound"])
        elif kind == "general":
            parts.append(Part("all"))
        elif kind == "exponent":
            parts.append(Part("exponent", match["exponent"][1:].replace("-", "")))
        elif kind == "one":
            parts.append(Part(_KINDS.get(match["one"], "literal"), match["one"]))
        elif kind is not None:
            parts.append(Part("literal", " " if kind == "space" else match[kind]))
    sections.append(Section(_with_fractions(parts), condition, bound))
    return tuple(sections[:_MAX_SECTIONS])


def _with_fractions(parts: list[Part]) -> tuple[Part, ...]:
    """The parts, of which a slash is a literal where no digits stand around it: `0 "km"/"h"`."""
    around = zip([Part("literal"), *parts], parts, [*parts[1:], Part("literal")], strict=False)
    is_fraction = [
        part.kind == "slash" and before.kind == "digit" and (after.kind == "digit" or after.text.isdecimal())
        for before, part, after in around
    ]
    return tuple(
        Part("literal", part.text) if part.kind == "slash" and not fits else part
        for part, fits in zip(parts, is_fraction, strict=True)
    )


def plain_number(value: Decimal, marks: Marks) -> str:
    """A number without a format, with all of its digits."""
    value = value.normalize(_WIDE)
    return (f"{value:f}" if value.adjusted() in _PLAIN_POWERS else f"{value:E}").replace(".", marks.decimal)


def _bound(written: str) -> Decimal:
    try:
        return Decimal(written)
    except ArithmeticError:
        return Decimal(0)


def _rounded(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE)


def _whole(parts: tuple[Part, ...], digits: str, group: str) -> str:
    """The digits before the point in their places, from the right; the first place takes all that are left."""
    written: list[str] = []
    places = sum(part.kind == "digit" for part in parts)
    placed = 0
    for part in reversed(parts):
        if part.kind == "digit":
            places -= 1
            taken = (digits[-1:] if places else digits) or ("0" if part.text == "0" else "")
            for digit in reversed(taken):
                written += [group] if group and placed and not placed % 3 else []
                written.append(digit)
                placed += 1
            digits = digits[:-1]
        elif part.kind != "comma":
            written.append(part.text[::-1])
    return "".join(written)[::-1]


def _decimals(parts: tuple[Part, ...], digits: str, mark: str) -> str:
    """The digits behind the point in their places, without zeros at their end that the format does not ask for."""
    places = [part.text for part in parts if part.kind == "digit"]
    length = len(digits)
    while length and digits[length - 1] == "0" and places[length - 1] != "0":
        length -= 1
    written, place = "", 0
    for part in parts:
        if part.kind == "digit":
            written += digits[place] if place < length else ""
            place += 1
        elif part.kind == "point":
            written += mark if length else ""
        elif part.kind != "comma":
            written += part.text
    return written
