"""Plans: a query and a catalog become stages from topics to a topic.

A plan is pure data: no Spark, no broker, no I/O. A stage reads its inputs, does at most one thing
that needs state, and writes its output.

    planner.py      plan_query: a push query, or the SELECT of a persistent one
    stages.py       what a plan is made of; its docstring explains the texts in it
    joins.py, aggregates.py, projection.py    the parts of a SELECT, with ksqlDB's rules
    spark_pull.py   pull queries that Spark answers
    explain.py      a plan as EXPLAIN shows it

`ottla.sql.run` runs plans on Spark; `ottla.sql.lowering` makes graphs of the engine from them.
"""

from ottla.sql.plan.explain import explain_plan as explain_plan
from ottla.sql.plan.planner import plan_query as plan_query
from ottla.sql.plan.sinks import SinkSpec as SinkSpec
from ottla.sql.plan.stages import QueryPlan as QueryPlan
