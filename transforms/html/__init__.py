"""HTML in, Markdown out: the tree is made plain, its main text is told from what surrounds it, and what is kept is
written.
"""
