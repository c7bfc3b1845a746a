"""Scrapy settings: safe values for every default that is not, and those that follow from a source's declaration.

The names in capitals are the project's settings (`scrapy.cfg` points here), so `python -m scrapy shell` uses them too.
"""

from typing import Any

from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.selecting.urls import is_loopback

BOT_NAME = "almanac"
USER_AGENT = "almanac"
LOG_LEVEL = "WARNING"
LOG_ENABLED = True
STATS_DUMP = False

# Services and download schemes that Scrapy enables by default.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
DOWNLOAD_HANDLERS = {
    **dict.fromkeys(("http", "https"), "almanac.spiders.crawling.as_sent.AsSent"),
    **dict.fromkeys(("file", "ftp", "s3", "data")),
}
DOWNLOAD_FAIL_ON_DATALOSS = True
DOWNLOAD_VERIFY_CERTIFICATES = True
TWISTED_DNS_RESOLVER = "almanac.spiders.crawling.addresses.GuardedResolver"
ALLOW_PRIVATE = False  # read by the resolver
HTTPPROXY_ENABLED = False  # a proxy resolves names itself, beyond the reach of GuardedResolver

ACCEPTED = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

# Limits of one response.
DOWNLOAD_TIMEOUT = 30
DOWNLOAD_MAXSIZE = 16 << 20
DOWNLOAD_WARNSIZE = 0

DOWNLOADER = "almanac.spiders.crawling.downloader.Downloader"
ROBOTSTXT_OBEY = True
ROBOTSTXT_PARSER = "scrapy.robotstxt.ProtegoRobotParser"
COOKIES_ENABLED = False
CONCURRENT_ITEMS = 1  # the spider yields no items; the default creates 100 tasks per response
# Scrapy reads the source of callbacks again and again, to warn of what ours do not do
WARN_ON_GENERATOR_RETURN_VALUE = False
# all requests come from one queue, so the response being processed is not their referrer
REFERRER_POLICY = "no-referrer"
RETRY_ENABLED = True
RETRY_TIMES = 2
RETRY_HTTP_CODES = [500, 502, 503, 504, 522, 524, 408, 429]
RETRY_EXCEPTIONS = [
    "scrapy.exceptions.CannotResolveHostError",
    "scrapy.exceptions.DownloadConnectionRefusedError",
    "scrapy.exceptions.DownloadFailedError",
    "scrapy.exceptions.DownloadTimeoutError",
    "scrapy.exceptions.ResponseDataLossError",
    "twisted.internet.error.ConnectError",
    "twisted.internet.error.ConnectionDone",
    "twisted.internet.error.ConnectionLost",
    "scrapy.core.downloader.handlers.http11.TunnelError",
]
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"  # failed pages are in the outcome, with their reasons
REDIRECT_MAX_TIMES = 20
METAREFRESH_ENABLED = False  # such a page is stored, and its target is followed as a link
HTTPERROR_ALLOW_ALL = True

# The frontier filters, limits and counts requests. One dropped silently by these components would be missing from its
# counts.
SPIDER_MIDDLEWARES = {
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "almanac.spiders.crawling.stored.StoredPages": 50,
    "almanac.spiders.crawling.middlewares.StrictRobots": 100,
    "almanac.spiders.crawling.middlewares.Credentials": 350,
    "almanac.spiders.crawling.throttle.PatientRetry": 550,
    "almanac.spiders.crawling.middlewares.SecretsInBodies": 580,
    # before Scrapy's HttpCompressionMiddleware (590) decodes, and retries look at the answer
    "almanac.spiders.crawling.whole_bodies.WholeEncodings": 595,
    "almanac.spiders.crawling.middlewares.DeclaredRedirects": 600,
    # Last before the downloader: a request may have waited too long for robots.txt or its next attempt.
    "almanac.spiders.crawling.throttle.HostThrottle": 980,
    "almanac.spiders.crawling.addresses.PrivateAddresses": 990,
}


def settings_for(source: SiteSource) -> dict[str, Any]:
    """The Scrapy settings for the crawl of a source."""
    manners, limits = source.politeness, source.limits
    # the last to see a page before the spider but StrictRobots
    drawn = {"almanac.spiders.crawling.drawn_pages.DrawnPages": 520} if source.render else {}
    logging_in = {"almanac.spiders.crawling.logging_in.LoggingIn": 340} if source.login else {}
    tokens = {"almanac.spiders.crawling.access_tokens.Tokens": 345} if manners.oauth else {}
    is_local = all(is_loopback(domain) for domain in source.domains)
    delay_s = 0.0 if is_local else manners.delay_s
    per_domain = manners.per_domain or (16 if is_local else 8)
    return {name: value for name, value in globals().items() if name.isupper()} | {
        "DOWNLOADER_MIDDLEWARES": DOWNLOADER_MIDDLEWARES | drawn | logging_in | tokens,
        "COOKIES_ENABLED": source.keeps_cookies,
        "USER_AGENT": manners.user_agent,
        "DEFAULT_REQUEST_HEADERS": ACCEPTED
        | ({"Accept-Language": source.accept_language} if source.accept_language else {}),
        "ROBOTSTXT_OBEY": manners.robots,
        "CONCURRENT_REQUESTS": max(16, per_domain),
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_domain,
        "DOWNLOAD_DELAY": delay_s,
        "AUTOTHROTTLE_ENABLED": delay_s > 0,
        "AUTOTHROTTLE_START_DELAY": delay_s,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": float(per_domain),
        "DOWNLOAD_MAXSIZE": limits.bytes_per_page,
        "CLOSESPIDER_TIMEOUT": limits.seconds,
        "ALLOW_PRIVATE": manners.allow_private,
        "HTTPPROXY_ENABLED": manners.allow_private and not is_local,
    }
