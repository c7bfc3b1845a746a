"""Data models: declarations, the items passed between packages, manifests, reports and errors."""
