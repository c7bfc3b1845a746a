"""From a declared site to stored pages: one Scrapy spider in a process of its own, its manners, and its queue."""
