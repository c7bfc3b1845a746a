"""The `almanac` command: the front door of all rooms."""
