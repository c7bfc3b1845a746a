"""Segments: the immutable parts of large versions, shared by them, and the rows of them that a version has deleted."""
