"""Embedders, local or by API: their identity, token counts and score thresholds."""
