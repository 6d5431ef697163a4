"""Java's own conventions, for results that equal Kafka's to the digit.

Hashes of keys, texts of values, date patterns, regular expressions.
"""
