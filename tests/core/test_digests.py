"""Arrays of raw hashes find what a dictionary of texts would."""

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.digests import DigestSet, SortedDigests, digest_of, digest_of_parts, digests_of, first_rows

_POOL = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(6)]
# Also what no hash is, or only nearly: columns of damaged tables hold anything.
_ODD = [
    "",
    "a",
    _POOL[0].upper(),
    _POOL[0][:-1],
    _POOL[0] + "0",
    "g" * 64,
    "é" * 32,
    hashlib.sha256(b"a").hexdigest(),
    "0" * 64,
    "0" * 62 + "01",
]
_texts = st.lists(st.sampled_from(_POOL + _ODD), max_size=12)


@given(_texts, _texts, st.integers(0, 12))
def test_what_is_found_is_what_a_dictionary_finds(given_texts: list[str], sought_texts: list[str], cut: int) -> None:
    column = pa.chunked_array([given_texts[:cut], given_texts[cut:]], pa.string())
    digests = digests_of(column)
    assert np.array_equal(digests, digests_of(given_texts)) and np.array_equal(
        digests[cut:], digests_of(pa.array(given_texts, pa.large_string()).slice(cut))
    )
    first: dict[str, int] = {}
    for row, text in enumerate(given_texts):
        first.setdefault(text, row)
    sorted_digests = SortedDigests(digests)
    assert sorted_digests.find(digests_of(sought_texts)).tolist() == [first.get(text, -1) for text in sought_texts]
    assert [sorted_digests.span(digest_of(text)).tolist() for text in sought_texts] == [
        [row for row, given_text in enumerate(given_texts) if given_text == text] for text in sought_texts
    ]
    assert sorted(first_rows(digests).tolist()) == sorted(first.values())


@given(st.lists(_texts, max_size=4), _texts)
def test_a_set_that_grows_by_arrays_is_a_set(added: list[list[str]], sought_texts: list[str]) -> None:
    digest_set = DigestSet(digests_of([]))
    for texts in added:
        digest_set.add(digests_of(texts))
    every = {text for texts in added for text in texts}
    assert len(digest_set) == len(every) and digest_set.has(digests_of(sought_texts)).tolist() == [
        text in every for text in sought_texts
    ]


def test_hashes_are_their_bytes_and_sort_as_their_digits_do() -> None:
    digests = digests_of(_POOL)
    assert digests.tobytes().hex() == "".join(_POOL)
    assert [_POOL[row] for row in SortedDigests(digests).rows] == sorted(_POOL)
    assert digests_of([text[:32] for text in _POOL], 16).tobytes().hex() == "".join(text[:32] for text in _POOL)
    assert len(set(digests_of(pa.array([None, "", "None"])).tolist())) == 3


def test_texts_that_are_divided_differently_differ() -> None:
    assert (
        len(
            {
                digest_of_parts(parts)
                for parts in (["a", "b"], ["ab", ""], ["", "ab"], ["a:", "b"], ["a", ":b"], ["1:a", "b"])
            }
        )
        == 6
    )
