"""URLs are counted by the folder that tells them apart, in a few lines."""

import pytest

from almanac.core.url_folders import by_folder, say_folders


@pytest.mark.parametrize(
    ("urls", "folders"),
    [
        ([], {}),
        (["http://a.test", "http://a.test/"], {"/": 2}),
        (
            [
                "http://a.test/tours/1",
                "http://a.test/tours/2?x=/y/",
                "http://a.test/about",
                "http://a.test/?p=/deep/er",
            ],
            {"/": 2, "/tours/": 2},
        ),
        # all in one: what is in it
        (["http://a.test/en/docs/a/1", "http://a.test/en/docs/b/1"], {"/en/docs/a/": 1, "/en/docs/b/": 1}),
        (["http://a.test/docs/1", "http://a.test/docs/2"], {"/docs/": 2}),
        (["http://a.test/x/1", "http://b.test/x/1"], {"a.test/x/": 1, "b.test/x/": 1}),
        (["notes/a.md", "b.md"], {"/": 1, "notes/": 1}),  # files
        ([f"http://a.test/{n}/x" for n in (1, 1, 2, 2, 3, 4, 5)], {"/1/": 2, "/2/": 2, "…": 3}),
    ],
)
def test_urls_are_counted_by_folder(urls: list[str], folders: dict[str, int]) -> None:
    assert by_folder(urls, 3) == folders
    assert sum(folders.values()) == len(urls)


def test_folders_are_told_in_a_line() -> None:
    assert say_folders({"/tours/": 1200, "…": 3}) == "/tours/ 1,200, … 3"
    assert (say_folders({"/tours/": 12}), say_folders({})) == ("/tours/", "")
