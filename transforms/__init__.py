"""Transforms items: reading HTML, cleaning, de-duplication, validation and chunking. No clock, no network, no
Prefect.
"""
