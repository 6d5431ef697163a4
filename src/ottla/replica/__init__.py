"""Partitions as this broker holds them: a log, its high watermark, and those who wait for it."""
