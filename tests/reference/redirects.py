"""adv_redirects: every kind of redirect ends, is accounted for, and one page under several URLs is one document."""

from collections.abc import Iterator

from tests.reference.figures import Figure, equal
from tests.reference.journey import served, travel

# What the site's own manifest makes of its index: where a redirect ends, and which end nowhere.
_STORED = {
    "/",
    "/rel/end",
    "/meta-loop",
    "/final",
    "/canonical-1",
    "/canonical-2",
    "/frag",
    "/dup",
    "/dup/",
    "/q?a=1&b=2",
    "/q?b=2&a=1",
}
# thirty hops are more than the twenty that are followed
_NOT_STORED = {"/loop-a", "/self", "/to-other-host", "/chain/0"}
_TEXTS = {"final page text", "same canonical content", "meta refresh to itself"}


def adv_redirects() -> Iterator[Figure]:
    with served("adv_redirects") as site:
        content = travel("adv_redirects", SITE=site)["pages"]
    stored = {url.removeprefix(site) for url in content.stored}
    failed = {failure.url.removeprefix(site): failure.reason for failure in content.outcome.failures}
    yield equal("pages stored", dict.fromkeys(stored, True), dict.fromkeys(_STORED, True))
    yield Figure("nothing else stored", int(stored <= _STORED), 1, sorted(stored - _STORED))
    yield Figure(
        "what ends nowhere is told",
        len(_NOT_STORED & failed.keys()),
        len(_NOT_STORED),
        [f"{url}: {why}" for url, why in failed.items()],
    )
    texts = {text for item in content.distinct_items for text in _TEXTS if text in item.text}
    yield equal("texts", dict.fromkeys(texts, True), dict.fromkeys(_TEXTS, True))
    final = [item.url.removeprefix(site) for item in content.distinct_items if "final page text" in item.text]
    yield Figure("one document for one text", int(len(final) == 1), 1, final)
    canonical = [
        item.url.removeprefix(site) for item in content.distinct_items if "same canonical content" in item.text
    ]
    yield Figure("the canonical URL is kept", int(canonical == ["/canonical-1"]), 1, canonical)
