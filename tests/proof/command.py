"""The command as a user starts it, with all its processes, but for the model: `python -m tests.proof.command run KB`.

Its embedder takes a moment for each text, ALMANAC_PROOF_TEXT_S seconds, and notes it in the file that
ALMANAC_PROOF_EMBEDDED names.
"""

import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from almanac.cli.main import main
from tests.index.conftest import INFO
from tests.proof.noting import Noting

_TEXT_S = float(os.environ.get("ALMANAC_PROOF_TEXT_S", "0.0005"))


class _Slow(Noting):
    def embed_documents(self, texts: Any) -> Any:
        time.sleep(_TEXT_S * len(texts))
        return super().embed_documents(texts)


if __name__ == "__main__":
    with (
        patch(
            "almanac.index.embedding.embedder.load_embedder",
            lambda *_, **__: _Slow(Path(os.environ["ALMANAC_PROOF_EMBEDDED"])),
        ),
        patch("almanac.index.embedding.embedder.describe_embedder", lambda _: INFO),
    ):
        main()
