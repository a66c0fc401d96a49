//! The catalog's documents: conditional writes, and reads at the consistency that sees what they decided.
//!
//! Every write of this table is conditional: a plain one beside them would break their order.

use bytes::Bytes;
use scylla::response::query_result::QueryResult;
use scylla::value::{CqlValue, Row};

use super::CqlStore;
use super::errors::{Request, corrupt, store_error};
use crate::store::{Document, StoreError, Swap};

/// Whether a conditional write was applied: the first column of its answer says so.
fn applied(answer: QueryResult) -> Result<bool, StoreError> {
    let answer = answer.into_rows_result().map_err(corrupt)?;
    let row = answer.first_row::<Row>().map_err(corrupt)?;
    match row.columns.first() {
        Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
        other => Err(corrupt(format!("a conditional write was answered with {other:?}"))),
    }
}

impl CqlStore {
    pub(super) async fn document(&self, name: &str) -> Result<Option<Document>, StoreError> {
        let answer = self.session.execute_unpaged(&self.statements.read_document, (name,)).await;
        let answer = answer.map_err(|error| store_error(Request::Read, &error))?.into_rows_result().map_err(corrupt)?;
        let row = answer.maybe_first_row::<(i64, Bytes)>().map_err(corrupt)?;
        // Its own copy: the answer's frame must not live as long as the document.
        Ok(row.map(|(etag, content)| Document { bytes: Bytes::copy_from_slice(&content), etag: etag.cast_unsigned() }))
    }

    /// The new etag is random, so that none is ever given twice, also where the document was deleted between.
    pub(super) async fn compare_and_swap(&self, name: &str, expected: Option<u64>, content: Bytes) -> Result<Swap, StoreError> {
        let etag: u64 = rand::random();
        let new = etag.cast_signed();
        let answer = match expected {
            None => self.session.execute_unpaged(&self.statements.make_document, (name, new, content)).await,
            Some(old) => self.session.execute_unpaged(&self.statements.swap_document, (new, content, name, old.cast_signed())).await,
        };
        let applied = applied(answer.map_err(|error| store_error(Request::Swap, &error))?)?;
        Ok(if applied { Swap::Done(etag) } else { Swap::Conflict })
    }

    pub(super) async fn discard(&self, name: &str) -> Result<(), StoreError> {
        let answer = self.session.execute_unpaged(&self.statements.delete_document, (name,)).await;
        answer.map(drop).map_err(|error| store_error(Request::Swap, &error))
    }
}
