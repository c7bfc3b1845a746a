"""What tests of runs borrow from those of crawls: a site on loopback that counts what is asked of it."""

from tests.spiders.conftest import loopback_site

__all__ = ["loopback_site"]
