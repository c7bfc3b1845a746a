"""Fetches declared sites and files into stored pages, and maps stored pages to drafts of records and documents."""
