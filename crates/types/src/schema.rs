//! The JSON schemas of values that are texts in JSON, and of lists with a type of their own.
//!
//! Everything else derives its schema from its fields. `docs/schema/answers`, the OpenAPI document
//! and the schemas of MCP's tools all come from these.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::agents::{List, SessionId};
use crate::{CheckpointId, ObjectId, Reference, RelPath, Timestamp, Trigger, WorkspaceId};

macro_rules! text {
    ($kind:ty, $name:literal, $schema:tt) => {
        impl JsonSchema for $kind {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn schema_id() -> Cow<'static, str> {
                concat!("rappel_types::", $name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

text!(CheckpointId, "CheckpointId", {
    "type": "string",
    "description": "The id of a checkpoint, such as `chk_20261115_143022_k7f3`. An imported checkpoint keeps the id that it had.",
    "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$"
});
text!(WorkspaceId, "WorkspaceId", {
    "type": "string",
    "description": "The id of a workspace: 16 hexadecimal digits.",
    "pattern": "^[0-9a-f]{16}$"
});
text!(ObjectId, "ObjectId", {
    "type": "string",
    "description": "The hash of an object in the store.",
    "pattern": "^[0-9a-f]{64}$"
});
text!(SessionId, "SessionId", {
    "type": "string",
    "description": "The id of a session, such as `ses_20261115_143022_k7f3`, or the id that the agent gave.",
    "minLength": 1
});
text!(Timestamp, "Timestamp", {
    "type": "string",
    "description": "A moment: RFC 3339 in UTC, to the millisecond.",
    "format": "date-time"
});
text!(RelPath, "RelPath", {
    "type": "string",
    "description": "A path below the workspace's root. A byte that is not UTF-8 is written `\\xNN`, a backslash `\\\\`.",
    "minLength": 1
});
text!(Reference, "Reference", {
    "type": "string",
    "description": "Which checkpoint: an id, its unambiguous beginning, its number, `latest`, `REF~N` (N parents back) or `@{WHEN}`.",
    "minLength": 1
});

impl JsonSchema for Trigger {
    fn schema_name() -> Cow<'static, str> {
        "Trigger".into()
    }

    fn schema_id() -> Cow<'static, str> {
        "rappel_types::Trigger".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|trigger| trigger.as_str()).collect();
        json_schema!({
            "type": "string",
            "description": "Why a checkpoint was made.",
            "enum": names
        })
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Vec::<T>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}
