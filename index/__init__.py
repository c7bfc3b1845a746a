"""Embedding, vector storage, and the building, verification, publication and rollback of versions. Queries read a
version through `index.reader`.
"""
