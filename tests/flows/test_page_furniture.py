"""Page furniture in runs: the same documents whether all pages or only some of them are read, one page more that
rewrites no other, a tally in the report.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.core.settings import DataDir
from tests.flows.test_shared_texts import Press, prose
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children

_PROMISE = "Whoever finds a mistake in the log of a lock may write to its keeper, and gets a reply."


def _page(name: str, *, menu: str = "Locks | Weirs | Harbours") -> str:
    """A page whose header and footer are paragraphs like any others."""
    own = f"<h2>Lock {name}</h2><p>{prose(name, 4)}</p><p>{prose(name * 2, 4)}</p>"
    blocks = f"<p>Waterways of the north</p><p>{menu}</p>{own}<p>{_PROMISE}</p>"
    return f"<html><head><title>{name}</title></head><body><div>{blocks}</div></body></html>"


@pytest.fixture
def press(tmp_path: Path) -> Iterator[Press]:
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
        patch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
        yield Press(tmp_path)


@pytest.mark.slow
def test_a_refresh_leaves_out_what_a_full_run_does_and_a_new_page_rewrites_no_other(press: Press) -> None:
    names = [f"n{number:02}" for number in range(9)]
    press.write(**{name: _page(name) for name in names})
    first = press.run()
    assert "page_furniture" not in first.sources[0].left_out
    assert all(text.startswith("Waterways of the north") for text in press.texts().values())

    press.write(n09=_page("n09"))  # ten pages tell
    tenth = press.run()
    bare = {f"{name}.html": f"## Lock {name}\n\n{prose(name, 4)}\n\n{prose(name * 2, 4)}" for name in [*names, "n09"]}
    texts = {
        **bare,
        "n00.html": f"Waterways of the north\n\nLocks | Weirs | Harbours\n\n{bare['n00.html']}\n\n{_PROMISE}",
    }
    assert press.texts() == texts
    gone = 9 * len(f"Waterways of the northLocks | Weirs | Harbours{_PROMISE}")
    assert tenth.sources[0].left_out["page_furniture"] == {"blocks": 27, "characters": gone}
    # the gaps beside these blocks
    assert tenth.sources[0].characters == sum(len(" ".join(text.split())) for text in texts.values()) + 27
    _is_that_of_a_full_run(press, "ten")

    press.write(n10=_page("n10"), n11=_page("n11", menu="Map of all locks"))
    more = press.run()
    assert (more.items.added, more.items.changed, more.items.unchanged) == (2, 0, 10)
    assert press.texts()["n11.html"].startswith("Map of all locks\n\n## Lock n11")
    _is_that_of_a_full_run(press, "twelve")

    press.write(n00=None, n10=None, n11=None)
    fewer = press.run()
    assert (fewer.items.changed, fewer.items.removed) == (9, 3)  # nine pages tell nothing
    _is_that_of_a_full_run(press, "nine")


def _is_that_of_a_full_run(press: Press, name: str) -> None:
    other = DataDir(press.folder / name)
    press.run(other)
    assert press.digest(other) == press.digest()
