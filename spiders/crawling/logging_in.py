"""Downloader middleware that logs a crawl in before its first page, and anew where a page shows that the session has
ended.

A session is one of Scrapy's cookie jars, by its number; it lives in memory, and ends with the crawl.
"""

from lxml.html import FormElement
from scrapy.crawler import Crawler
from scrapy.http import FormRequest, HtmlResponse, Request, Response

from almanac.schemas.declaration.login import Login
from almanac.schemas.errors import CredentialRefused, OperationalError
from almanac.schemas.items import Page
from almanac.spiders.crawling.entering import DECLARED, Entering
from almanac.spiders.crawling.frontier import Waiting
from almanac.spiders.crawling.middlewares import is_robots_txt, may_see_credentials, sends_to_login
from almanac.spiders.crawling.problems import ARRIVED, document_of, header
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.meta_refresh import forwards_to
from almanac.spiders.selecting.embedded import find

_FORBIDDEN = frozenset({401, 403})
_IN_VAIN = 3  # logins in a row, after which a page that need not show it is taken as it is
_SUBMITS = ".//input[@type='submit' or @type='image'] | .//button[not(@type) or @type='submit']"
_OF_ANOTHER_TRY = ("redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons", "retry_times", "rendered")
_LOOK_AT_VARIABLES = (
    "log in with a browser by the same user and password (${VARIABLES} in login.form are read from the environment): "
    "is a code or a captcha asked for, and is the element of login.check on the page that comes?"
)
_LOOK_AT_PAGE = (
    "open it in a browser as that user: is the element of login.check on it? follow: {deny: […]} keeps a crawl from a "
    "page that logs it out, match: names the pages of items"
)


