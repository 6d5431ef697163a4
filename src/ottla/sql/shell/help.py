"""The texts of `help` and `help <topic>`."""

from __future__ import annotations

from typing import Final

HELP: Final = {
    "": """\
[bold]Statements[/] end with a semicolon and may span several lines.

  SHOW STREAMS; TABLES; TOPICS; QUERIES; FUNCTIONS; TYPES; PROPERTIES; VARIABLES;
  DESCRIBE orders; [dim]or[/] DESCRIBE orders EXTENDED; DESCRIBE FUNCTION count;
  PRINT orders FROM BEGINNING LIMIT 3; [dim]records of a topic[/]
  CREATE STREAM orders (id STRING KEY, amount DOUBLE)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
  INSERT INTO orders VALUES ('a', 5.0);
  SELECT * FROM orders EMIT CHANGES; [dim]rows as they come, until Ctrl-C[/]
  CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id EMIT CHANGES;
  SELECT * FROM totals WHERE id = 'a'; [dim]the current row[/]

[bold]The session[/]

  SET 'auto.offset.reset' = 'earliest'; UNSET 'auto.offset.reset';
  DEFINE topic = 'orders'; [dim]and then[/] ${topic} [dim]in any statement;[/] UNDEFINE topic;
  RUN SCRIPT 'file.sql';

[bold]The shell[/] (no semicolon needed)

  help [dim]windows | joins | types | connectors | keys[/]    exit [dim]or Ctrl-D[/]    clear
  output [dim]TABULAR | JSON[/]    server [dim]URL[/]    spool [dim]FILE | OFF[/]    version
""",
    "windows": """\
  WINDOW TUMBLING (SIZE 1 MINUTE)
  WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 10 MINUTES)
  WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES)
  WINDOW SESSION (5 MINUTES)
Units: MILLISECONDS SECONDS MINUTES HOURS DAYS. The window follows FROM and its joins:
  SELECT id, COUNT(*) FROM orders WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id EMIT CHANGES;
EMIT FINAL instead of EMIT CHANGES gives one row for each window, when it closes.
""",
    "joins": """\
  stream and stream:  FROM a JOIN b WITHIN 1 HOUR [[GRACE PERIOD 5 MINUTES]] ON a.id = b.id
                      WITHIN (before, after) if the two differ
  stream and table:   FROM orders o LEFT JOIN users u ON o.user_id = u.id
  table and table:    FROM a FULL OUTER JOIN b ON a.id = b.id
INNER, LEFT, RIGHT and FULL OUTER; stream and table: INNER and LEFT only.
""",
    "types": """\
  BOOLEAN  INTEGER  BIGINT  DOUBLE  DECIMAL(p, s)  STRING  BYTES  DATE  TIME  TIMESTAMP
  ARRAY<INTEGER>  MAP<STRING, DOUBLE>  STRUCT<city STRING, no INTEGER>
  CREATE TYPE address AS STRUCT<city STRING, no INTEGER>; names a type.
Elements: array[1], map['key'], struct->field. Constructors:
  ARRAY[1, 2]  MAP('a' := 1)  STRUCT(city := 'Prague', no := 5)
""",
    "connectors": """\
  CREATE SOURCE CONNECTOR lines WITH ('connector.class'='FileStreamSource',
    'file'='/tmp/in.txt', 'topic'='lines');
  CREATE SINK CONNECTOR IF NOT EXISTS copy WITH ('connector.class'='FileStreamSink',
    'file'='/tmp/out.txt', 'topics'='lines');
  SHOW CONNECTORS; SHOW SOURCE CONNECTORS; SHOW SINK CONNECTORS;
  SHOW CONNECTOR PLUGINS; [dim]available classes[/]
  DESCRIBE CONNECTOR lines; DROP CONNECTOR IF EXISTS lines;
A Connect worker runs them: `ottla connect worker` starts one, and the server finds it by its
setting ksql.connect.url. A name keeps its case in back quotes: `lines`.
""",
    "keys": """\
  Enter     runs a statement that ends with a semicolon, else starts a new line
  Alt-Enter starts a new line always         Tab      completes
  Up, Down  previous statements              Ctrl-R   searches them
  Right     accepts the gray suggestion      Ctrl-C   ends a query, or clears the line
  Ctrl-D    exits
""",
}
