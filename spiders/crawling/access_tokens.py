"""Downloader middleware that gives requests of an API a token of OAuth client credentials (RFC 6749, 4.4; RFC 6750).

The token lives in memory. A new one is fetched before it expires, and once for a request that the API answers with 401.
"""

import time
from urllib.parse import quote_plus

from scrapy.crawler import Crawler
from scrapy.http import FormRequest, Request, Response
from w3lib.http import basic_auth_header

from almanac.schemas.declaration.credentials import OAuth, masked
from almanac.schemas.errors import CredentialRefused, OperationalError
from almanac.spiders.crawling.entering import DECLARED, Entering
from almanac.spiders.crawling.middlewares import is_robots_txt, may_see_credentials
from almanac.spiders.crawling.requester_fingerprint import revealed

_EARLIER = 0.9  # of its time, after which a token is fetched anew
_SHOWN = 200
_LOOK_AT = "are the ${VARIABLES} in politeness.oauth the client's, and does it want `scope`, `form`, or `basic: no`?"


class Tokens(Entering):
    """Adds `Authorization: Bearer …` to requests for the source's own hosts. The crawl ends with CredentialRefused or
    Unreachable where there is no token; a page that a new one does not open has failed.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._token, self._number, self._until = "", 0, 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Tokens":
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if is_robots_txt(request) or "login" in request.meta:
            return
        if not may_see_credentials(self._spider.source, request.url):
            request.headers.pop("Authorization", None)
            return
        async with self._one_at_a_time:
            if request.meta.get("token") == self._number or time.monotonic() >= self._until:
                await self._fetch()
        request.headers["Authorization"] = f"Bearer {self._token}"
        request.meta["token_sent"] = self._number

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status != 401 or "token_sent" not in request.meta or "token" in request.meta:
            return response
        # `token` is the number of the one that was refused; another page may have fetched a newer one meanwhile
        return request.replace(meta={**request.meta, "token": request.meta["token_sent"]}, dont_filter=True)

    @property
    def _oauth(self) -> OAuth:
        oauth: OAuth = self._spider.source.politeness.oauth
        return oauth

    @property
    def _where(self) -> str:
        return f"source {self._spider.source.name}: politeness.oauth"

    async def _fetch(self) -> None:
        self._must_go_on()
        try:
            answer = await self._ask(_asking(self._oauth), dont_redirect=True)
            self._take(answer)
        except OperationalError as error:
            self._end(error)

    def _take(self, answer: Response) -> None:
        try:
            body = answer.json()  # type: ignore[attr-defined]  # of a text
        except (AttributeError, ValueError):
            body = None
        body = body if isinstance(body, dict) else {}
        token, lasts_s = body.get("access_token"), body.get("expires_in")
        if answer.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            words = (str(body[key]) for key in ("error", "error_description") if key in body)
            message = " ".join(masked(word, _secrets(self._oauth))[:_SHOWN] for word in words)
            finding = f"{self._oauth.token_url} answered {answer.status} and gives no token"
            raise CredentialRefused(f"{finding}{f': {message}' if message else ''}", where=self._where, hint=_LOOK_AT)
        self._token, self._number = token, self._number + 1
        lasts_s = lasts_s if isinstance(lasts_s, int | float) and lasts_s > 0 else float("inf")
        self._until = time.monotonic() + lasts_s * _EARLIER


def _secrets(oauth: OAuth) -> list[str]:
    return [secret.get_secret_value() for secret in (oauth.client_id, oauth.client_secret, *oauth.form.values())]


def _asking(oauth: OAuth) -> Request:
    form = {"grant_type": "client_credentials", **({"scope": oauth.scope} if oauth.scope else {})}
    form |= revealed(oauth.form)
    client, secret = oauth.client_id.get_secret_value(), oauth.client_secret.get_secret_value()
    headers = {"Accept": "application/json"}
    if oauth.basic:
        headers["Authorization"] = basic_auth_header(quote_plus(client), quote_plus(secret)).decode()
    else:
        form |= {"client_id": client, "client_secret": secret}
    return FormRequest(oauth.token_url, method="POST", formdata=form, headers=headers, meta=DECLARED)
