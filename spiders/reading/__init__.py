"""Reads fetched bytes of every supported format: charset detection, markup parsing, and text extraction."""
