"""Raw pages of a source on disk: content-addressed bodies, one journal per crawl, and retention."""
