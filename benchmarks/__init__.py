"""Measurements in pairs: what Almanac costs against the plainest thing that does the same. `python -m
benchmarks.crawl_cost`.
"""
