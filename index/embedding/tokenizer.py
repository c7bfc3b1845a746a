"""Loads the tokenizer of a local model without loading the model."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from almanac.index.embedding.model_folder import find_model
from almanac.index.embedding.unpack import TOKENIZER

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from almanac.schemas.declaration.embed import Embed


def load_tokenizer(embed: "Embed") -> "Tokenizer | None":
    """Returns the declared model's tokenizer, without truncation or padding; None for an API, or where the model's
    folder has no tokenizer.json.
    """
    path = find_model(embed, reading=[TOKENIZER]).path / TOKENIZER if embed.provider == "local" else None
    return _load(path, path.stat().st_mtime_ns) if path is not None and path.is_file() else None


@cache
def _load(path: Path, _mtime_ns: int) -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
