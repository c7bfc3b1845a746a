"""Chroma: client, row format and copies of its files."""
