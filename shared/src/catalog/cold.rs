//! What the catalog keeps of cold history: closing, dropped and groups, changed by the rules of
//! [`crate::cold::rules`]. What is archived stands in the manifest, not here.

use super::change::Change;
use super::publish::{Plan, found};
use super::{Catalog, CatalogError, Intent};
use crate::cold::group::GroupFault;
use crate::cold::rules::raised;
use crate::cold::{Facts, Group};
use crate::model::{Namespace, Timestamp};

impl Catalog {
    /// Makes buckets that end by `to` due (COLD-1), as far as the promise reaches: beyond it a
    /// bucket's layout may still change. Gives what stands then.
    pub async fn raise_closing(&self, ns: &Namespace, to: Timestamp) -> Result<Facts, CatalogError> {
        self.change(&automatic(), |known, _, _| {
            let stands = found(known, ns)?.cold;
            let Some(closing) = raised(stands.closing, to.min(known.root.promise())) else { return Ok(Plan::Nothing(stands)) };
            Ok(Plan::Make(Change::ClosingRaised { namespace: ns.clone(), to: closing.nanos() }, Facts { closing, ..stands }))
        })
        .await
    }

    /// Drops what lies before `to` (COLD-1), as far as the promise reaches. Gives what stands then.
    pub async fn raise_dropped(&self, ns: &Namespace, to: Timestamp) -> Result<Facts, CatalogError> {
        self.change(&automatic(), |known, _, _| {
            let stands = found(known, ns)?.cold;
            let Some(dropped) = raised(stands.dropped, to.min(known.root.promise())) else { return Ok(Plan::Nothing(stands)) };
            Ok(Plan::Make(Change::DroppedRaised { namespace: ns.clone(), to: dropped.nanos() }, Facts { dropped, ..stands }))
        })
        .await
    }

    /// Appends a cold group (COLD-10); the first one has no `from`. Gives where it begins. That its
    /// databases can be reached is the caller's to check. The last group given again changes nothing.
    pub async fn add_group(&self, ns: &Namespace, from: Option<Timestamp>, group: Group) -> Result<Timestamp, CatalogError> {
        self.change(&Intent::default(), |known, _, _| {
            let view = found(known, ns)?;
            if let Some((last, same)) = view.groups.listed().last()
                && (*same == group && last == from.unwrap_or(Timestamp::MIN))
            {
                return Ok(Plan::Nothing(last));
            }
            let mut groups = (*view.groups).clone();
            let from = groups.append(view.cold.closing, from, group.clone()).map_err(refused)?;
            Ok(Plan::Make(Change::GroupAdded { namespace: ns.clone(), from: from.nanos(), group: group.clone() }, from))
        })
        .await
    }
}

/// What nobody in particular wants.
fn automatic() -> Intent {
    Intent { automatic: true, ..Intent::default() }
}

fn refused(fault: GroupFault) -> CatalogError {
    match fault {
        GroupFault::Invalid(why) => CatalogError::Invalid(why),
        GroupFault::Refused(refused) => CatalogError::GroupConflict(refused.to_string()),
    }
}
