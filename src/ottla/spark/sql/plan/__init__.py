"""A query and a catalog -> stages: pure data, with no Spark and no broker in sight."""

from ottla.spark.sql.plan.explain import describe as describe
from ottla.spark.sql.plan.planner import plan_query as plan_query
from ottla.spark.sql.plan.sinks import SinkWish as SinkWish
from ottla.spark.sql.plan.stages import Plan as Plan
