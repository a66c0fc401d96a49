//! Every limit of the service, named with its unit, in one place (the README tables them).

/// Longest logical key, bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest event id, bytes: a line's whole tag set fits.
pub const ID_BYTES_MAX: usize = 4 * 1024;
/// Most fields of one event.
pub const FIELDS_MAX: usize = 1_024;
/// Most tags of one event.
pub const TAGS_MAX: usize = 256;
/// Longest string: a field or tag name, a string field, a tag value, bytes.
pub const STRING_BYTES_MAX: usize = 16 * 1024;
/// Largest event: key, id, names and values together, bytes.
pub const EVENT_BYTES_MAX: usize = 64 * 1024;
/// Most events of one request.
pub const REQUEST_EVENTS_MAX: usize = 10_000;
/// Most fields and tags of one request, all its events together.
pub const REQUEST_VALUES_MAX: usize = 1_000_000;
/// Largest request body as sent, bytes.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest request body after decompression, bytes.
pub const REQUEST_DECODED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Deepest nesting of a JSON document.
pub const JSON_DEPTH_MAX: usize = 32;

/// Most events of one block.
pub const BLOCK_EVENTS_MAX: usize = 4_096;
/// Largest encoded block, bytes.
pub const BLOCK_BYTES_MAX: usize = 256 * 1024;

/// Fewest and most shards of a layout.
pub const SHARDS_MIN: u32 = 1;
/// Most shards of a layout.
pub const SHARDS_MAX: u32 = 4_096;
/// Narrowest bucket, seconds.
pub const BUCKET_SECONDS_MIN: i64 = 1;
/// Widest bucket, seconds (365 days).
pub const BUCKET_SECONDS_MAX: i64 = 365 * 86_400;

/// Longest namespace name, bytes (`[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}`).
pub const NAMESPACE_BYTES_MAX: usize = 64;

/// Longest name that whoever changes the catalog goes by, bytes.
pub const AUTHOR_BYTES_MAX: usize = 128;
/// Longest reason for a change of the catalog, bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// Most namespaces of one catalog.
pub const NAMESPACES_MAX: usize = 10_000;
/// Most keys of one namespace that have layouts of their own.
pub const KEYS_WITH_LAYOUTS_MAX: usize = 1_000_000;
/// Most layouts that were ever published on one timeline.
pub const TIMELINE_LAYOUTS_MAX: usize = 4_096;

/// `limit` of a page of events or keys when none is given.
pub const PAGE_ROWS_DEFAULT: usize = 1_000;
/// Largest `limit` of a page.
pub const PAGE_ROWS_MAX: usize = 10_000;
/// Most rows of an aggregate's answer.
pub const ANSWER_ROWS_MAX: usize = 100_000;
/// Most groups of an aggregate's answer.
pub const ANSWER_GROUPS_MAX: usize = 10_000;

/// Most tables of a cold group.
pub const COLD_TABLES_MAX: u32 = 4_096;
/// Most databases of a cold group.
pub const COLD_DATABASES_MAX: usize = 64;
/// Most cold groups of a namespace.
pub const COLD_GROUPS_MAX: usize = 1_024;
