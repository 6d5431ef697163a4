"""Protobuf: .proto text, descriptors, messages as Python values."""
