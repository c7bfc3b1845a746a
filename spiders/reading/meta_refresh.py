"""Pages that send their visitors on by `<meta http-equiv="refresh">`."""

from typing import cast
from urllib.parse import urldefrag

from w3lib.html import get_meta_refresh

from almanac.spiders.reading.content import Content

_UNREAD_S = 1.0  # nobody reads a page in this time


def refresh_of(content: Content) -> tuple[float | None, str | None]:
    """After how many seconds an HTML page asks a browser to go on, and where to; (None, None) if it does not."""
    try:
        return cast(
            "tuple[float | None, str | None]", get_meta_refresh(content.text[:4096], content.url, content.encoding)
        )
    except ValueError:  # its target is not a URL
        return None, None


def forwards_to(content: Content) -> str | None:
    """Where a page sends its visitors before they can read it; None if it does not, or only loads itself anew."""
    if content.is_document or content.form != "html":
        return None
    delay_s, target = refresh_of(content)
    if target is None or delay_s is None or delay_s > _UNREAD_S:
        return None
    return target if urldefrag(target).url != urldefrag(content.url).url else None
