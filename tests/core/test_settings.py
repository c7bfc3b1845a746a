"""What is read of the environment."""

from pathlib import Path

import pytest

from almanac.core.settings import DataDir, cache_bytes
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


@pytest.mark.parametrize(
    "place",
    [
        "s3://",
        "s3:///",
        "s3:/bucket/prefix",
        Path("s3://bucket/prefix"),
        "S3://bucket/prefix",
        "gs://bucket",
        "file:///srv/data",
    ],
)
def test_what_looks_like_an_address_is_no_folder(place: str | Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="neither a folder nor an object store"):
        DataDir.locate(place)
    monkeypatch.setenv("ALMANAC_DATA", str(place))
    with pytest.raises(UsageError, match="neither a folder nor an object store"):
        DataDir.locate()


def test_a_bucket_with_or_without_a_prefix_is_a_store_and_a_path_with_a_colon_a_folder(tmp_path: Path) -> None:
    assert DataDir.locate("s3://bucket/").url == "s3://bucket"
    assert DataDir.locate("s3://bucket/prefix//").url == "s3://bucket/prefix"
    assert DataDir.locate(tmp_path / "s3:" / "x").root == tmp_path / "s3:" / "x"
    assert DataDir.locate("./s3:/x").url == ""
