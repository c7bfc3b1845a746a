"""Embedders: a local model or an API, their identity, tokens and score thresholds."""
