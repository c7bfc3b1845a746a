"""Verification: compares a version with the tables and vectors that it was built from."""
