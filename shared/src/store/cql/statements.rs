//! Every statement of the store, prepared once, each with its consistency, whether it may be
//! repeated, and when the driver tries again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use scylla::client::session::Session;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

use super::connect;
use super::options::CqlOptions;
use crate::store::{StoreError, StoreErrorKind};

/// Longest a conditional write may take; then its outcome is unknown and is read back.
const SWAP_MAX: Duration = Duration::from_millis(2_500);

/// The columns of a partition, in the order of the key.
const PLACE: &str = "ns = ? AND key = ? AND bucket = ? AND revision = ? AND nonce = ? AND suffix = ?";

pub(super) struct Statements {
    pub(super) insert_block: PreparedStatement,
    pub(super) delete_block: PreparedStatement,
    pub(super) blocks_before: PreparedStatement,
    pub(super) sizes: PreparedStatement,
    pub(super) sizes_after: PreparedStatement,
    pub(super) read_document: PreparedStatement,
    pub(super) make_document: PreparedStatement,
    pub(super) swap_document: PreparedStatement,
    pub(super) delete_document: PreparedStatement,
    pub(super) note_key: PreparedStatement,
    pub(super) note_day: PreparedStatement,
    pub(super) keys_from: PreparedStatement,
    pub(super) keys_behind: PreparedStatement,
    pub(super) days: PreparedStatement,
    pub(super) clock: PreparedStatement,
}

/// How a statement is run.
#[derive(Clone, Copy)]
enum Mode {
    Read,
    /// Linearizable.
    SerialRead,
    /// Names its own timestamp, or writes what never changes.
    Write,
    /// Conditional: never tried again by the driver.
    Swap,
}

impl Statements {
    pub(super) async fn prepare(session: &Session, options: &CqlOptions) -> Result<Statements, StoreError> {
        let ks = &options.keyspace;
        let all = [
            // A block's timestamp is its id's time, on insert and delete alike: written again it is
            // the same cell, and, as a delete wins over a write of its own time, what was deleted
            // stays deleted however late an insert of it arrives.
            (
                Mode::Write,
                format!(
                    "INSERT INTO {ks}.blocks (ns, key, bucket, revision, nonce, suffix, min_ts, max_ts, id, events, size, block) \
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
                ),
            ),
            (Mode::Write, format!("DELETE FROM {ks}.blocks USING TIMESTAMP ? WHERE {PLACE} AND min_ts = ? AND max_ts = ? AND id = ?")),
            // A block that begins before the range may reach into it: so the partition is read from
            // its start, and what ends before the range is left out by the server. Only columns of
            // the primary key are filtered on, which never change, inside one partition.
            (
                Mode::Read,
                format!("SELECT min_ts, max_ts, id, block FROM {ks}.blocks WHERE {PLACE} AND min_ts < ? AND max_ts >= ? ALLOW FILTERING"),
            ),
            (Mode::Read, format!("SELECT ns, key, bucket, revision, nonce, suffix, events, size FROM {ks}.blocks")),
            (
                Mode::Read,
                format!(
                    "SELECT ns, key, bucket, revision, nonce, suffix, events, size FROM {ks}.blocks \
                     WHERE token(ns, key, bucket, revision, nonce, suffix) > token(?, ?, ?, ?, ?, ?)"
                ),
            ),
            (Mode::SerialRead, format!("SELECT etag, content FROM {ks}.documents WHERE name = ?")),
            (Mode::Swap, format!("INSERT INTO {ks}.documents (name, etag, content) VALUES (?, ?, ?) IF NOT EXISTS")),
            (Mode::Swap, format!("UPDATE {ks}.documents SET etag = ?, content = ? WHERE name = ? IF etag = ?")),
            (Mode::Swap, format!("DELETE FROM {ks}.documents WHERE name = ? IF EXISTS")),
            (Mode::Write, format!("INSERT INTO {ks}.keys (ns, slot, key) VALUES (?, ?, ?)")),
            (Mode::Write, format!("INSERT INTO {ks}.days (ns, key, day) VALUES (?, ?, ?)")),
            (Mode::Read, format!("SELECT key FROM {ks}.keys WHERE ns = ? AND slot = ? AND key >= ? AND key < ? LIMIT ?")),
            (Mode::Read, format!("SELECT key FROM {ks}.keys WHERE ns = ? AND slot = ? AND key > ? AND key < ? LIMIT ?")),
            (Mode::Read, format!("SELECT day FROM {ks}.days WHERE ns = ? AND key = ? AND day >= ? AND day <= ?")),
            (Mode::Read, "SELECT toTimestamp(now()) FROM system.local".to_owned()),
        ];
        let prepared = try_join_all(all.iter().map(|(mode, text)| prepare(session, options, *mode, text))).await?;
        let [
            insert_block,
            delete_block,
            blocks_before,
            sizes,
            sizes_after,
            read_document,
            make_document,
            swap_document,
            delete_document,
            note_key,
            note_day,
            keys_from,
            keys_behind,
            days,
            clock,
        ] = prepared.try_into().expect("as many as were asked for");
        Ok(Statements {
            insert_block,
            delete_block,
            blocks_before,
            sizes,
            sizes_after,
            read_document,
            make_document,
            swap_document,
            delete_document,
            note_key,
            note_day,
            keys_from,
            keys_behind,
            days,
            clock,
        })
    }
}

async fn prepare(session: &Session, options: &CqlOptions, mode: Mode, text: &str) -> Result<PreparedStatement, StoreError> {
    let failed = |error| StoreError::new(StoreErrorKind::Unavailable, format!("the cluster does not take {text:?}: {error}"));
    let mut statement = session.prepare(Statement::new(text)).await.map_err(failed)?;
    match mode {
        Mode::Read | Mode::SerialRead => {
            statement.set_is_idempotent(true);
            statement.set_execution_profile_handle(Some(connect::reads(options).into_handle()));
        }
        Mode::Write => statement.set_is_idempotent(true),
        Mode::Swap => {
            statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
            statement.set_request_timeout(Some(SWAP_MAX));
        }
    }
    if let Mode::SerialRead = mode {
        statement.set_consistency(options.scope.serial_read());
    }
    Ok(statement)
}
