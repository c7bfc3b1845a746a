"""A crawl's manners: its pace, second attempts, robots.txt, and settings without the unsafe defaults of Scrapy."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path

import pytest
from scrapy.http import Response
from scrapy.settings import Settings

from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.crawling.crawl_settings import settings_for
from almanac.spiders.crawling.throttle import RETRY_AFTER_MAX_S, retry_after_s
from tests.spiders.hosts import Serve, probe


@pytest.mark.slow
def test_crawl_delay_of_our_group_is_kept_on_loopback_too(serve: Serve, tmp_path: Path) -> None:
    slow, quick = serve("127.0.0.1"), serve("127.0.0.2")
    rules = b"\xef\xbb\xbfUser-agent: other\nCrawl-delay: 20\n\nUser-agent: almanac\nCrawl-delay: 0.4\n"
    slow.gives("/robots.txt", body=rules)
    for host in (slow, quick):
        for n in range(4):
            host.gives(f"/{n}")
    urls = [f"{host.base}/{n}" for n in range(4) for host in (slow, quick)]
    # as beyond loopback; it must not quicken the pace
    throttle = {"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 0.01, "AUTOTHROTTLE_START_DELAY": 0.01}
    probe(tmp_path, *urls, politeness={"user_agent": "almanac (+mailto:a@b.test)"}, settings=throttle)
    times = [request.at for request in slow.requests]
    # The first request may be late, for it has to connect; on a busy machine any other may, too, and then the next one
    # seems to follow it closely.
    assert (
        len(times) == 5
        and times[1] - times[0] >= 0.3
        and all(at - times[1] >= 0.37 * number for number, at in enumerate(times[1:]))
    )
    pages = [request.at for request in quick.requests]
    assert max(pages) - min(pages) < times[-1] - times[0]


@pytest.mark.slow
def test_retry_after_rests_the_host_and_no_other(serve: Serve, tmp_path: Path) -> None:
    busy, other = serve("127.0.0.1"), serve("127.0.0.2")
    busy.gives("/0", 429, 200, Retry_After="2")
    for n in range(1, 30):
        busy.gives(f"/{n}")
    for n in range(20):
        other.gives(f"/{n}")
    urls = [f"{busy.base}/0", *(f"{host.base}/{n}" for n in range(1, 20) for host in (busy, other))]
    done = probe(tmp_path, *urls, politeness={"robots": False, "per_domain": 2})
    assert all(page["status"] == 200 for page in done.pages.values())
    refused, again = busy.times("/0")
    assert again - refused >= 2.0
    during = [request for request in busy.requests if refused + 0.2 < request.at < refused + 1.9]
    assert during == [], "nothing else may be asked of a host that rests"
    assert max(request.at for request in other.requests) < refused + 1.5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("5", 5), (" 7 ", 7), ("0", 0), ("1.5", 1.5), ("100000", RETRY_AFTER_MAX_S), ("9" * 5000, RETRY_AFTER_MAX_S)],
        *[
            ("-3", 0),
            ("inf", RETRY_AFTER_MAX_S),
            ("nan", 0),
            ("soon", 0),
            ("", 0),
            ("1e9", RETRY_AFTER_MAX_S),
            ("٣", 0),
        ],
        *[("Wed, 99 Foo 2026 99:99:99 GMT", 0), ("Fri, 31 Dec 99999 23:59:59 GMT", 0)],
    ],
)
def test_retry_after_is_read_whatever_it_says(value: str, seconds: float) -> None:
    assert retry_after_s(Response("http://x.test/", headers={"Retry-After": value.encode()})) == seconds


def test_retry_after_as_a_date() -> None:
    now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    for ahead_s, waited_s in ((30, 30), (-30, 0), (3 * 3600, RETRY_AFTER_MAX_S)):
        moment = format_datetime(now + timedelta(seconds=ahead_s), usegmt=True)
        assert retry_after_s(Response("http://x.test/", headers={"Retry-After": moment}), now) == waited_s


@pytest.mark.slow
def test_only_what_may_go_better_is_tried_again(serve: Serve, tmp_path: Path) -> None:
    busy, broken = serve("127.0.0.1"), serve("127.0.0.2")
    again, final = (408, 500, 502, 504, 522, 524), (400, 401, 403, 404, 410, 501)
    for host, statuses in ((busy, (429, 503)), (broken, (*again, *final))):
        for status in statuses:
            host.gives(f"/{status}", status)
    urls = [host.base + path for host in (busy, broken) for path in host.answers]
    done = probe(tmp_path, *urls, politeness={"robots": False, "per_domain": 16})
    assert {page["status"] for page in done.pages.values()} == {429, 503, *again, *final}
    for times in [busy.times("/429"), busy.times("/503"), *(broken.times(f"/{status}") for status in again)]:
        assert len(times) == 3 and all(after - before >= 0.24 for before, after in pairwise(times))
    assert all(len(broken.times(f"/{status}")) == 1 for status in final)


@pytest.mark.slow
def test_lost_connections_are_tried_again(serve: Serve, tmp_path: Path) -> None:
    """Closed without an answer, and refused."""
    closing = serve()
    closing.answers["/x"] = [(0, {}, b""), (0, {}, b""), (200, {}, b"<p>page</p>")]
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    done = probe(tmp_path, f"{closing.base}/x", refused, politeness={"robots": False})
    assert done.pages[f"{closing.base}/x"]["status"] == 200
    assert all(after - before >= 0.24 for before, after in pairwise(closing.times("/x")))
    assert done.pages[refused]["reason"] == "DownloadConnectionRefusedError"


@pytest.mark.slow
def test_time_is_up_for_those_that_wait(serve: Serve, tmp_path: Path) -> None:
    """Neither a Crawl-delay nor a host that wants a long rest holds a crawl beyond its time."""
    slow, busy = serve("127.0.0.1"), serve("127.0.0.2")
    slow.gives("/robots.txt", body=b"User-agent: *\nCrawl-delay: 1e6")
    busy.gives("/robots.txt", 200, body=b"")
    busy.gives("/x", 503, Retry_After="86400")
    urls = [f"{slow.base}/{n}" for n in range(20)]
    done = probe(tmp_path, f"{busy.base}/x", *urls, limits={"seconds": 3})
    assert done.seconds < 60  # a hang, not a speed, is what this is about
    assert done.pages[f"{busy.base}/x"]["status"] == 503
    assert slow.paths() == ["/robots.txt"]
    assert all(page["reason"] is None for url, page in done.pages.items() if url.startswith(slow.base))


@pytest.mark.slow
def test_a_long_robots_txt_counts_up_to_500_kib(serve: Serve, tmp_path: Path) -> None:
    """Also where a page may not be so large, and however far it goes on."""
    host = serve()
    padding = b"# " + b"x" * 97 + b"\n"
    early, late = b"User-agent: *\nDisallow: /early\n", b"Disallow: /late\n"
    host.gives("/robots.txt", body=early + padding * 5_200 + late + padding * 300_000, Connection="close")
    for path in ("/early", "/late"):
        host.gives(path)
    done = probe(tmp_path, f"{host.base}/early", f"{host.base}/late", limits={"bytes_per_page": 1000})
    assert done.pages[f"{host.base}/early"]["detail"] == "Forbidden by robots.txt"
    assert done.pages[f"{host.base}/late"]["status"] == 200


@pytest.mark.slow
@pytest.mark.parametrize(("hops", "allowed"), [(5, False), (6, True)])
def test_robots_txt_is_followed_through_five_redirects(
    serve: Serve, tmp_path: Path, hops: int, *, allowed: bool
) -> None:
    host = serve()
    for hop in range(hops):
        host.gives("/robots.txt" if hop == 0 else f"/hop{hop}", 301, Location=f"/hop{hop + 1}")
    host.gives(f"/hop{hops}", body=b"User-agent: *\nDisallow: /")
    host.gives("/x")
    done = probe(tmp_path, f"{host.base}/x")
    assert ("status" in done.pages[f"{host.base}/x"]) is allowed


@pytest.mark.slow
def test_robots_txt_without_an_answer_allows_nothing(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    with socket.create_server(("127.0.0.2", 0)) as silent:  # takes connections and never answers
        url = f"http://127.0.0.2:{silent.getsockname()[1]}/"
        urls = [f"{url}{n}" for n in range(20)]
        done = probe(tmp_path, *urls, settings={"DOWNLOAD_TIMEOUT": 0.5, "RETRY_TIMES": 1})
    assert {page["reason"] for page in done.pages.values()} == {"timeout"}
    assert done.seconds < 20, "the pages of such a host are not tried one after the other"
    assert host.requests == []


def test_no_unsafe_default_of_scrapy_is_left() -> None:
    source = SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["https://shop.test/"]})
    settings = Settings()
    settings.setdict(settings_for(source), priority="project")
    for name in (
        "TELNETCONSOLE_ENABLED",
        "REMOTE_CONTROL_ENABLED",
        "COOKIES_ENABLED",
        "METAREFRESH_ENABLED",
        "HTTPPROXY_ENABLED",
        "ALLOW_PRIVATE",
    ):
        assert settings.getbool(name) is False, name
    for name in ("DOWNLOAD_VERIFY_CERTIFICATES", "ROBOTSTXT_OBEY", "AUTOTHROTTLE_ENABLED"):
        assert settings.getbool(name) is True, name
    handlers = {**settings["DOWNLOAD_HANDLERS_BASE"], **settings["DOWNLOAD_HANDLERS"]}
    assert {scheme for scheme, handler in handlers.items() if handler} == {"http", "https"}
    assert (settings.getint("DOWNLOAD_MAXSIZE"), settings.getfloat("DOWNLOAD_TIMEOUT")) == (16 << 20, 30)
    assert settings.getint("CLOSESPIDER_TIMEOUT") == 3600 and settings["JOBDIR"] is None
    assert settings["TWISTED_DNS_RESOLVER"] == "almanac.spiders.crawling.addresses.GuardedResolver"
    assert OSError not in settings["RETRY_EXCEPTIONS"]
