"""Metrics for Prometheus, and the outermost middleware, which counts requests, adds security headers and handles
defects.
"""

import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from almanac.core.clock import age_of
from almanac.core.lifetime import process_start
from almanac.core.logs import get_logger
from almanac.core.store.readers import StoreState
from almanac.schemas.results import Answer
from almanac.serve.problem_details import ProblemDetails

_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE")
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
_log = get_logger("almanac.serve")


class Metrics:
    """Metrics of one server, in a registry of its own. `text` gives them in the format of Prometheus.

    Where several processes serve, each counts into files of the folder `shared`, and each tells the sums of all.
    """

    def __init__(
        self,
        live_versions: Callable[[], dict[str, str]],
        stores: Callable[[], dict[str, StoreState]],
        shared: Path | None = None,
    ) -> None:
        self.registry, self._shared = CollectorRegistry(), shared
        self.requests = Counter("almanac_requests", "Requests.", ["route", "method", "status"], registry=self.registry)
        self.seconds = Histogram(
            "almanac_request_seconds",
            "Seconds until a response was complete.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.answers = Counter(
            "almanac_answers", "Answers to questions.", ["kb", "pathway", "answered"], registry=self.registry
        )
        self.in_flight = Gauge(
            "almanac_requests_in_flight",
            "Requests that wait or are worked on.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._looked_up = (_LiveVersions(live_versions), _Stores(stores))
        for collector in self._looked_up:
            self.registry.register(collector)

    def count_answer(self, answer: Answer) -> None:
        self.answers.labels(answer.kb, answer.pathway, str(answer.answered).lower()).inc()

    def text(self) -> bytes:
        if self._shared is None:
            return generate_latest(self.registry)
        for file in self._shared.glob("gauge_live*_*.db"):  # of a worker that died: what it was at, it is no more
            if process_start(pid := int(file.stem.rpartition("_")[2])) is None:
                mark_process_dead(pid, str(self._shared))  # type: ignore[no-untyped-call]
        summed = CollectorRegistry()
        MultiProcessCollector(summed, str(self._shared))  # type: ignore[no-untyped-call]
        for collector in self._looked_up:
            summed.register(collector)
        return generate_latest(summed)


class _LiveVersions(Collector):
    def __init__(self, live_versions: Callable[[], dict[str, str]]) -> None:
        self._live_versions = live_versions

    def collect(self) -> Iterator[Metric]:
        family = InfoMetricFamily(
            "almanac_live_version", "The version of each knowledge base that is live.", labels=["kb"]
        )
        for kb, version in self._live_versions().items():
            family.add_metric([kb], {"version": version})
        yield family


class _Stores(Collector):
    """Of knowledge bases in an object store: for how long it has been away, and what is published there and not
    answered from yet.
    """

    def __init__(self, stores: Callable[[], dict[str, StoreState]]) -> None:
        self._stores = stores

    def collect(self) -> Iterator[Metric]:
        away = GaugeMetricFamily(
            "almanac_store_away_seconds",
            "Seconds since the object store answered last; 0 while it answers.",
            labels=["kb"],
        )
        behind = InfoMetricFamily(
            "almanac_version_behind",
            "A version that is published in the object store and not answered from yet.",
            labels=["kb"],
        )
        for kb, state in self._stores().items():
            age = age_of(state.away_since) if state.away_since else None
            away.add_metric([kb], age.total_seconds() if age else 0.0)
            if state.behind:
                behind.add_metric([kb], {"version": state.behind})
        yield away
        yield behind


class Observed:
    """Outermost middleware: counts and times requests, sets default security headers, and responds with 500 to
    unhandled exceptions.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, sent = time.perf_counter(), {"status": 0}

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception:
            if sent["status"]:
                raise  # the response has begun, so the connection has to be aborted; uvicorn logs the error
            # excludes the values of variables, which include API keys
            _log.error("defect", route=route_of(scope), trace=traceback.format_exc())
            problem = ProblemDetails(500, "a defect of the server; its log has more", kind="defect")
            await problem.response(scope)(scope, receive, send_on)
        finally:
            self._count(scope, sent["status"], time.perf_counter() - begun)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route, method = route_of(scope), scope["method"] if scope["method"] in _METHODS else "other"
        # 499: the client closed the connection before a response
        self._metrics.requests.labels(route, method, str(status or 499)).inc()
        self._metrics.seconds.labels(route).observe(seconds)


def route_of(scope: Scope) -> str:
    """Path template of the matched route, `page` or `none`: label values stay few, whatever paths are requested."""
    route: Any = scope.get("route")
    if scope["path"] == "/" or scope["path"].startswith("/static/"):
        return "page"
    return str(getattr(route, "path", "none"))
