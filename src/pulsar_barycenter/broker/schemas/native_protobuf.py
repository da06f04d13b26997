"""PROTOBUF_NATIVE schemas: a JSON object with a descriptor set and the name of the root message.

Two of them are compatible if their root messages have the same full name. Source: Pulsar's `ProtobufNativeSchemaUtils`,
`ProtobufNativeSchemaCompatibilityCheck`.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from pulsar_barycenter.broker.schemas.avro.parsing import read_json
from pulsar_barycenter.broker.schemas.bounds import MAX_DESCRIPTOR_FILES
from pulsar_barycenter.broker.schemas.errors import InvalidSchemaError
from pulsar_barycenter.naming.counted import count_of


def root_message(data: bytes) -> str:
    """Return the full name of the root message of a definition.

    Raises:
        InvalidSchemaError: the definition is not valid, or its descriptor set does not have that message.
    """
    found = read_json(data)
    if not isinstance(found, dict):
        raise InvalidSchemaError("a PROTOBUF_NATIVE schema is a JSON object")
    name, file_name = _text(found, "rootMessageTypeName"), _text(found, "rootFileDescriptorName")
    file = next((file for file in _files(_text(found, "fileDescriptorSet")) if file.name == file_name), None)
    if file is None:
        raise InvalidSchemaError(
            f"the descriptor set has no file {file_name[:100]!r}, which rootFileDescriptorName names"
        )
    if not _has_message(file, name):
        raise InvalidSchemaError(
            f"file {file_name[:100]!r} has no message {name[:100]!r}, which rootMessageTypeName names"
        )
    return name


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidSchemaError(f"a PROTOBUF_NATIVE schema needs the field {key} with a string")
    return value


def _files(encoded: str) -> Iterable[FileDescriptorProto]:
    try:
        files = FileDescriptorSet.FromString(base64.b64decode(encoded, validate=True)).file
    except (binascii.Error, ValueError, DecodeError) as error:
        raise InvalidSchemaError(f"fileDescriptorSet is not a descriptor set in base64: {error}") from None
    if len(files) > MAX_DESCRIPTOR_FILES:
        raise InvalidSchemaError(
            f"the descriptor set has {count_of(len(files), 'file')}; at most {MAX_DESCRIPTOR_FILES} are allowed"
        )
    return files


def _has_message(file: FileDescriptorProto, full_name: str) -> bool:
    prefix = f"{file.package}." if file.package else ""
    if not full_name.startswith(prefix):
        return False
    messages: Iterable[DescriptorProto] = file.message_type
    for part in full_name[len(prefix) :].split("."):
        message = next((message for message in messages if message.name == part), None)
        if message is None:
            return False
        messages = message.nested_type
    return True
