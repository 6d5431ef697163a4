"""A query and a catalog -> stages: pure data, with no Spark and no broker in sight."""

from ottla.sql.plan.explain import describe as describe
from ottla.sql.plan.planner import plan_query as plan_query
from ottla.sql.plan.sinks import SinkWish as SinkWish
from ottla.sql.plan.stages import Plan as Plan
