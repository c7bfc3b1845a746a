"""A git repository as a place of files."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from almanac.schemas.declaration.credentials import Secret
from almanac.schemas.declaration.model import DeclaredModel

# A user ends before the first slash: of one with a bare slash, what follows would be shown as a path.
_URL = re.compile(r"(https|ssh)://[^\s/\[\]]+/[^\s@]*|file:///\S+|[\w.-]+@[\w.-]+:\S+")


def _of_repository(url: SecretStr) -> SecretStr:
    if not _URL.fullmatch(url.get_secret_value()):
        finding = "must be as https://host/path, ssh://host/path, file:///path or git@host:path, with %2F and %40 in a "
        finding += "user or password (its value is not shown)"
        raise PydanticCustomError("secret", finding)
    return url


class Git(DeclaredModel):
    """A repository; `glob` is then relative to its top folder."""

    url: Annotated[Secret, AfterValidator(_of_repository)] = Field(
        description="`https://host/docs.git`, with a token `https://${TOKEN}@host/docs.git`, `git@host:docs.git`, "
        "`ssh://…` or `file:///…`"
    )
    # no option, no refspec, and none of the forms that ask for more than one name
    ref: str = Field("HEAD", pattern=r"^[\w.][\w./@+-]*$", description="a branch, a tag, or a whole commit id")

    @property
    def address(self) -> str:
        """The url without user and password."""
        parts = urlsplit(self.url.get_secret_value())
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def user(self) -> str:
        """Of an https url, what stands before the host: a token, or a user and a password."""
        parts = urlsplit(self.url.get_secret_value())
        return parts.netloc.rpartition("@")[0] if parts.scheme == "https" else ""
