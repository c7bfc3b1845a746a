"""Retrieval, from a query to its hits: dense and lexical candidates, fusion, filters, tags, relevance, selection."""
