"""Classes of Google's protobuf for messages that a few lines of text define: no compiler, no generated files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "double": _FIELD.TYPE_DOUBLE,
    "uint64": _FIELD.TYPE_UINT64,
    "uint32": _FIELD.TYPE_UINT32,
    "sint64": _FIELD.TYPE_SINT64,
    "sint32": _FIELD.TYPE_SINT32,
    "int64": _FIELD.TYPE_INT64,
    "int32": _FIELD.TYPE_INT32,
}


def message_class(package: str, messages: Mapping[str, str], name: str) -> Any:
    """The class of one of the messages. messages: name -> `type field number; …`, with a * behind the type if it is repeated."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        for declaration in fields.split(";"):
            kind, field_name, number = declaration.split()
            field = message.field.add(name=field_name, number=int(number))
            field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
