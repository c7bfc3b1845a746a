"""How well a vocabulary fits a text, with the bundled model's tokenizer and with small ones of many languages."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from almanac.index.embedding import subword_fertility as module
from almanac.index.embedding.subword_fertility import language_fit, subword_fertility
from almanac.index.embedding.word_pieces import WordPieces
from almanac.schemas.declaration.embed_section import Embed


def _fit(text: str) -> float:
    return language_fit(Embed(), [text])


def test_a_vocabulary_fits_the_language_that_it_was_made_for() -> None:
    assert _fit("The garden closes at six in summer and at five in winter.") == 1.0
    assert _fit("Quand le jardin du château ouvre-t-il ses portes aux visiteurs ?") == 0.0


@pytest.mark.parametrize(
    "text",
    ["มนุษย์ทั้งหลายเกิดมามีอิสระ", "ܐܒܘܢ ܕܒܫܡܝܐ ܢܬܩܕܫ", "ሰላም ለዓለም ሁሉ", "ᎣᏏᏲ ᎡᎶᎯ", "人人生而自由", "すべての人間は自由である"],
)
def test_a_script_that_comes_out_as_unknown_pieces_is_not_known(text: str) -> None:
    """One unknown piece per word looks like a word that the vocabulary has."""
    assert _fit(text) == 0.0


def test_a_few_words_in_another_script_make_a_text_a_little_less_known() -> None:
    plain = "The museum of Tbilisi shows coins, silver plates and two old maps of the city. "
    assert 0.8 < _fit(plain + "მუზეუმი") < 1.0


def _of_many_languages(monkeypatch: pytest.MonkeyPatch, *, has_unknown: bool) -> None:
    pieces: dict[str, int] = {
        name: number for number, name in enumerate(["<unk>", *"abcdefghijklmnopqrstuvwxyz", "garden", "人", "生"])
    }
    pieces |= {f"filler{number}": number for number in range(len(pieces), 100_000)}
    tokenizer = Tokenizer(
        models.BPE(vocab=pieces, merges=[], unk_token="<unk>" if has_unknown else None, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    monkeypatch.setattr(module, "load_word_pieces", lambda _: WordPieces(tokenizer.to_str().encode()))


def test_a_vocabulary_of_many_languages_knows_what_it_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_many_languages(monkeypatch, has_unknown=True)
    assert _fit("abc ab a") == 1.0
    assert _fit("人生人生") == 1.0  # two characters count as a word
    assert _fit("ⲡⲉⲛⲉⲓⲱⲧ ⲉⲧϩⲛ") == 0.0
    assert _fit("abcdefgh ijklmnop") == 0.0  # letter by letter
    fertility = subword_fertility(Embed(), ["abc ⲡⲉⲛⲉⲓⲱⲧ"])
    assert fertility is not None and fertility.unread == 0.5


def test_a_vocabulary_without_an_unknown_piece_reads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_many_languages(monkeypatch, has_unknown=False)
    fertility = subword_fertility(Embed(), ["abc"])
    assert fertility is not None and fertility.unread == 0.0


def test_an_embedder_without_a_readable_vocabulary_counts_as_one_that_knows_the_language() -> None:
    assert language_fit(Embed.model_validate({"provider": "mistral", "model": "mistral-embed"}), ["Текст"]) == 1.0
