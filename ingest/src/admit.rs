//! Step: decide which rows may be written, and by which view of the catalog they are placed.
//!
//! The rule of the promise (DESIGN section 3): a row is placed only by a view whose horizon lies
//! above its time. All rows of a request are placed by one view. Nothing is ever guessed: where no
//! such view is to be had, the request is refused whole.

use std::sync::Arc;

use braid_shared::catalog::{Catalog, CatalogError, NamespaceView, NewNamespace, Policy};
use braid_shared::codes;
use braid_shared::layout::ShardBy;
use braid_shared::model::{Batch, Namespace, Row, RowFault, Span, Timestamp};
use braid_shared::promise::accepts;

use crate::fault::Fault;

/// Shards of the first layout of a namespace that its first write makes.
const SHARDS_DEFAULT: u32 = 4;

/// Leaves the rows that may be written in `batch`, and gives the timelines that place them; `None`
/// where no row is left.
pub(crate) async fn admit(
    ns: &Namespace,
    batch: &mut Batch<'_>,
    now: Timestamp,
    catalog: &Arc<Catalog>,
    auto_create: bool,
) -> Result<Option<Arc<NamespaceView>>, Fault> {
    refuse_far_ahead(batch, now, catalog.view().shared.lead);
    let Some(known) = namespace(ns, catalog, auto_create && !batch.rows.is_empty(), auto_create).await? else {
        return Ok(None);
    };
    if let Some(max_age) = known.policy.max_age {
        refuse_old(batch, now, max_age);
    }
    refuse_dropped(batch, known.cold.dropped);
    let Some(latest) = batch.rows.iter().filter_map(|row| row.ts).max() else {
        return Ok(None);
    };
    let view = catalog.cover(latest).await?;
    let placing = view.namespace(ns).filter(|_| accepts(view.horizon, latest));
    placing.cloned().map(Some).ok_or_else(|| Fault::new(codes::LAYOUT_STALE, "the view of the catalog does not reach the events' times"))
}

/// The namespace, made where it may be; unknown is an error unless `missing_ok`.
async fn namespace(ns: &Namespace, catalog: &Catalog, make: bool, missing_ok: bool) -> Result<Option<Arc<NamespaceView>>, Fault> {
    match catalog.namespace(ns).await {
        Ok((_, known)) => Ok(Some(known)),
        Err(CatalogError::NamespaceNotFound(_)) if make => {
            catalog.create_namespace(ns, first_layout()).await?;
            Ok(Some(catalog.namespace(ns).await?.1))
        }
        Err(CatalogError::NamespaceNotFound(_)) if missing_ok => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a namespace is made with unless told otherwise.
pub(crate) fn first_layout() -> NewNamespace {
    NewNamespace { shards: SHARDS_DEFAULT, bucket: Span::HOUR, shard_by: ShardBy::Id, policy: Policy::default() }
}

fn refuse_far_ahead(batch: &mut Batch<'_>, now: Timestamp, lead: Span) {
    let limit = now.saturating_add(lead);
    refuse(
        batch,
        codes::TIMESTAMP_TOO_FAR_AHEAD,
        |ts| ts >= limit,
        |ts| format!("{ts} is not before {limit}, {lead} ahead of the server's clock"),
    );
}

fn refuse_old(batch: &mut Batch<'_>, now: Timestamp, max_age: Span) {
    let limit = now.saturating_sub(max_age);
    refuse(batch, codes::TIMESTAMP_TOO_OLD, |ts| ts < limit, |ts| format!("{ts} is before {limit}; the namespace's max_age is {max_age}"));
}

fn refuse_dropped(batch: &mut Batch<'_>, dropped: Timestamp) {
    refuse(
        batch,
        codes::TIMESTAMP_TOO_OLD,
        |ts| ts < dropped,
        |ts| format!("{ts} is before {dropped}; the namespace dropped that history"),
    );
}

/// Turns the rows whose time is `wrong` into faults.
fn refuse(batch: &mut Batch<'_>, code: &'static str, wrong: impl Fn(Timestamp) -> bool, why: impl Fn(Timestamp) -> String) {
    let faults = &mut batch.faults;
    batch.rows.retain(|row: &Row<'_>| match row.ts {
        Some(ts) if wrong(ts) => {
            faults.push(RowFault { index: row.index, line: row.line, code, detail: why(ts) });
            false
        }
        _ => true,
    });
}
