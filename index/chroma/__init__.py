"""Chroma: opening it, the rows in it, and copying its files."""
