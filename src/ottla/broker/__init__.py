"""The broker: where wire, storage, coordinators and the metadata store meet."""
