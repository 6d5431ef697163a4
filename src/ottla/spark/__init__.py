"""The data pipeline on Apache Spark: the only room that imports pyspark.

from ottla.spark import session

spark = session.start()
orders = spark.readStream.format("ottla").option("subscribe", "orders").load()
"""

from ottla.extras import require

require("ottla.spark", "spark", ("pyspark", "pyarrow", "numpy"))
