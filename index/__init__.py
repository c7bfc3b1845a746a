"""Embeds, keeps vectors, builds a version, verifies, publishes and rolls back. `index.reader` is what `query` uses."""
