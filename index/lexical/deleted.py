from pathlib import Path


def write_deleted_terms(path, terms, rows, known=None, known_rows=None):
    Path(path).write_bytes(b"x")
