"""Trees: equal folders are one object, and large ones are divided."""

from hypothesis import given
from hypothesis import strategies as st

from almanac.core.store.trees import File, Folder, objects_below, read_folder, write_folder
from almanac.schemas.hashing import sha256

_NAMES = st.sets(st.text(min_size=1, max_size=8), max_size=20)


def _folder(count: int, changed: int = -1) -> Folder:
    return Folder(files={f"{n}.gz": File(sha256(f"{n} {n == changed}"), n) for n in range(count)})


@given(_NAMES, _NAMES)
def test_a_folder_comes_back_as_it_was(files: set[str], folders: set[str]) -> None:
    folder, written = (
        Folder({name: File(sha256(name), len(name)) for name in files}, {name: sha256(name) for name in folders}),
        dict[str, bytes](),
    )
    assert read_folder(write_folder(folder, written.__setitem__), written.__getitem__) == folder


def test_a_change_in_a_large_folder_rewrites_little() -> None:
    before, after = dict[str, bytes](), dict[str, bytes]()
    first, second = (
        write_folder(_folder(30_000), before.__setitem__),
        write_folder(_folder(30_000, 7), after.__setitem__),
    )
    assert read_folder(second, after.__getitem__) == _folder(30_000, 7)
    assert first != second
    assert len(after.keys() - before.keys()) == 2
    assert max(map(len, after.values())) < 200_000


def test_all_that_a_tree_needs_is_found() -> None:
    written = dict[str, bytes]()
    inner = write_folder(_folder(2_000), written.__setitem__)
    root = write_folder(Folder(folders={"a": inner, "b": inner}), written.__setitem__)
    found: set[str] = set()
    objects_below(root, written.__getitem__, found)
    assert found == written.keys() | {file.sha256 for file in _folder(2_000).files.values()}
