"""Reads mails (EML): subject, sender, recipients, date and body, and what is attached. Runs in the reading child only."""

import email
import email.policy
import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage, MIMEPart
from typing import Any

from almanac.spiders.reading.document import Attachment, Document, Element, Unreadable, plain
from almanac.spiders.reading.office import read_markup

ReadFile = Callable[[str, bytes], Document]  # name and bytes of an attached file; raises Unreadable

_SHOWN = ("From", "To", "Cc", "Date")
_MAX_PARTS = 1_000
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")


def read_mail(body: bytes, read_attached: ReadFile) -> Document:
    """The mail as a document, with its attachments, each read by `read_attached`. Raises Unreadable if it is no mail, or of too many parts."""
    try:
        message = email.message_from_bytes(body, EmailMessage, policy=email.policy.default)
        return _read(message, read_attached)
    except RecursionError as error:
        raise Unreadable("its parts are nested too deep") from error


def text_elements(text: str) -> list[Element]:
    """Plain text as a text for each block between empty lines."""
    blocks = (plain(block) for block in _PARAGRAPH.split(text.replace("\r\n", "\n")))
    return [Element("text", block) for block in blocks if block]


def _read(message: EmailMessage, read_attached: ReadFile) -> Document:
    if not message.keys():
        raise Unreadable("not a mail: it does not begin with headers")
    if sum(1 for _, _part in zip(range(_MAX_PARTS + 1), message.walk(), strict=False)) > _MAX_PARTS:
        raise Unreadable(f"more than {_MAX_PARTS} parts")
    subject = _header(message, "Subject")
    told = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
    head = [Element("title", subject, 1)] if subject else []
    elements = [*head, *([Element("text", "\n".join(told))] if told else []), *_body(message)]
    return Document(subject, elements, attachments=list(_attachments(message, read_attached)))


def _header(message: EmailMessage, name: str) -> str:
    try:
        return plain(str(message.get(name) or "")).replace("\n", " ")
    except Exception:  # the parser of addresses raises on some that are none (IndexError, AttributeError)
        return ""


def _body(message: EmailMessage) -> list[Element]:
    """The body as HTML where there is one, since it has headings and tables, else as text."""
    part = message.get_body(("html", "plain"))
    if part is None:
        return []
    text = _text(part)
    return read_markup(text) if part.get_content_type() == "text/html" else text_elements(text)


def _text(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, UnicodeError):  # a charset that nobody knows
        return _bytes(part).decode("utf-8", "replace")


def _bytes(part: Any) -> bytes:
    return part.get_payload(decode=True) or b""


def _attachments(message: EmailMessage, read_attached: ReadFile) -> Iterator[Attachment]:
    """Yields what is attached. Pictures that belong to the body are no attachments."""
    names: dict[str, int] = {}
    for part in message.iter_attachments():
        if part.get_content_maintype() == "image" and (part.get("Content-ID") or part.get_content_disposition() == "inline"):
            continue
        name = _name_of(part)
        names[name] = names.get(name, 0) + 1
        shown = name if names[name] == 1 else f"{name}-{names[name]}"
        try:
            if part.get_content_type() == "message/rfc822":
                inner = part.get_content()
                yield Attachment(shown, _read(inner, read_attached))
            elif part.is_multipart():
                yield Attachment(shown, None, f"unsupported format {part.get_content_type()}")
            else:
                yield Attachment(shown, read_attached(name, _bytes(part)))
        except Unreadable as error:
            yield Attachment(shown, None, str(error))


def _name_of(part: Any) -> str:
    try:
        name = part.get_filename()
    except Exception:  # as _header
        name = None
    kind = part.get_content_type()
    plain_name = plain(name or "").replace("\n", " ").replace("/", "_")
    return plain_name or {"message/rfc822": "message.eml", "text/plain": "attachment.txt", "text/html": "attachment.html"}.get(kind, "attachment")
