"""Splits documents into chunks. `chunker.py` is the entry point; there is a module per strategy, all based on
`layout.py` and `packing.py`.
"""
