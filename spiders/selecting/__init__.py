"""Finds parts of a page: selectors, embedded data, scripts, links, and the next page."""
