"""One segment's part of a lexical index: its rows' terms, and what of it is deleted."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from almanac.index.lexical.deleted import DeletedTerms
from almanac.index.lexical.facts import LEXICAL, lexical_facts
from almanac.index.lexical.terms import FIELDS, TERMS, TermsFile


class LexicalPart(NamedTuple):
    """Where a segment's lexical index lies."""

    folder: Path  # the segment's, which has `lexical/`
    deleted_terms: Path | None = None  # statistics of its deleted rows; None where none are deleted


class OpenPart:
    """A segment's terms and statistics, opened. Safe to share among threads."""

    def __init__(self, part: LexicalPart) -> None:
        """Opens the files. Raises DamagedVersion where one is missing or cannot be read."""
        self.folder = part.folder / LEXICAL
        self.facts = lexical_facts(self.folder)
        self.terms = TermsFile(self.folder / TERMS, self.facts.rows)
        self.deleted = DeletedTerms(part.deleted_terms) if part.deleted_terms else None
        self.live_rows = self.facts.rows - (self.deleted.rows if self.deleted else 0)
        self.live_terms = {
            name: self.facts.terms[name] - (self.deleted.terms[name] if self.deleted else 0) for name in FIELDS
        }
        self.live_languages = Counter[str](self.facts.languages)
        self.live_languages.subtract(self.deleted.languages if self.deleted else {})
