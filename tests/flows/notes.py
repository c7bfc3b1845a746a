"""A knowledge base of many small notes, some of them broken, with golden questions: for runs without Prefect, processes
and a model.
"""

import json
from pathlib import Path

DECLARATION = """
name: many
sources:
  - name: notes
    kind: files
    glob: notes.jsonl
    yields: documents
    id: "{id}"
    fields:
      id: {json: id, required: true}
      text: {json: text, required: true}
      year: {json: year, type: integer}
    body: "{text}"
validate:
  max_rejected: 50%
  expect: [{field: year, min: 2000}]
gate: {max_lost: null, max_failed: null, golden: golden.jsonl, max_recall_drop: 100%}
chunk: {by: paragraphs, size: 60, overlap: 0}
"""


def write(folder: Path, count: int, edition: str = "", questions: int = 2) -> None:
    """Every tenth note breaks an expectation, and every eleventh has no text. Each question is two kilobytes long."""
    texts = [f"Note {n} tells of something else{edition}." if n % 11 else "" for n in range(count)]
    notes = [{"id": f"n{n}", "text": text, "year": 1999 if n % 10 == 0 else 2020} for n, text in enumerate(texts)]
    (folder / "notes.jsonl").write_text("".join(f"{json.dumps(note)}\n" for note in notes))
    golden_questions = [
        {"question": f"what does note {n} tell of? " + "please " * 300, "document_id": f"n{n}"}
        for n in range(1, 1 + questions)
    ]
    (folder / "golden.jsonl").write_text("".join(f"{json.dumps(question)}\n" for question in golden_questions))
