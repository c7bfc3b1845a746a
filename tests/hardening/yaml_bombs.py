"""Blocks of YAML that say little and mean much: aliases of aliases, merges of merges, mappings that contain themselves,
nesting, and scalars that cost.
"""

_DEPTHS = (6, 9, 12)
_TIMES = (3, 9, 20)


def yaml_bombs() -> dict[str, str]:
    """What it is → the block, below 64 KiB, whose top level is a mapping."""
    bombs: dict[str, str] = {}
    for depth in _DEPTHS:
        for times in _TIMES:
            size = f"{times} times each, {depth} levels"
            lists = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * times)}]" for level in range(1, depth)]
            bombs[f"lists of lists, {size}"] = "\n".join(["a0: &a0 [lol, lol]", *lists])
            maps = [
                f"a{level}: &a{level} {{{', '.join(f'k{n}: *a{level - 1}' for n in range(times))}}}"
                for level in range(1, depth)
            ]
            bombs[f"mappings of mappings, {size}"] = "\n".join(["a0: &a0 {k: lol}", *maps])
            merges = [
                f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * times)}]}}" for level in range(1, depth)
            ]
            bombs[f"merges of merges, {size}"] = "\n".join(["a0: &a0 {k: lol, l: lol}", *merges])
            keyed = [
                f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * times)}], k{level}: x}}"
                for level in range(1, depth)
            ]
            bombs[f"merges with keys, {size}"] = "\n".join(["a0: &a0 {k: lol, l: lol}", *keyed])
        bombs[f"text of texts, {depth} levels"] = "\n".join(
            [
                f"a0: &a0 '{'lol' * 1000}'",
                *(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 50)}]" for level in range(1, depth)),
            ]
        )
    bombs |= {
        "a list in itself": "a: &a [*a]",
        "a mapping in itself": "a: &a {b: *a}",
        "a mapping as its own key": "a: &a {? *a : b}",
        "two in each other": "a: &a {b: &b {c: *a, d: *b}}",
        "the whole in itself": "&a\nname: x\nsources: *a",
        "a merge of itself": "a: &a {<<: *a, b: c}",
        "merges in a circle": "a: &a {<<: &b {<<: *a}}",
        "a merge of a list": "a: &a [1]\nb: {<<: *a}",
        "a merge of a text": "b: {<<: lol}",
        "an alias of nothing": "a: *nowhere",
        "a set": "a: !!set {? a, ? b}",
        "an ordered mapping": "a: !!omap [a: 1, a: 2]",
        "pairs": "a: &a !!pairs [a: *a]",
        "a tag of python": "a: !!python/object/apply:os.system [id]",
        "a binary": f"a: !!binary {'A' * 60_000}",
        "a number of 60,000 digits": f"a: {'9' * 60_000}",
        "a number in base 60": f"a: 1{':59' * 15_000}",
        "a float of 60,000 digits": f"a: 0.{'9' * 60_000}e9",
        "an exponent": "a: 1e999999999",
        "a date that is none": "a: 9999999-99-99T99:99:99Z",
        "nothing but anchors": "\n".join(f"k{number}: &a{number} x" for number in range(2500)),
        "one anchor, again and again": "\n".join(
            f"k{number}: &a [*a]" if number else "k: &a x" for number in range(2500)
        ),
        "2,000 times the same key": "a: 1\n" * 2000,
        "6,000 keys": "\n".join(f"k{number}: x" for number in range(6000)),
        "an endless text": f"a: {'b' * 60_000}",
        "an endless key": f"{'b' * 60_000}: a",
        "an endless quote": f"a: '{'b' * 60_000}",
        "escapes": 'a: "' + "\\U0001F600" * 5000 + '"',
        "comments": "a: b\n" + "# c\n" * 15_000,
        "documents": "a: b\n" + "---\na: b\n" * 5000,
        "directives": "%TAG ! tag:x,2000:\n" * 2000 + "---\na: b",
        "tags": "a: " + "!t " * 20_000,
    }
    for opening, closing in (
        ("[", "]"),
        ("{a: ", "}"),
        ("[{a: ", "}]"),
        ("? ", ""),
        ("- ", ""),
        ("!!seq [", "]"),
        ("&a [", "]"),
    ):
        for times in (50, 500, 5000):
            bombs[f"{opening!r} {times} times"] = f"a:\n  {opening * times}x{closing * times}"
            bombs[f"{opening!r} {times} times, not closed"] = f"a:\n  {opening * times}x"
    bombs["5,000 levels by indentation"] = "\n".join(f"{' ' * min(level, 250)}a{level}:" for level in range(500))
    return bombs
