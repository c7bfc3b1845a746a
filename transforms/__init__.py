"""Transforms items: cleaning, partitioning, de-duplication, validation and chunking. No clock, no network, no Prefect."""
