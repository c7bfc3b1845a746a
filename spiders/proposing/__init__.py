"""Proposes a declaration from what one page, file or folder shows. Only `almanac init --from` looks: what it finds is
written down, and no run guesses it again.
"""
