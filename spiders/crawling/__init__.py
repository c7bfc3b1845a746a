"""Crawls declared sites and reads declared files into the raw store; each site is crawled by a Scrapy spider in its own
process.
"""
