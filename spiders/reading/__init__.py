"""From bytes to something to select on: charsets, markup, and files of every format."""
