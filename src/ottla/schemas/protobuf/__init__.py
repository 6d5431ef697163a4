"""Protobuf: .proto text, names, descriptors."""
