"""Compares a version with what it was made from."""
