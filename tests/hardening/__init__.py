"""Generators of attacks: seeded, a sample in `make test`, whole under `make torture`. `make hardening` writes their
counts into docs/security.md.
"""
