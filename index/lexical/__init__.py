"""The lexical (BM25) index of a version: analysis of text, writing, reading."""
