"""A published knowledge base of a few notes, embedded by a real model of a few dimensions."""

import json
from pathlib import Path
from typing import Any

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from tests.flows.commands import carry_out
from tests.index.making import without_children

NOTES = {
    "garden": "The garden closes at six in summer and at five in winter.",
    "children": "Children enter for free, students pay half.",
    "dogs": "Dogs stay outside the garden, on a lead.",
    "boats": "Boats leave the pier every hour until the garden closes.",
}


class SmallBase:
    """`publish` makes a version; `declare` writes the declaration anew, with these parts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.data = folder, folder / "small.yaml", folder / "data"
        (folder / "notes").mkdir()
        for name, text in NOTES.items():
            (folder / "notes" / f"{name}.txt").write_text(text)

    def declare(self, **parts: Any) -> str:
        declared = {
            "name": "small",
            "sources": [{"name": "notes", "kind": "files", "glob": "notes/*.txt", "yields": "documents"}],
            **parts,
        }
        self.path.write_text(json.dumps(declared))  # which is YAML
        return str(self.path)

    def publish(self, **parts: Any) -> str:
        path = self.declare(**parts)
        with without_children():
            report = carry_out(Run(load_declaration(path), DataDir(self.data)))
        assert report["outcome"] == "published", report
        return path