class LoggingIn(Entering):
    """Gives each request the session's cookies. A page that shows none is fetched again in a new session, once; if it
    has to show one and does not, the crawl ends with CredentialRefused.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._session = 0  # 0: before the first login
        self._in_vain = 0  # logins in a row that did not help a page

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "LoggingIn":
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if is_robots_txt(request) or "login" in request.meta:
            return
        self._must_go_on()
        if "logged_in_for" not in request.meta:
            async with self._one_at_a_time:
                if not self._session:
                    await self._log_in()
        request.meta["cookiejar"] = self._session

    async def process_response(self, request: Request, response: Response) -> Response:
        waiting: Waiting | None = request.cb_kwargs.get("waiting")
        if waiting is None or {"from_disk", "logged_in_for"} & request.meta.keys():
            return response
        if not self._is_logged_out(response, waiting):
            return response
        async with self._one_at_a_time:
            if self._in_vain >= _IN_VAIN and not self._has_to_show(response, waiting):
                return response
            session, is_new = request.meta["cookiejar"], False
            while not is_new:  # another page may have begun a new session meanwhile
                if session == self._session:
                    await self._log_in()
                    is_new = True
                session = self._session
                response = await self._download(_from_the_start(request))
                if not self._is_logged_out(response, waiting):
                    self._in_vain = 0
                    return response
            self._in_vain += 1
            if self._has_to_show(response, waiting):
                finding = (
                    f"{waiting.url} does not show {self._login.check}, nor after another login at {self._login.url}"
                )
                self._end(CredentialRefused(finding, where=self._where, hint=_LOOK_AT_PAGE))
        return response

    @property
    def _login(self) -> Login:
        login: Login = self._spider.source.login
        return login

    @property
    def _where(self) -> str:
        return f"source {self._spider.source.name}: login"

    def _is_logged_out(self, response: Response, waiting: Waiting) -> bool:
        """Whether a page may be missing only for want of a session."""
        if sends_to_login(response, self._spider.policy):
            return True
        if response.status not in ARRIVED | _FORBIDDEN:
            return False
        content = self._content(response)
        is_forbidden = response.status in _FORBIDDEN
        if content.form != "html" or document_of(response) is not None:
            return is_forbidden
        if self._shows(content):
            return False
        return is_forbidden or self._has_to_show(response, waiting) or self.asks_to_log_in(response)

    def _has_to_show(self, response: Response, waiting: Waiting) -> bool:
        """Whether the crawl is of no use where the page does not show that somebody is logged in; a user need not be
        allowed to see each page.
        """
        if response.status in _FORBIDDEN:
            return False
        policy, in_chain = self._spider.policy, waiting.chain is not None
        return in_chain or policy.is_listing(response.url) or policy.yields_items(response.url, in_chain=in_chain)

    def _content(self, response: Response) -> Content:
        return Content(Page(response.url, response.body, content_type=header(response, "Content-Type") or ""))

    def _shows(self, content: Content) -> bool:
        return content.has_markup and bool(find(content, self._login.check))

    async def _log_in(self) -> None:
        """Begins a session. Raises Refusal where the crawl ends with that."""
        self._must_go_on()
        try:
            await self._fill_form(self._session + 1)
        except OperationalError as error:
            self._end(error)
        self._session += 1

    async def _fill_form(self, session: int) -> None:
        login, source = self._login, self._spider.source
        page = await self._ask(Request(login.url, meta=DECLARED), cookiejar=session)
        if self._shows(self._content(page)):
            finding = f"{login.url} shows {login.check} before anybody has logged in"
            hint = "declare an element as check that only somebody who is logged in sees, such as the link to log out"
            raise CredentialRefused(finding, where=self._where, hint=hint)
        answer = await self._ask(self._filled(page), cookiejar=session)
        content = self._content(answer)
        if self._shows(content):
            return
        next_url = forwards_to(content) or (source.start_urls or [login.url])[0]
        if may_see_credentials(source, next_url):
            following = await self._ask(Request(next_url), cookiejar=session)
            if self._shows(self._content(following)):
                return
        finding = (
            f"the form of {login.url} was sent, and neither {answer.url.partition('?')[0]}, which answered "
            f"{answer.status}, nor {next_url} shows {login.check}"
        )
        raise CredentialRefused(finding, where=self._where, hint=_LOOK_AT_VARIABLES)

    def _filled(self, page: Response) -> Request:
        """The request that the form of a page sends."""
        form, login = self._form_of(page), self._login
        if form is None:
            names = "; ".join(", ".join(filter(None, form.inputs.keys())) or "none" for form in _forms(page))
            raise CredentialRefused(
                f"{login.url} answered {page.status}, without a form that has the fields {', '.join(login.form)}; its "
                f"forms have: {names or 'it has no form'}",
                where=self._where,
                hint="name them in login.form as the page's source does; where scripts draw the form, log in with a "
                "browser, and declare politeness: {cookies: …}",
            )
        action = form.action or page.url
        if form.method != "POST" or not may_see_credentials(self._spider.source, action):
            raise CredentialRefused(
                f"the form of {login.url} sends its fields by {form.method} to {action.partition('?')[0]}",
                where=self._where,
                hint="they are sent by POST alone, to the source's own hosts: allowed_domains names more of them",
            )
        assert isinstance(page, HtmlResponse)
        filled = [(name, value) for name, value in form.form_values() if name not in login.form]
        filled += [(name, secret.get_secret_value()) for name, secret in login.form.items()]
        sent = {name for name, _ in filled}
        button = next(iter(form.xpath(_SUBMITS)), None)
        if button is not None and button.get("name") and button.get("name") not in sent:
            filled.append((button.get("name"), button.get("value") or ""))
        return FormRequest(action, method="POST", formdata=filled, encoding=page.encoding, meta=DECLARED)

    def asks_to_log_in(self, response: Response) -> bool:
        """Whether a page has the form of the login."""
        return self._form_of(response) is not None

    def _form_of(self, response: Response) -> FormElement | None:
        """The form that has all declared fields."""
        return next((form for form in _forms(response) if self._login.form.keys() <= set(form.inputs.keys())), None)


def _forms(response: Response) -> list[FormElement]:
    """The forms of a page, whose actions are absolute."""
    if not isinstance(response, HtmlResponse) or not response.body.strip():
        return []
    root = response.selector.root
    root.make_links_absolute(response.url, handle_failures="ignore")
    return list(root.xpath("//form"))


def _from_the_start(request: Request) -> Request:
    """The request for a page as it was before any redirect; `logged_in_for` are the URLs that it has been led to."""
    way: list[str] = [*request.meta.get("redirect_urls", []), request.url]
    meta = {name: value for name, value in request.meta.items() if name not in _OF_ANOTHER_TRY}
    return request.replace(url=way[0], meta={**meta, "logged_in_for": way[1:]}, dont_filter=True)
