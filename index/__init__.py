"""Embeds, keeps vectors, builds a version, verifies, publishes and rolls back. `index.read` is what `query` uses."""
