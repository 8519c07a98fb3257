"""Formats of logs, a module each: its `READER` is found by `log_readers`."""
