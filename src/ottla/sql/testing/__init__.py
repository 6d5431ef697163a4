"""Testing SQL in one process, without broker and Spark: the parts of `ottla.sql.SqlTestDriver`.

    memory_topics.py            topics in memory, and the TopicClient of the engine
    memory_query_executor.py    pull queries, push queries and inserts on these topics
    task_run.py                 a lowered query with all of its tasks
    sql_test_cases.py, report.py    files of test cases, for `ottla sql-test`

The engine and its statements are those of the server. Nothing here may import pyspark.
"""
