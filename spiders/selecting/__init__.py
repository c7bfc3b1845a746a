"""Finds parts of a page: declared selectors, embedded data, script variables, links, and the next page of a listing."""
