"""From stored pages to items, by the declared rules: pure functions of bytes, URL and declaration."""
