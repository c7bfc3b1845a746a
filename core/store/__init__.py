"""Data directories in object stores: objects, trees, the writer's lock, and the working copy on local disk."""
