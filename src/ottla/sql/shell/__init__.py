"""The shell: `ottla sql`. It talks to a server by REST, ksqlDB's as well as ours."""
