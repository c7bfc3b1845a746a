"""What is read of the environment."""

import pytest

from almanac.core.settings import cache_bytes
from almanac.schemas.errors import UsageError


def test_the_bound_of_the_cache_is_a_number_of_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALMANAC_CACHE_GB", raising=False)
    assert cache_bytes() == 50_000_000_000
    for text, size in ((" ", 50_000_000_000), ("0", 0), ("0.5", 500_000_000), ("1e-6", 1000)):
        monkeypatch.setenv("ALMANAC_CACHE_GB", text)
        assert cache_bytes() == size
    for text in ("50 GB", "-1", "nan", "inf"):
        monkeypatch.setenv("ALMANAC_CACHE_GB", text)
        with pytest.raises(UsageError, match="must be a number of gigabytes"):
            cache_bytes()
