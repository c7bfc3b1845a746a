"""How well an index answers: golden questions, and retrieval metrics."""
