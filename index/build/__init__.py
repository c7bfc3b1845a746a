"""Builds the directory of a new version, in full or as a delta of its parent."""
