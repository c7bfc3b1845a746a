"""Shared infrastructure: loading of declarations, settings, Parquet tables, durable file operations, child processes
and logging.
"""
