"""Vectors on disk by the hash of their text, and as one matrix beside each version."""
