"""Rows of functions, databases and programs, kept in a table of their own and handed on as pages."""
