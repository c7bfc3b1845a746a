"""Scrapy settings: every default that is not safe is set here, and what a source declares is put on top.

The names in capitals are the project's settings (`scrapy.cfg` points here), so `python -m scrapy shell` has them too.
"""

from typing import Any

from almanac.schemas.declaration.source import SiteSource
from almanac.spiders.selecting.urls import is_loopback

BOT_NAME = "almanac"
USER_AGENT = "almanac"
LOG_LEVEL = "WARNING"
LOG_ENABLED = True
STATS_DUMP = False

# Doors that Scrapy opens by itself.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
DOWNLOAD_HANDLERS = {"file": None, "ftp": None, "s3": None, "data": None}
DOWNLOAD_VERIFY_CERTIFICATES = True
TWISTED_DNS_RESOLVER = "almanac.spiders.crawling.addresses.GuardedResolver"
ALLOW_PRIVATE = False  # read by the resolver
HTTPPROXY_ENABLED = False  # a proxy looks names up itself: where it connects to, nobody here could check

# What one answer may cost.
DOWNLOAD_TIMEOUT = 30
DOWNLOAD_MAXSIZE = 16 << 20
DOWNLOAD_WARNSIZE = 0

DOWNLOADER = "almanac.spiders.crawling.downloader.Downloader"
ROBOTSTXT_OBEY = True
ROBOTSTXT_PARSER = "scrapy.robotstxt.ProtegoRobotParser"
COOKIES_ENABLED = False
CONCURRENT_ITEMS = 1  # there are none; the default makes 100 tasks for each answer
REFERRER_POLICY = "no-referrer"  # requests leave from one queue; the page that is answered just then led to none of them
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
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"  # given-up pages are in the outcome, with their reasons
REDIRECT_MAX_TIMES = 20
METAREFRESH_ENABLED = False  # such a page is stored, and its target is a link
HTTPERROR_ALLOW_ALL = True

# The spider has a queue of its own, which filters, limits and counts. A request that one of these dropped in silence would
# be missing from its books.
DUPEFILTER_CLASS = "scrapy.dupefilters.BaseDupeFilter"
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
    "almanac.spiders.crawling.middlewares.DeclaredRedirects": 600,
    # Last before the downloader: what waited on the way here (for robots.txt, for its next attempt) may have waited too long.
    "almanac.spiders.crawling.throttle.HostThrottle": 980,
    "almanac.spiders.crawling.addresses.PrivateAddresses": 990,
}


def settings_for(source: SiteSource) -> dict[str, Any]:
    """The settings of one source's crawl."""
    manners, limits = source.politeness, source.limits
    is_local = all(is_loopback(domain) for domain in source.domains)
    delay_s = 0.0 if is_local else manners.delay_s
    per_domain = manners.per_domain or (16 if is_local else 8)
    return {name: value for name, value in globals().items() if name.isupper()} | {
        "USER_AGENT": manners.user_agent,
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
