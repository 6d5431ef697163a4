"""The shell, `ottla sql`: a REST client of Ottla's server, or of ksqlDB's.

    shell.py      reads statements from a terminal, a pipe, --execute or --file
    session.py    executes them: commands of the shell here, statements at the server
    screen.py     prints rows, tables and errors; entities.py knows each kind of response

Without --server the shell runs a server in its own process (`embedded_sql_server.py`). Nothing
else here may import the engine or Spark, so that the prompt appears at once.
"""
