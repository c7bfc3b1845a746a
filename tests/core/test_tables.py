"""Reading single rows of a table."""

from pathlib import Path

import pyarrow as pa
import pytest

from almanac.core.tables import TableWriter, text_lengths
from almanac.schemas.errors import DamagedVersion


def test_lengths_are_in_characters_and_of_the_rows_that_were_asked_for(tmp_path: Path) -> None:
    """In whatever row groups they lie."""
    texts = ["", "a", "été", "🎉🎉", "x" * 70_000, "last"]
    schema = pa.schema([("text", pa.string())])
    with TableWriter(tmp_path / "t.parquet", schema) as writer:
        for part in (texts[:2], texts[2:5], texts[5:]):
            writer.write(pa.table({"text": part}, schema=schema))
    assert text_lengths(tmp_path / "t.parquet", range(6)) == {0: 0, 1: 1, 2: 3, 3: 2, 4: 70_000, 5: 4}
    assert text_lengths(tmp_path / "t.parquet", {5, 2}) == {2: 3, 5: 4}
    assert text_lengths(tmp_path / "t.parquet", []) == {}
    with pytest.raises(DamagedVersion):
        text_lengths(tmp_path / "none.parquet", [1])
