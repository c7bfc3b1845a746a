"""Versions on disk: names and manifests, publication, the writer lock, the pins of readers."""
