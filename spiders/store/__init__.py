"""Fetched pages on disk: bodies once each, a journal of every crawl, and what is kept of them."""
