"""Apache Spark: the session, and topics as DataFrames.

    spark = session.start()
    orders = spark.readStream.format("ottla").option("subscribe", "orders").load()

    session.py             the Spark session; gateway.py, class_data_archive.py and fork_server.py
                           make its start short
    source.py              `format("ottla")`: Spark's DataSource for reading and writing
    sink/commit_log.py     exactly-once output: how the tasks of a batch commit together
    tables.py              topics as key-value tables in this process, for pull queries

Reading is: offset_reader.py (driver: offsets), input_partitions.py (driver: tasks), chunks.py
(workers: records as columns), rows.py or chunk_processor.py (what becomes of them).

This room may import `rows` and `client`; it knows nothing of SQL, Streams or Connect, and must not
import a broker's rooms: Spark talks to brokers over the wire only.
"""

from ottla.extras import require

require("ottla.spark", "spark", ("pyspark", "pyarrow", "numpy"))
