"""Pages per second: Almanac's crawl and mapping against a bare Scrapy spider that follows the same links and saves the
same pages.

    python -m benchmarks.crawl_cost [--pages 1000] [--rounds 3] [--url http://127.0.0.1:PORT/]

Both sides are whole processes, start-up included, over the same loopback server, turn by turn. Almanac's side does
more: it reads robots.txt, keeps a journal with validators, and has a clean record of every product page in a table.
Without `--url` the site is a shop of our own, made on the spot. Published are ratios and peaks of resident memory;
seconds are this machine's. What is printed is Markdown.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PER_LISTING = 20
_NAMES = {"bare": "bare Scrapy", "almanac": "crawl and mapping"}


def main() -> None:
    arguments = _arguments()
    if arguments.side:
        {"bare": _bare, "almanac": _almanac, "server": _serve}[arguments.side](arguments)
        return
    with _site(arguments) as url:
        rounds = [{side: _measured(side, url, arguments.match) for side in _NAMES} for _ in range(arguments.rounds)]
    _show(rounds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1000, help="product pages of the site that is made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", help="crawl what is served there already")
    parser.add_argument("--match", default="/product/", help="pages that yield records")
    parser.add_argument("--side", choices=("bare", "almanac", "server"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


@contextmanager
def _site(arguments: argparse.Namespace) -> Iterator[str]:
    """The URL to crawl; a server in a process of its own where none was named."""
    if arguments.url:
        yield arguments.url
        return
    command = [sys.executable, "-m", "benchmarks.crawl_cost", "--side", "server", "--pages", str(arguments.pages)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def _measured(side: str, url: str, match: str) -> dict[str, Any]:
    """Seconds, pages, records and peak memory of one side, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "benchmarks.crawl_cost",
            "--side",
            side,
            "--url",
            url,
            "--match",
            match,
            "--out",
            folder,
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return {"seconds": time.perf_counter() - start, **json.loads(done.stdout.splitlines()[-1])}


def _report(pages: int, records: int) -> None:
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    sys.stdout.write(json.dumps({"pages": pages, "records": records, "mib": peak / 1024}) + "\n")


def _bare(arguments: argparse.Namespace) -> None:
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor

    class Bare(scrapy.Spider):
        name = "bare"
        saved = 0

        def parse(self, response: Any) -> Iterator[Any]:
            Bare.saved += 1
            (arguments.out / f"{Bare.saved}.html").write_bytes(response.body)
            for link in LinkExtractor().extract_links(response):
                yield scrapy.Request(link.url)

    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "ROBOTSTXT_OBEY": False,
        }
    )
    process.crawl(Bare, start_urls=[arguments.url])
    process.start()
    _report(Bare.saved, 0)


def _almanac(arguments: argparse.Namespace) -> None:

    from almanac.schemas.declaration import Declaration
    from almanac.spiders.crawling.crawl_start import start_ahead

    start_ahead()
    from almanac.core.settings import DataDir
    from almanac.flows.pipeline.acquire import acquire
    from almanac.flows.pipeline.run import Run

    fields = {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".price, p", "pattern": r"([$£€]\s?[\d.,]+)", "type": "price"},
        "breadcrumbs": {"css": ".breadcrumb-item, nav a", "many": True},
    }
    manners, limits = {"allow_private": True, "per_domain": 16}, {"depth": 100_000, "pages": 1_000_000}
    shop = {
        "name": "shop",
        "kind": "site",
        "start_urls": [arguments.url],
        "match": arguments.match,
        "yields": "records",
    }
    declared = Declaration.model_validate(
        {"name": "shop", "sources": [{**shop, "fields": fields, "politeness": manners, "limits": limits}]}
    )
    run = Run(declared, DataDir(arguments.out))
    pages = acquire(run, declared.sources[0], None)
    from almanac.flows.pipeline.batches import do_all
    from almanac.flows.pipeline.map import map_pages
    from almanac.flows.pipeline.page_batches import is_worth_sharing, map_batch, stage_pages

    batches = stage_pages(run, (pages,)) if is_worth_sharing(run, (pages,)) else None
    do_all(map_batch, run, batches)
    _report(pages.counts.fetched, map_pages(run, (pages,), batches=batches).extracted)


def _serve(arguments: argparse.Namespace) -> None:
    """A shop: listings of 20 products with a link to the next one, and product pages of some 4 KiB."""
    pages = _shop(arguments.pages)

    class Shop(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # head and body in one packet: where the head goes first, the body waits 40 ms for the client's acknowledgement
        wbufsize = -1

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            body = pages.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/\n")
    sys.stdout.flush()
    server.serve_forever()


def _shop(products: int) -> dict[str, bytes]:
    filler = "<p>A plain sentence about how this thing is made, shipped and looked after.</p>" * 40
    pages = {}
    for first in range(0, products, _PER_LISTING):
        links = "".join(
            f"<li><a href='/product/{n}'>Product {n}</a></li>"
            for n in range(first, min(first + _PER_LISTING, products))
        )
        following = (
            f"<a class='next' href='/list/{first + _PER_LISTING}'>next</a>" if first + _PER_LISTING < products else ""
        )
        path = f"/list/{first}" if first else "/"
        pages[path] = f"<html><body><ul>{links}</ul>{following}</body></html>".encode()
    for n in range(products):
        head = (
            f"<nav><a href='/'>Home</a> <a href='/list/{n // _PER_LISTING * _PER_LISTING}'>All</a></nav><h1>"
            f"Product {n}</h1>"
        )
        pages[f"/product/{n}"] = f"<html><body>{head}<div class='price'>£{n}.99</div>{filler}</body></html>".encode()
    return pages


def _show(rounds: list[dict[str, dict[str, Any]]]) -> None:
    from benchmarks.index import machine  # not above: this file is what is measured, too

    lines = [
        "| side | pages | records | seconds (median) | pages/s | peak MiB | of bare Scrapy |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for side in _NAMES:
        seconds = statistics.median(figures[side]["seconds"] for figures in rounds)
        ratio = statistics.median(figures[side]["seconds"] / figures["bare"]["seconds"] for figures in rounds)
        last = rounds[-1][side]
        peak = max(figures[side]["mib"] for figures in rounds)
        lines.append(
            f"| {_NAMES[side]} | {last['pages']:,} | {last['records']:,} | {seconds:.1f} | "
            f"{last['pages'] / seconds:.0f} | {peak:.0f} | {ratio:.2f} |"
        )
    sys.stdout.write("\n".join([*lines, "", f"{machine()}."]) + "\n")


if __name__ == "__main__":
    main()
