"""Statements carried out, in one order on all servers, and their queries kept running on one.

`engine.py` is the door. `commands.py` and `follower.py` are the command topic, `changes.py` is what
a statement makes of the state, `lease.py` and `runs.py` see to it that one server runs what is
wanted, `workers.py` has Spark, tables and producers; the rest is what is answered.
"""
