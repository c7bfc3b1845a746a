"""The process that reads documents, so that a hostile file costs this process alone: the child's side of `bounded`.

It imports no torch, and a reader only once a file asks for it. Jobs come through one pipe, results go through another;
stdin only tells that the parent lives.
"""

import gc
import json
import os
import resource
import socket
import sys
from contextlib import suppress
from typing import Any, BinaryIO, NoReturn

from almanac.core.lifetime import end_with_parent
from almanac.schemas.left_out import LeftOut
from almanac.spiders.reading.document import Document, Element, Unreadable
from almanac.spiders.reading.formats import format_of, is_document, refusal_of

_MAX_CHARACTERS = 20_000_000
_MAX_DEPTH = 5  # of mails inside mails
_SLACK = 1 << 30  # address space beyond the limit on resident memory, which is what the parent watches
# Libraries that unstructured, or what it imports, takes along where they are installed, and that no reader here needs.
_LEFT_OUT = ("torch", "transformers", "tensorflow", "spacy", "numba")


def main() -> None:
    """Reads one file after the other, until the parent closes the pipe."""
    jobs, results = os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb")
    end_with_parent()
    sys.modules.update(dict.fromkeys(_LEFT_OUT))  # type: ignore[arg-type]  # None makes an import of it fail
    socket.socket.connect = _refuse_to_connect  # type: ignore[method-assign]  # whatever a file names stays unread
    while header := jobs.readline():
        job = json.loads(header)
        body = jobs.read(job["size"])
        _send(results, _done(job, body))
        del body
        gc.collect()


def _done(job: dict[str, Any], body: bytes) -> dict[str, Any]:
    _limit_address_space(job["memory"])
    try:
        return {"document": _read(job["format"], body, job["elements"], job["language"], _MAX_DEPTH).as_json()}
    except MemoryError:
        return {"memory": True}
    except (Unreadable, RecursionError) as error:
        return {"reason": str(error) if isinstance(error, Unreadable) else "nested too deep"}


def _limit_address_space(memory: int) -> None:
    with suppress(OSError, ValueError):  # a hard limit of the system's own is lower
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: PTH123, SIM115
        resource.setrlimit(resource.RLIMIT_AS, (used + memory + _SLACK, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _read(kind: str, body: bytes, max_elements: int, language: str, depth: int) -> Document:
    """Raises Unreadable with the reason."""
    document = _parsed(kind, body, max_elements, language, depth)
    elements = sum(sum(map(len, element.rows)) or 1 for element in document.elements)
    if elements > max_elements:
        raise Unreadable(f"{elements} elements, more than {max_elements}: limits.elements_per_file")
    characters = sum(
        len(element.text) + sum(len(cell) for row in element.rows for cell in row) for element in document.elements
    )
    if characters > _MAX_CHARACTERS:
        raise Unreadable(f"{characters} characters, more than {_MAX_CHARACTERS}")
    if not document.elements and not document.attachments:
        raise Unreadable(f"no text in this {kind.upper()} file")
    return document


def _parsed(kind: str, body: bytes, max_elements: int, language: str, depth: int) -> Document:
    if not body:
        raise Unreadable("the file is empty")
    if (refusal := refusal_of(body)) is not None:
        raise Unreadable(refusal)
    if kind == "pdf":
        from almanac.spiders.reading.pdf import read_pdf

        return read_pdf(body)
    if kind == "xlsx":
        from almanac.spiders.reading.workbook import read_xlsx

        return read_xlsx(body, max_elements, language)
    if kind == "epub":
        from almanac.spiders.reading.epub import read_epub

        return read_epub(body)
    if kind == "eml":
        from almanac.spiders.reading.mail import read_mail

        return read_mail(body, lambda name, attached: _read_attached(name, attached, max_elements, language, depth - 1))
    if kind == "pptx":
        from almanac.spiders.reading.slides import read_pptx

        return read_pptx(body)
    from almanac.spiders.reading.office import read_docx

    return read_docx(body)


def _read_attached(name: str, body: bytes, max_elements: int, language: str, depth: int) -> Document:
    """An attached file: a document as such, HTML and texts as their blocks. Raises Unreadable for any other."""
    from almanac.spiders.reading.content import looks_like_text
    from almanac.spiders.reading.decode import decode_markup, decode_text
    from almanac.spiders.reading.mail import text_elements
    from almanac.spiders.reading.office import read_markup

    if not depth:
        raise Unreadable("mails inside mails, nested too deep")
    kind = format_of(name, body)
    if is_document(kind):
        return _read(kind, body, max_elements, language, depth)
    if (refusal := refusal_of(body)) is not None or not looks_like_text(body):
        raise Unreadable(refusal or f"unsupported format of {name}: no document and no text")
    left_out = LeftOut()
    if kind == "html":
        elements: list[Element] = read_markup(decode_markup(body)[1], left_out)
    else:
        elements = text_elements(decode_text(body)[1])
    if not elements:
        raise Unreadable("it has no text")
    return Document("", elements, left_out=left_out)


def _send(results: BinaryIO, answer: dict[str, Any]) -> None:
    written = json.dumps(answer, ensure_ascii=True).encode()
    results.write(b"%d\n" % len(written))
    results.write(written)
    results.flush()


def _refuse_to_connect(*_: object) -> NoReturn:
    raise OSError("a document is read without a network")


if __name__ == "__main__":
    main()
