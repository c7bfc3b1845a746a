"""Ground that every room stands on: declarations read from YAML, settings, tables, files that survive a crash, child processes, logs."""
