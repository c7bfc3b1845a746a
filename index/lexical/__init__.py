"""Lexical (BM25) index of a version: text analysis, writing and reading."""
