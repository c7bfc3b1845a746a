"""Fetch and map: declared sites and files to stored pages, stored pages to drafts of records and documents."""
