//! The stable code of every error, one constant each; docs/ERRORS.md tables them with status and advice.
//!
//! No statuses here: each tier chooses those in its own `http/problem.rs`.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        /// Every code, for the test that holds docs/ERRORS.md against this file.
        pub const ALL: &[&str] = &[$($text),*];
    };
}

codes! {
    // Rows (listed per event; the good rows of the request are stored).
    /// The event or line is not sound JSON or line protocol.
    EVENT_MALFORMED = "event_malformed";
    /// A member that events do not have.
    UNKNOWN_MEMBER = "unknown_member";
    /// A name given twice in one object, or a tag given twice in one line.
    DUPLICATE_NAME = "duplicate_name";
    /// A value of a type that its place does not take.
    TYPE_INVALID = "type_invalid";
    /// An integer beyond u64/i64, a number beyond f64, NaN or an infinity.
    NUMBER_OUT_OF_RANGE = "number_out_of_range";
    /// A string that is not UTF-8.
    INVALID_UTF8 = "invalid_utf8";
    /// No key.
    KEY_MISSING = "key_missing";
    /// An empty key.
    KEY_EMPTY = "key_empty";
    /// A key over its limit.
    KEY_TOO_LONG = "key_too_long";
    /// An id over its limit.
    ID_TOO_LONG = "id_too_long";
    /// A name, string field or tag value over its limit.
    STRING_TOO_LONG = "string_too_long";
    /// More fields than an event may have.
    TOO_MANY_FIELDS = "too_many_fields";
    /// More tags than an event may have.
    TOO_MANY_TAGS = "too_many_tags";
    /// An event over its limit in all.
    EVENT_TOO_LARGE = "event_too_large";
    /// Not a time.
    TIMESTAMP_INVALID = "timestamp_invalid";
    /// A time that does not fit i64 nanoseconds.
    TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range";
    /// A time beyond now + lead.
    TIMESTAMP_TOO_FAR_AHEAD = "timestamp_too_far_ahead";
    /// A time older than the policy's max_age, or in dropped history.
    TIMESTAMP_TOO_OLD = "timestamp_too_old";

    // Requests.
    /// A broken document, or a cut or corrupt compressed body.
    BODY_MALFORMED = "body_malformed";
    /// A body over its limit, as sent or decompressed.
    BODY_TOO_LARGE = "body_too_large";
    /// More events than a request may have.
    TOO_MANY_EVENTS = "too_many_events";
    /// More fields and tags than a request may have.
    TOO_MANY_VALUES = "too_many_values";
    /// An unknown content type.
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type";
    /// An unknown content encoding.
    UNSUPPORTED_ENCODING = "unsupported_encoding";
    /// An unknown, misspelt, repeated or malformed parameter or policy member.
    INVALID_PARAMETER = "invalid_parameter";
    /// Not a namespace's name.
    NAMESPACE_INVALID = "namespace_invalid";
    /// A namespace nobody wrote to.
    NAMESPACE_NOT_FOUND = "namespace_not_found";
    /// No such event.
    EVENT_NOT_FOUND = "event_not_found";
    /// No such layout.
    LAYOUT_NOT_FOUND = "layout_not_found";
    /// Layout 0 can't be changed.
    LAYOUT_IMMUTABLE = "layout_immutable";
    /// A layout's start is below the promise or not after the last one.
    LAYOUT_CONFLICT = "layout_conflict";
    /// What is to be changed has changed since the expected revision.
    REVISION_CONFLICT = "revision_conflict";
    /// A cold group is not an append beyond what is archived.
    GROUP_CONFLICT = "group_conflict";
    /// A cursor that was altered or belongs to another query.
    CURSOR_INVALID = "cursor_invalid";
    /// An answer over its bounds.
    RESULT_TOO_LARGE = "result_too_large";
    /// No such path.
    NOT_FOUND = "not_found";
    /// The path does not take the method.
    METHOD_NOT_ALLOWED = "method_not_allowed";
    /// No token, or a wrong one.
    UNAUTHORIZED = "unauthorized";
    /// The client was too slow to send its request.
    REQUEST_TIMEOUT = "request_timeout";

    // The service and what it stands on.
    /// More is in flight than the bounds allow; come back.
    OVERLOADED = "overloaded";
    /// The catalog can't be read, and the view at hand does not reach.
    LAYOUT_STALE = "layout_stale";
    /// Whether events were stored is not known; send them again.
    OUTCOME_UNKNOWN = "outcome_unknown";
    /// The store can't be reached.
    STORE_UNAVAILABLE = "store_unavailable";
    /// The store has no room.
    STORE_FULL = "store_full";
    /// The store takes no writes.
    STORE_READ_ONLY = "store_read_only";
    /// The store refuses the rate.
    STORE_THROTTLED = "store_throttled";
    /// Not every planned shard answered.
    SHARD_COUNT_MISMATCH = "shard_count_mismatch";
    /// A block that was read is damaged or of another place.
    BLOCK_DAMAGED = "block_damaged";
    /// A table file is missing or altered.
    TABLE_DAMAGED = "table_damaged";
    /// A database of table files can't be read now.
    TABLE_UNAVAILABLE = "table_unavailable";
    /// A read took longer than what it reads is sure to stand.
    READ_DEADLINE = "read_deadline";
    /// The server is shutting down.
    SHUTTING_DOWN = "shutting_down";
    /// A fault of Braid's own.
    INTERNAL = "internal";
}
