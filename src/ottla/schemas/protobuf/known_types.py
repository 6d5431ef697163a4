"""Well-known files of every Protobuf installation: importing them needs no reference."""

from __future__ import annotations

_ENUMS = frozenset(
    (
        *("google.protobuf.NullValue", "google.protobuf.Syntax", "google.protobuf.Edition"),
        *(
            "google.protobuf.FieldDescriptorProto.Type",
            "google.protobuf.FieldDescriptorProto.Label",
        ),
        *("google.protobuf.Field.Kind", "google.protobuf.Field.Cardinality"),
        *("google.type.CalendarPeriod", "google.type.DayOfWeek", "google.type.Month"),
    )
)
_DESCRIPTOR = (
    *("FileDescriptorSet", "FileDescriptorProto", "DescriptorProto", "FieldDescriptorProto"),
    *("FieldDescriptorProto.Type", "FieldDescriptorProto.Label", "OneofDescriptorProto"),
    *("EnumDescriptorProto", "EnumValueDescriptorProto", "ServiceDescriptorProto"),
    *("MethodDescriptorProto", "ExtensionRangeOptions", "FileOptions", "MessageOptions"),
    *("FieldOptions", "OneofOptions", "EnumOptions", "EnumValueOptions", "ServiceOptions"),
    *("MethodOptions", "UninterpretedOption", "FeatureSet", "FeatureSetDefaults", "Edition"),
    *("SourceCodeInfo", "GeneratedCodeInfo"),
)
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "google/protobuf": {
        "any": ("Any",),
        "api": ("Api", "Method", "Mixin"),
        "descriptor": _DESCRIPTOR,
        "duration": ("Duration",),
        "empty": ("Empty",),
        "field_mask": ("FieldMask",),
        "source_context": ("SourceContext",),
        "struct": ("Struct", "Value", "NullValue", "ListValue"),
        "timestamp": ("Timestamp",),
        "type": (
            *("Type", "Field", "Field.Kind", "Field.Cardinality", "Enum", "EnumValue"),
            *("Option", "Syntax"),
        ),
        "wrappers": tuple(f"{name}Value" for name in _WRAPPERS),
    },
    "google/type": {
        "calendar_period": ("CalendarPeriod",),
        "color": ("Color",),
        "date": ("Date",),
        "datetime": ("DateTime", "TimeZone"),
        "dayofweek": ("DayOfWeek",),
        "decimal": ("Decimal",),
        "expr": ("Expr",),
        "fraction": ("Fraction",),
        "interval": ("Interval",),
        "latlng": ("LatLng",),
        "localized_text": ("LocalizedText",),
        "money": ("Money",),
        "month": ("Month",),
        "phone_number": ("PhoneNumber", "PhoneNumber.ShortCode"),
        "postal_address": ("PostalAddress",),
        "quaternion": ("Quaternion",),
        "timeofday": ("TimeOfDay",),
    },
    "confluent": {"meta": ("Meta",)},
    "confluent/type": {"decimal": ("Decimal",), "variant": ("Variant",)},
}

# Path of a file: full names of its types.
KNOWN_FILES: dict[str, tuple[str, ...]] = {
    f"{folder}/{name}.proto": tuple(f"{folder.replace('/', '.')}.{item}" for item in types)
    for folder, files in _FILES.items()
    for name, types in files.items()
}


def is_known_enum(name: str) -> bool:
    return name in _ENUMS
