"""Record batches, format v2: checked, patched, read, built and compressed, without any I/O.

    batch.py         the 61 bytes of a batch's header: what the broker reads of every batch, and
                     `check_batches`, which decides what may be appended
    record.py        the records inside a batch, for the few callers that must look at them
    compression.py   gzip, snappy, lz4 and zstd, with a bound on what a batch may unpack to

A batch passes through the broker by its header alone; its payload goes from socket to disk and from
disk to socket as the producer wrote it. `rebuild.py` changes payloads for the cleaner and for
topics with their own compression type.

Functions take bytes and return bytes or values. They raise `KafkaError` with the code that Kafka
answers for the same fault. The room imports `errors` only.
"""
