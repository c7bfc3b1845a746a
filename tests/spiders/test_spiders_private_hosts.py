"""Private addresses, however they are spelled or reached: what a crawl does not connect to."""

import socket
from pathlib import Path

import pytest

from almanac.schemas.declaration.private_hosts import private_host, private_kind
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import DeclarationError, NoRecords
from almanac.spiders.crawling.crawl import crawl_site
from almanac.spiders.store.raw import RawStore
from tests.spiders.hosts import Serve, probe


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.1.2", "loopback"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "private"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("198.18.0.1", "private"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "private"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("::127.0.0.1", "reserved"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::1", "reserved"),
        ("2002:7f00:1::", "loopback"),
        ("2002:c0a8:101::1", "private"),
        ("2001:db8::1", "private"),
        ("3fff::", "private"),
        ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "private"),
        ("3fff:1000::1", None),
        ("93.184.216.34", None),
        ("100.63.255.255", None),
        ("172.32.0.1", None),
        ("2606:4700::1111", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::808:808", None),
        ("2002:808:808::1", None),
    ],
)
def test_every_form_of_address_is_told(address: str, kind: str | None) -> None:
    assert private_kind(address) == kind


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "shop.localhost",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "10.0.0.1",
    ],
)
def test_odd_spellings_of_private_hosts_are_read(host: str) -> None:
    assert private_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "localhost.example.org",
        "mylocalhost",
        "8.8.8.8",
        "[2606:4700::1111]",
        "10.example.org",
        "1e100.net",
        "",
    ],
)
def test_public_hosts_are_left_to_the_resolver(host: str) -> None:
    assert private_host(host) is None


@pytest.mark.parametrize("key", ["start_urls", "sitemaps"])
def test_declared_private_host_ends_a_run_before_its_first_request_and_says_the_way_out(
    tmp_path: Path, key: str
) -> None:
    source = {"name": "s", "kind": "site", key: ["https://example.org/", "http://127.1:8000/"]}
    with pytest.raises(DeclarationError) as caught:
        crawl_site(SiteSource.model_validate(source), RawStore(tmp_path), "r1")
    assert caught.value.message == (
        f"{key}[1]: 127.1 is 127.0.0.1, a loopback address; declare politeness: {{allow_private: true}} to "
        "fetch from it"
    )
    assert SiteSource.model_validate({**source, "politeness": {"allow_private": True}}).private_start is None


@pytest.mark.slow
def test_what_is_connected_to_is_what_was_checked(serve: Serve, tmp_path: Path) -> None:
    """A name that resolves to this machine, and every spelling of its addresses: not one connection is opened, nothing
    is retried.
    """
    host = serve()
    port = host.base.rpartition(":")[2]
    names = [
        socket.gethostname(),
        "localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ]
    urls = [f"http://{name}:{port}/" for name in names]
    done = probe(tmp_path, *urls, politeness={"allow_private": False})
    assert {url: page["reason"] for url, page in done.pages.items()} == dict.fromkeys(urls, "private_address")
    assert done.pages[urls[0]]["detail"].endswith(
        ", a loopback address; declare politeness: {allow_private: true} to fetch from it"
    )
    assert host.connections == 0


@pytest.mark.slow
def test_a_name_that_leads_inside_ends_as_refused_in_the_books(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    url = host.base.replace("127.0.0.1", socket.gethostname())
    source = SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": [f"{url}/"]})
    with pytest.raises(NoRecords, match=r"private_address.*allow_private: true"):
        crawl_site(source, RawStore(tmp_path), "r1")
    assert host.connections == 0


@pytest.mark.slow
def test_redirects_and_robots_txt_lead_to_no_private_address(serve: Serve, tmp_path: Path) -> None:
    inside, outside = serve("127.0.0.2"), serve("127.0.0.1")
    port = inside.base.rpartition(":")[2]
    outside.gives("/robots.txt", 302, Location=f"http://127.0.0.2:{port}/robots.txt")
    targets = {
        f"/{n}": f"http://{name}:{port}/x"
        for n, name in enumerate(["127.0.0.2", "127.2", "0x7f000002", "2130706434", "[::ffff:127.0.0.2]"])
    }
    for path, target in targets.items():
        outside.gives(path, 302, Location=target)
    domains = ["127.0.0.1", "127.0.0.2", "127.2", "0x7f000002", "2130706434", "::ffff:127.0.0.2"]
    done = probe(
        tmp_path,
        *(outside.base + path for path in targets),
        public=("127.0.0.1",),
        allowed_domains=domains,
        politeness={"allow_private": False, "delay_s": 0},
    )
    assert {page["reason"] for page in done.pages.values()} == {"private_address"}
    assert inside.connections == 0
    assert outside.paths().count("/robots.txt") == 1


@pytest.mark.slow
def test_a_proxy_of_the_environment_is_no_way_around(serve: Serve, tmp_path: Path) -> None:
    """A proxy looks names up and connects by itself, so that nothing could be checked: it is not asked."""
    site, proxy = serve("127.0.0.2"), serve()
    site.gives("/x")
    manners = {"allow_private": False, "delay_s": 0}
    done = probe(
        tmp_path,
        f"{site.base}/x",
        public=("127.0.0.2",),
        politeness=manners,
        env={"http_proxy": proxy.base, "no_proxy": ""},
    )
    assert done.pages[f"{site.base}/x"]["status"] == 200
    assert proxy.connections == 0
