"""Kafka's own tools: the same names, flags, output and exit codes.

    tool.py          what all tools share: usage, errors, exit codes, Ctrl-C
    options.py       Kafka's option parser (joptsimple); subcommands.py has argparse4j's manners
    <tool>.py        one module for each tool, named like it

Texts and layouts are Kafka's, because scripts parse them.
"""
