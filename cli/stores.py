"""Commands whose data directory lies in an object store: each gets a working copy on local disk, and what it writes
there is pushed.

`run`, `search`, `ask`, `eval`, `status`, `serve`, `mcp` and `server` are not here: what they call knows of stores
itself.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from almanac.cli.output import say
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.store.working_copy import AREAS

_BUILT = ("vectors", "processed", "index")
_WRITES: dict[str, tuple[str, ...]] = {
    "publish": ("index",),
    "rollback": ("index",),
    "rebuild": _BUILT,
    "compact": _BUILT,
    "prune": AREAS,
    "forget": AREAS,
}
_READS: dict[str, Callable[[dict[str, Any]], tuple[list[str | None], tuple[str, ...]]]] = {  # versions and areas
    "plan": lambda _: ([None], AREAS),
    "diff": lambda given: ([given["since"], given["to"]], ()),
    "verify": lambda given: ([given["version"]], ("vectors",)),
    "promote": lambda given: ([given["version"]], ("vectors",)),
    "export": lambda given: ([given["version"]], ("vectors",) if given["what"] == "vectors" else ()),
}
# which compare first what the cache has of the versions with the store: they read most of it anyway
_COMPARES = {"diff", "verify", "promote", "export"}


def on_store(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a command that works on a working copy where its data lie in a store."""
    if name not in {"versions", *_WRITES, *_READS}:
        return command

    @wraps(command)
    def run_on_copy(**given: Any) -> Any:
        data = DataDir.locate(given["data"])
        target = DataDir.locate(given["to"]) if name == "promote" else None
        if not data.url and not (target and target.url):
            return command(**given)
        from almanac.core.store.session import fetch, listing, require_known, writing

        kb = load_declaration(given["kb"], given["env"], to_read=True).name
        session = None
        if name in _WRITES:
            require_known(data, None if given.get("anyway") else kb)
        with ExitStack() as held:
            if name == "versions":
                data = held.enter_context(listing(data, kb))
            elif name in _READS:
                fetch(data, kb, *_READS[name](given), are_compared=name in _COMPARES)
            else:
                session = held.enter_context(writing(data, kb, name, _WRITES[name], erases=name == "forget"))
            if target is not None:
                held.enter_context(writing(target, kb, name, _BUILT))
                given["to"] = str(target.for_kb(kb).root)
            result = command(**{**given, "data": str(data.for_kb(kb).root)})
            if name == "prune" and session is not None:
                session.push()
                session.remove_unneeded()
        if session is not None and session.swept is not None and not given.get("as_json"):
            say(
                f"removed from {data.url}: {session.swept.objects:,} objects that nothing needs any more, "
                f"{session.swept.bytes:,} bytes"
            )
        return result

    return run_on_copy
