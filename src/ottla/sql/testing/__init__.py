"""SQL in one process, without broker and Spark: topics in memory, queries on the engine's tasks."""
