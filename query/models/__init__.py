"""The models that a query asks: generators, rerankers, and a cache of embedded questions."""
