"""Stands in for test/service.py, which kafka-python's source distribution leaves out.

Its integration tests start a broker through that module, or use one that runs (KAFKA_URI). Only the
second way is used here, so there is nothing to start and nothing to stop.
"""


class ExternalService:
    def __init__(self, host, port):
        self.host = host
        self.port = port

    def dump_logs(self):
        pass

    def stop(self):
        pass


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("this suite runs against a broker that is already there: set KAFKA_URI")
