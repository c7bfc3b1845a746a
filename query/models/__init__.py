"""Models used at query time: generators, rerankers, and an embedding cache."""
