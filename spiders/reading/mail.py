"""Reads mails (EML): subject, sender, recipients, date and body, and what is attached. Runs in the reading child
only.
"""

import codecs
import email
import email.policy
import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage, MIMEPart
from typing import Any

from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.decode import decode_markup, decode_text
from almanac.spiders.reading.document import Attachment, Document, Element, Unreadable, plain
from almanac.spiders.reading.office import read_markup

ReadFile = Callable[[str, bytes], Document]  # name and bytes of an attached file; raises Unreadable

_SHOWN = ("From", "To", "Cc", "Date")
_MAX_PARTS = 1_000
_TEXTS = ("text/plain", "text/html")
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
# Seven bits, which would be ASCII by the rules of pages, and what DOS and Lotus Notes wrote.
_MAIL_ONLY = frozenset(
    {
        "utf-7",
        "hz",
        "iso2022_kr",
        *(f"iso2022_jp_{kind}" for kind in (1, 2, 3, 2004, "ext")),
        *(f"cp{n}" for n in (437, 850, 852, 855, 858)),
    }
)
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")


def read_mail(body: bytes, read_attached: ReadFile) -> Document:
    """The mail as a document, with its attachments, each read by `read_attached`. Raises Unreadable if it is no mail,
    or of too many parts.
    """
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
    texts, files = _texts_and_files(message)
    subject = _header(message, "Subject")
    headers = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
    head = [Element("title", subject, 1)] if subject else []
    left_out = LeftOut()
    elements = [*head, *([Element("text", "\n".join(headers))] if headers else []), *_body(texts, left_out)]
    attached = list(_attachments(files, read_attached))
    for attachment in attached:
        left_out.add_all({} if attachment.document is None else attachment.document.left_out)
    return Document(subject, elements, attachments=attached, left_out=left_out)


def _texts_and_files(message: EmailMessage) -> tuple[list[Any], list[Any]]:
    """The parts that a mail shows one below the other, and those that are attached. Of several forms of a text HTML
    counts, since it has headings and tables.

    A mail may also be nothing but a file, such as the PDF of a scanner. Pictures that belong to a text, and signatures,
    are neither.
    """
    texts, files = [], []
    chosen = message.get_body(("html", "plain"))
    for part, is_choice in _leaves(message):
        kind, is_attached = part.get_content_type(), part.is_attachment()
        is_form = is_choice and part.get_content_maintype() == "text" and not is_attached
        is_picture = part.get_content_maintype() == "image" and (
            part.get("Content-ID") or part.get_content_disposition() == "inline"
        )
        if part is chosen or (kind in _TEXTS and not is_choice and not is_attached and not _sent_name(part)):
            texts.append(part)
        elif not is_form and not is_picture and kind not in _SIGNATURES:
            files.append(part)
    return texts, files


def _leaves(part: Any, is_choice: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yields the parts that hold no others, a mail inside included, each with whether it is one of several forms of the
    same text.
    """
    if part.get_content_maintype() != "multipart":
        yield part, is_choice
    else:
        for inner in part.iter_parts():
            yield from _leaves(inner, part.get_content_subtype() == "alternative")


def _header(message: EmailMessage, name: str) -> str:
    try:
        raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
        if any("\udc80" <= c <= "\udcff" for c in raw):  # bytes that no header may have, and many do
            text = decode_text(raw.encode("utf-8", "surrogateescape"), str(message.get("Content-Type") or ""))[1]
            return plain(str(message.policy.header_fetch_parse(name, " ".join(text.split())))).replace("\n", " ")
        return plain(str(message.get(name) or "")).replace("\n", " ")
    except Exception:  # the parser of addresses raises on some that are none (IndexError, AttributeError)
        return ""


def _body(texts: list[MIMEPart], left_out: LeftOut) -> list[Element]:
    elements: list[Element] = []
    for part in texts:
        elements += (
            read_markup(_text(part), left_out) if part.get_content_type() == "text/html" else text_elements(_text(part))
        )
    return elements


def _text(part: MIMEPart) -> str:
    """The text of a part, in whatever encoding it is: mails say iso-8859-1 for windows-1252, or nothing at all."""
    body = _bytes(part)
    if (text := _in_mail_only(body, part.get_content_charset())) is not None:
        return text
    decode = decode_markup if part.get_content_type() == "text/html" else decode_text
    return decode(body, str(part.get("Content-Type") or ""))[1]


def _in_mail_only(body: bytes, label: str | None) -> str | None:
    """The text in an encoding that only mails use; None if the label names none of these, or another one than the text
    is in.
    """
    try:
        codec = codecs.lookup(label or "").name
        return body.decode(codec) if codec in _MAIL_ONLY else None
    except (LookupError, ValueError):
        return None


def _bytes(part: Any) -> bytes:
    return part.get_payload(decode=True) or b""


def _attachments(files: list[Any], read_attached: ReadFile) -> Iterator[Attachment]:
    """Yields what is attached."""
    names: dict[str, int] = {}
    for part in files:
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
    kind = part.get_content_type()
    return _sent_name(part) or {
        "message/rfc822": "message.eml",
        "text/plain": "attachment.txt",
        "text/html": "attachment.html",
    }.get(kind, "attachment")


def _sent_name(part: Any) -> str:
    try:
        name = part.get_filename()
    except Exception:  # as _header
        name = None
    return plain(name or "").replace("\n", " ").replace("/", "_")
