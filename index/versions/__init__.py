"""Versions on disk: names and manifests, publication, the writer lock, and the pins of readers."""
