"""The command line: `ottla <verb>`, and Kafka's tools under their own names.

    app.py, verbs/   `ottla topics`, `ottla sql`, ...: one module for each verb, with typer and rich
    kafka/           kafka-topics, kafka-console-consumer, ...: Kafka's flags, output, exit codes
    local/           the services of `ottla up` and `ottla cluster`: records, health, supervision
    doctor/          what `ottla doctor` checks

A verb imports what it needs when it runs, so that `ottla serve` starts at once and a short command
pays for nothing else. This is the top floor: it may import every room, and no room imports it.
"""
