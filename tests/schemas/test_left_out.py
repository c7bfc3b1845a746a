"""The tally of what is left out on purpose."""

import json

from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.left_out import LeftOut


def test_blocks_and_characters_are_counted_by_reason_and_blank_text_is_none() -> None:
    tally = LeftOut()
    tally.add("hidden", "  Only   for\nreaders ")
    tally.add("hidden", "ä")
    tally.add("prose_beside", " \n ")
    assert tally == {"hidden": {"blocks": 2, "characters": 17}}


def test_tallies_add_up_and_leave_each_other_alone() -> None:
    total, page = LeftOut(), LeftOut({"hidden": {"blocks": 1, "characters": 5}})
    total.add_all(page)
    total.add_all(page)
    assert (total["hidden"], page["hidden"]) == ({"blocks": 2, "characters": 10}, {"blocks": 1, "characters": 5})


def test_a_report_holds_a_tally_as_json_and_gives_it_back() -> None:
    written = CrawlOutcome(source="s", left_out=LeftOut({"hidden": {"blocks": 1, "characters": 5}})).model_dump_json()
    assert json.loads(written)["left_out"] == {"hidden": {"blocks": 1, "characters": 5}}
    read = CrawlOutcome.model_validate_json(written)
    read.left_out.add("hidden", "more")
    assert read.left_out == {"hidden": {"blocks": 2, "characters": 9}} and CrawlOutcome(source="s").left_out == {}


def test_a_report_that_lists_documents_under_that_name_is_still_read() -> None:
    assert (
        CrawlOutcome.model_validate(
            {"source": "s", "left_out": [{"type": "pdf", "documents": 2, "urls": [], "remedy": ""}]}
        ).left_out
        == {}
    )


def test_a_reason_of_which_all_is_given_back_is_gone_and_has_no_share() -> None:
    tally = LeftOut()
    tally.add("prose_beside", "seven l.")
    tally.add("page_furniture", "four")
    tally.give_back(10, "prose_beside", "page_furniture")
    assert tally == {"page_furniture": {"blocks": 1, "characters": 2}}
    assert tally.much(0) == {}
