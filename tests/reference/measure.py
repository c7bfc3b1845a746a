"""Measures all reference content, or what is named: python -m tests.reference.measure [NAME…]"""

import sys
import time
import traceback
from collections.abc import Callable, Iterator

from almanac.core.settings import quiet_engines
from tests.reference.charsets import adv_vn_encodings
from tests.reference.faq import faq_md
from tests.reference.figures import Figure
from tests.reference.markup import adv_html5lib
from tests.reference.notes import docs_margies_travel, md_elementum_fr, md_til
from tests.reference.products import product_docs
from tests.reference.prose import deb_handbook_fr, deb_handbook_vi, maintext_dev, musee_ecole_fr
from tests.reference.quotes import quotes_api, quotes_html, quotes_js, quotes_microdata
from tests.reference.redirects import adv_redirects
from tests.reference.shop import books_shop
from tests.reference.sitemaps import adv_sitemaps
from tests.reference.strings import adv_blns

Measure = Callable[[], Iterator[Figure]]
MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for measure in (
        books_shop,
        quotes_html,
        quotes_microdata,
        quotes_api,
        quotes_js,
        musee_ecole_fr,
        deb_handbook_fr,
        deb_handbook_vi,
        maintext_dev,
        faq_md,
        product_docs,
        md_til,
        md_elementum_fr,
        docs_margies_travel,
        adv_redirects,
        adv_vn_encodings,
        adv_html5lib,
        adv_sitemaps,
        adv_blns,
    )
}
_SHOWN = 6  # differences of a figure


def main(names: list[str]) -> None:
    """Writes a table: what was measured, found, expected and its share, with the first differences under each figure,
    and seconds.
    """
    quiet_engines()
    sys.stdout.write(f"{'':42} {'found':>6} {'of':>6} {'share':>7}\n")
    for name in names or MEASURES:
        started = time.monotonic()
        sys.stdout.write(f"{name}\n")
        try:
            for figure in MEASURES[name]():
                sys.stdout.write(_row(figure))
        except Exception:  # one that cannot be measured must not hide the others
            sys.stdout.write(
                "! FAILED\n" + "".join(f"    {line}\n" for line in traceback.format_exc().splitlines()[-4:])
            )
        sys.stdout.write(f"  {time.monotonic() - started:.1f} s\n")


def _row(figure: Figure) -> str:
    share = figure.count / figure.expected if figure.expected else 1.0
    rows = [f"{' ' if figure.holds else '!'} {figure.what:40} {figure.count:6} {figure.expected:6} {share:7.1%}"]
    rows += [f"      {difference}" for difference in figure.differences[:_SHOWN]]
    if len(figure.differences) > _SHOWN:
        rows.append(f"      … {len(figure.differences) - _SHOWN} more")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
