"""The child process that reads documents: kept, killed, interrupted, and none that a fork inherits."""

import os
import subprocess
import sys
import threading
import time

import pytest

from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.source import FilesSource
from almanac.schemas.items import Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading import bounded
from almanac.spiders.reading.bounded import close_reader, read_document
from almanac.spiders.reading.document import Interrupted
from almanac.spiders.reading.formats import DOCUMENT_TYPES
from tests.spiders.sample_documents import handbook_docx, rates_xlsx

pytestmark = pytest.mark.usefixtures("reader_closed_at_end")


def _child() -> int:
    assert bounded._reader._child is not None
    return bounded._reader._child._process.pid


def test_one_child_reads_many_files_and_is_replaced_when_it_dies() -> None:
    read_document(handbook_docx(), "docx")
    first = _child()
    assert read_document(rates_xlsx(), "xlsx").unit == "sheet" and _child() == first
    os.kill(first, 9)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert read_document(handbook_docx(), "docx").title == "Handbook" and _child() != first


def _kill_children(of_them: int) -> None:
    """Kills that many children, each while it is on its file: it has just been started."""
    killed: set[int] = set()
    while len(killed) < of_them:
        time.sleep(0.05)
        if bounded._reader._child is not None and (pid := _child()) not in killed:
            os.kill(pid, 9)
            killed.add(pid)


def test_a_file_whose_child_was_killed_is_read_again() -> None:
    close_reader()
    killer = threading.Thread(target=_kill_children, args=(1,))
    killer.start()
    assert read_document(handbook_docx(), "docx").title == "Handbook"
    killer.join()
    close_reader()
    starter = threading.Thread(target=read_document, args=(handbook_docx(), "docx"))
    starter.start()
    starter.join()
    assert read_document(handbook_docx(), "docx").title == "Handbook"  # the child ended with its thread


def test_a_file_that_others_interrupt_is_left_to_the_next_run() -> None:
    close_reader()
    page = Page("in/a.docx", handbook_docx(), content_type=DOCUMENT_TYPES["docx"])
    source = FilesSource.model_validate({"name": "f", "kind": "files", "glob": "in/*"})
    killer = threading.Thread(target=_kill_children, args=(2,))
    killer.start()
    (extraction,) = map_pages([page], source, "en")
    killer.join()
    assert extraction.rejects[0].reason.startswith("its reader crashed (signal 9)") and not extraction.whole
    (extraction,) = map_pages([page], source, "en")
    assert [draft.title for draft in extraction.drafts] == ["Handbook"] and extraction.whole
    os.kill(_child(), 19)  # stopped: as on a machine that has no time for it
    with pytest.raises(Interrupted, match=r"not read within 4 s by the clock"):
        read_document(handbook_docx(), "docx", ReadingLimits(seconds_per_file=1))


def test_a_forked_process_has_a_child_of_its_own() -> None:
    read_document(handbook_docx(), "docx")
    ours = _child()
    if (forked := os.fork()) == 0:
        is_own = read_document(handbook_docx(), "docx").title == "Handbook" and _child() != ours
        close_reader()
        os._exit(0 if is_own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert read_document(handbook_docx(), "docx").title == "Handbook" and _child() == ours


def test_whoever_maps_pages_imports_no_reader() -> None:
    code = (
        "import sys, almanac.spiders.mapping.pages\n"
        "print(sorted({'unstructured', 'docx', 'pptx', 'openpyxl', 'pypdfium2'} & {name.partition('.')[0] for "
        "name in sys.modules}))"
    )
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )
