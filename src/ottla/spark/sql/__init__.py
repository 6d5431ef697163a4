"""ksqlDB's language on Spark: text -> statements -> plans -> streaming queries."""
