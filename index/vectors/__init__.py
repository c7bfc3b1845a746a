"""Vectors on disk: content-addressed Parquet parts keyed by the hash of the text, and one row-aligned matrix in each
version.
"""
