"""Maintenance of versions after publication: prune, rebuild, takedown and promote."""
