"""What Java does in its own way, for results that are the same as Kafka's, digit by digit.

Hashes of keys, texts of values, patterns of dates, regular expressions.
"""
