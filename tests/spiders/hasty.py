"""A crawl that waits two seconds for an answer, and asks twice: `python -m tests.spiders.hasty`, the job on stdin."""

import sys

from almanac.core.lifetime import job_of_parent
from almanac.spiders.crawling import crawl_settings
from almanac.spiders.crawling.crawl_job import Job
from almanac.spiders.crawling.crawl_process import crawl

if __name__ == "__main__":
    crawl_settings.DOWNLOAD_TIMEOUT = 2
    crawl_settings.RETRY_TIMES = 1
    sys.exit(crawl(Job.model_validate_json(job_of_parent())))
