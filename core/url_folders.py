"""Counts of URLs by folder: what hundreds of lines with a URL each would say, in a few."""

from collections import Counter
from collections.abc import Collection
from urllib.parse import urlsplit

_DEEPEST = 4  # segments of a folder


def by_folder(urls: Collection[str], most: int) -> dict[str, int]:
    """Folder → number of URLs in it, the largest first; `most` folders at most, the last of which may be `…`, all
    others.

    A folder is the first segment of a path that has more of them, as `/tours/`, and more segments where all URLs share
    the first. Where hosts differ, the host stands before it.
    """
    split = [urlsplit(url) for url in urls]
    several = len({parts.netloc for parts in split}) > 1
    for depth in range(1, _DEEPEST + 1):
        folders = Counter((parts.netloc if several else "") + _folder(parts.path, depth) for parts in split)
        if len(folders) != 1:
            break
    ordered = sorted(folders.items(), key=lambda entry: (-entry[1], entry[0])) if split else []
    if len(ordered) <= most:
        return dict(ordered)
    return {**dict(ordered[: most - 1]), "…": sum(count for _, count in ordered[most - 1 :])}


def say_folders(folders: dict[str, int]) -> str:
    """`/tours/ 120, /news/ 7`; without the number where there is one folder."""
    return (
        next(iter(folders))
        if len(folders) == 1
        else ", ".join(f"{folder} {count:,}" for folder, count in folders.items())
    )


def _folder(path: str, depth: int) -> str:
    segments = [segment for segment in path.split("/")[:-1] if segment]
    return ("/" if path.startswith("/") or not segments else "") + "".join(
        f"{segment}/" for segment in segments[:depth]
    )
