"""From a question to hits: candidates of both retrievers, fusion, filters, tags, relevance, selection."""
