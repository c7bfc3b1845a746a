"""Word pieces are those of the library, also where a unigram model is given the pieces of a text alone."""

import json
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from almanac.index.embedding.model_folder import BUNDLED, find_model
from almanac.index.embedding.word_pieces import UnigramPieces, WordPieces, read_word_pieces
from almanac.schemas.declaration.embed_section import Embed

_ODD = [
    "",
    "  two  words ",
    "é" * 700,
    "[MASK] [SEP] </s>foo</s> bar <s>x<mask>  y <unk> z<pad>",
    "<s",
    "\u2581a\u2581\u2581b",
    "x </s></s> ",
    "質問ですか？ 人人生而自由，在尊严和权利上一律平等。",
    "มนุษย์ทั้งหลายเกิดมามีอิสระ ﷽ ﬁ ½ ①",
    "ܐܒܘܢ ܕܒܫܡܝܐ ᎣᏏᏲ 🎉\u200b\xa0.",
    unicodedata.normalize("NFD", "Đà Nẵng, phố cổ Hội An"),
]


@pytest.fixture(scope="module", params=[*BUNDLED, "made up"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[WordPieces, Tokenizer]:
    """A tokenizer as it is read here, and by the library."""
    if request.param == "made up":
        path = tmp_path_factory.mktemp("made") / "tokenizer.json"
        pieces = [("a", -1.0), ("ab", -1.5), ("b", -2.0), ("<unk>", 0.0), ("ba", -2.5), ("é", -9.0), ("aba", -2.0)]
        made = Tokenizer(models.Unigram(pieces, 3))
        made.normalizer, made.decoder = normalizers.Lowercase(), decoders.Metaspace()
        made.add_special_tokens(["[END]"])
        made.save(str(path))
        return read_word_pieces(path), made
    tokenizer_path = find_model(Embed(model=request.param)).tokenizer()
    assert tokenizer_path is not None
    return read_word_pieces(tokenizer_path), Tokenizer.from_file(str(tokenizer_path))


@given(texts=st.lists(st.text(max_size=60) | st.sampled_from(_ODD) | st.text("abé [END]", max_size=20), max_size=12))
@settings(max_examples=150, deadline=None)
def test_pieces_are_those_of_the_library(both: tuple[WordPieces, Tokenizer], texts: list[str]) -> None:
    ours, library = both
    library.no_truncation()
    library.no_padding()
    expected = library.encode_batch(texts)
    assert ours.numbers(texts) == [encoding.ids for encoding in expected]
    assert [encoding.offsets for encoding in ours.encode(texts)] == [encoding.offsets for encoding in expected]
    assert ours.size == library.get_vocab_size()
    library.enable_truncation(7)
    assert ours.numbers(texts, 7) == [encoding.ids for encoding in library.encode_batch(texts)]


def test_what_the_vocabulary_lacks_is_told(both: tuple[WordPieces, Tokenizer]) -> None:
    ours, _ = both
    known, unknown = ours.encode(["ab", "ᎣᏏᏲ"], with_marks=False)
    assert (ours.has_unknown(known), ours.has_unknown(unknown)) == (False, True)


def test_threads_share_a_tokenizer(both: tuple[WordPieces, Tokenizer]) -> None:
    ours, _ = both
    texts = [f"{text} {number}" for number in range(40) for text in _ODD]
    expected = [ours.numbers([text]) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: ours.numbers([text]), texts)) == expected


def test_a_unigram_model_that_falls_back_to_bytes_is_left_to_the_library(tmp_path: Path) -> None:
    def kind(change: Callable[[dict[str, object]], object]) -> type:
        made = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        declared = json.loads(made.to_str())
        change(declared["model"])
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(declared))
        return type(read_word_pieces(path))

    assert kind(lambda _: None) is UnigramPieces
    assert kind(lambda model: model.update(byte_fallback=True)) is WordPieces
