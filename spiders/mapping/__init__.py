"""Maps stored pages to items by the declared rules; pure functions of bytes, URL and declaration (except `inspect_url`,
which fetches a page).
"""
