"""Stages -> Spark's streaming queries, and their life."""
