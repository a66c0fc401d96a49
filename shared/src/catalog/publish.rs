//! Changes: what may be changed, and how a change becomes real.

use std::time::Duration;

use tokio::time::timeout;

use super::change::{Change, ChangeDocument, change_name};
use super::documents::encode;
use super::refresh::{change_at, stale};
use super::root::Root;
use super::settings::{check_key, check_layout};
use super::swap::Attempt;
use super::view::{ListedLayout, NamespaceView, Namespaces, Set};
use super::{Audit, Catalog, CatalogError, Intent, Known, NewLayout, NewNamespace, Policy, TRIES};
use crate::layout::{Layout, LayoutVersion};
use crate::limits::{KEYS_WITH_LAYOUTS_MAX, NAMESPACES_MAX, TIMELINE_LAYOUTS_MAX};
use crate::model::{Namespace, Timestamp};
use crate::promise::{PublishRefused, earliest_start, may_publish, may_withdraw};

/// Longest that the outcome of an unanswered swap is looked for; this node's other swaps wait for it.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);

/// What an operation found to do on the view at hand, with its answer.
pub(super) enum Plan<T> {
    /// Nothing: it is so already.
    Nothing(T),
    /// A change; the answer holds once it stands.
    Make(Change, T),
}

impl Catalog {
    /// Makes a namespace where there is none; gives whether it was made.
    pub async fn create_namespace(&self, ns: &Namespace, new: NewNamespace) -> Result<bool, CatalogError> {
        self.create_namespace_by(&Intent::default(), ns, new).await
    }

    /// As [`Catalog::create_namespace`], on record.
    pub async fn create_namespace_by(&self, by: &Intent, ns: &Namespace, new: NewNamespace) -> Result<bool, CatalogError> {
        new.check()?;
        self.change(by, |known, nonce, _| {
            let namespaces = &known.view.namespaces;
            if known.view.namespace(ns).is_some() {
                return Ok(Plan::Nothing(false));
            }
            bounded(namespaces.len(), NAMESPACES_MAX, "namespaces")?;
            let version = LayoutVersion { revision: 0, nonce };
            let layout = Layout { version, shards: new.shards, bucket: new.bucket, shard_by: new.shard_by.clone() };
            Ok(Plan::Make(Change::NamespaceMade { namespace: ns.clone(), layout, policy: new.policy.clone() }, true))
        })
        .await
    }

    /// Replaces a namespace's policy.
    pub async fn set_policy(&self, ns: &Namespace, policy: Policy) -> Result<(), CatalogError> {
        self.set_policy_by(&Intent::default(), ns, policy).await
    }

    /// As [`Catalog::set_policy`], on record, and only if the policy is the one that was looked at.
    pub async fn set_policy_by(&self, by: &Intent, ns: &Namespace, policy: Policy) -> Result<(), CatalogError> {
        policy.check()?;
        self.change(by, |known, _, _| {
            let view = found(known, ns)?;
            by.refuse_changed("the policy", view.policy_set.revision)?;
            if *view.policy == policy {
                return Ok(Plan::Nothing(()));
            }
            Ok(Plan::Make(Change::PolicySet { namespace: ns.clone(), policy: policy.clone() }, ()))
        })
        .await
    }

    /// Appends an epoch to a key's own timeline, or to the default one.
    pub async fn publish_layout(&self, ns: &Namespace, key: Option<&str>, new: NewLayout) -> Result<ListedLayout, CatalogError> {
        self.publish_layout_by(&Intent::default(), ns, key, new).await
    }

    /// As [`Catalog::publish_layout`], on record, and only if the timeline is the one that was looked at.
    pub async fn publish_layout_by(
        &self,
        by: &Intent,
        ns: &Namespace,
        key: Option<&str>,
        new: NewLayout,
    ) -> Result<ListedLayout, CatalogError> {
        key.map_or(Ok(()), check_key)?;
        self.change(by, |known, nonce, audit| {
            let view = found(known, ns)?;
            by.refuse_changed("the timeline", view.timeline_changed(key))?;
            let version = LayoutVersion { revision: known.root.revision + 1, nonce };
            let listed = plan_layout(view, key, &new, version, known.root.promise(), audit.at())?;
            let listed = ListedLayout { published: Some(audit.clone().into()), ..listed };
            let change = Change::LayoutPublished {
                namespace: ns.clone(),
                key: key.map(Into::into),
                from: listed.from.nanos(),
                layout: listed.layout.clone(),
            };
            Ok(Plan::Make(change, listed))
        })
        .await
    }

    /// Withdraws an epoch that begins at or after the promise. One that is withdrawn already stays so.
    pub async fn withdraw_layout(&self, ns: &Namespace, key: Option<&str>, version: u64) -> Result<ListedLayout, CatalogError> {
        self.withdraw_layout_by(&Intent::default(), ns, key, version).await
    }

    /// As [`Catalog::withdraw_layout`], on record, and only if the timeline is the one that was looked at.
    pub async fn withdraw_layout_by(
        &self,
        by: &Intent,
        ns: &Namespace,
        key: Option<&str>,
        version: u64,
    ) -> Result<ListedLayout, CatalogError> {
        if version == 0 {
            return Err(CatalogError::LayoutImmutable("layout 0 covers all time and can't be withdrawn".into()));
        }
        self.change(by, |known, _, audit| {
            let view = found(known, ns)?;
            let listed = view.listed(key).into_iter().find(|l| l.layout.version.revision == version);
            let listed = listed.ok_or(CatalogError::LayoutNotFound(version))?;
            if listed.is_withdrawn() {
                return Ok(Plan::Nothing(listed));
            }
            by.refuse_changed("the timeline", view.timeline_changed(key))?;
            refuse_begun(known.root.promise(), &listed)?;
            let (namespace, key) = (ns.clone(), key.map(Into::into));
            let change = Change::LayoutWithdrawn { namespace, key, version: listed.layout.version };
            let withdrawn = Set { revision: known.root.revision + 1, audit: Some(audit.clone().into()) };
            Ok(Plan::Make(change, ListedLayout { withdrawn: Some(withdrawn), ..listed }))
        })
        .await
    }

    /// Plans on a fresh view and commits, planning anew whenever another swap came before.
    pub(super) async fn change<T>(
        &self,
        by: &Intent,
        plan: impl Fn(&Known, u32, &Audit) -> Result<Plan<T>, CatalogError>,
    ) -> Result<T, CatalogError> {
        by.check()?;
        let _turn = self.writing.lock().await;
        for tried in 0..TRIES {
            let known = self.refreshed().await?;
            let audit = by.audit(self.clock.now());
            let (change, answer) = match plan(&known, self.dice.bits() as u32, &audit)? {
                Plan::Nothing(answer) => return Ok(answer),
                Plan::Make(change, answer) => (change, answer),
            };
            if self.commit(&known, change, audit).await? {
                return Ok(answer);
            }
            self.dice.back_off(tried).await;
        }
        Err(stale(format!("other nodes' changes came first in {TRIES} tries")))
    }

    /// Writes a change as a document of its own and swaps it into the root of `known`; gives whether
    /// it stands. An error other than [`CatalogError::Unknown`] means that it never will.
    async fn commit(&self, known: &Known, change: Change, audit: Audit) -> Result<bool, CatalogError> {
        let revision = known.root.revision + 1;
        let name = change_name(revision, self.dice.bits());
        let document = ChangeDocument { revision, before: known.root.head.clone(), change, audit: Some(audit) };
        let mut namespaces = known.view.namespaces.clone();
        namespaces.apply(&document).map_err(|fault| CatalogError::Invalid(fault.into()))?;
        self.documents.create(&name, encode(&document)).await?;
        let next = known.root.changed(name.clone());
        let stands = match self.attempt(known, next.clone(), namespaces.clone()).await {
            Ok(Attempt::Done) => Ok(true),
            // Lost too: to believe it would delete a document that the root may name.
            Ok(Attempt::Lost | Attempt::Open) => {
                timeout(SETTLE_DEADLINE, self.settle(known, &name, next, namespaces)).await.unwrap_or_else(|_| unknown(revision))
            }
            Err(error) => Err(error),
        };
        if !matches!(stands, Ok(true) | Err(CatalogError::Unknown(_))) {
            self.documents.discard([name]).await;
        }
        stands
    }

    /// Finds out what became of a swap that was not answered as done. While the root keeps the etag that the
    /// swap named it may still arrive, so the same swap is sent again; once the root has another one,
    /// its chain holds the change or never will.
    async fn settle(&self, known: &Known, name: &str, next: Root, namespaces: Namespaces) -> Result<bool, CatalogError> {
        let revision = next.revision;
        for tried in 0..TRIES {
            self.dice.back_off(tried).await;
            let Ok(read) = self.refreshed().await else { continue };
            if read.etag != known.etag {
                match change_at(&self.documents, &read.root, revision).await {
                    Ok(Some(found)) => return Ok(found == name),
                    Ok(None) => break,
                    Err(_) => continue,
                }
            }
            if let Ok(Attempt::Done) = self.attempt(known, next.clone(), namespaces.clone()).await {
                return Ok(true);
            }
        }
        unknown(revision)
    }
}

fn unknown(revision: u64) -> Result<bool, CatalogError> {
    Err(CatalogError::Unknown(format!("the swap to revision {revision} was not answered and can't be read back")))
}

/// The layout that a request gives, checked against the rules.
fn plan_layout(
    view: &NamespaceView,
    key: Option<&str>,
    new: &NewLayout,
    version: LayoutVersion,
    promise: Timestamp,
    now: Timestamp,
) -> Result<ListedLayout, CatalogError> {
    let history = view.history(key);
    if history.is_none() {
        bounded(view.own_keys(), KEYS_WITH_LAYOUTS_MAX, "keys with layouts of their own")?;
    }
    bounded(history.map_or(0, |h| h.len()), TIMELINE_LAYOUTS_MAX, "layouts of one timeline")?;
    let from = new.effective_from.unwrap_or_else(|| earliest_start(promise, now));
    may_publish(promise, history.and_then(|h| h.last_start()), from).map_err(conflict)?;
    let followed = match key {
        Some(key) => view.layout_at(key, from),
        None => view.default_at(from),
    };
    let bucket = new.bucket.unwrap_or(followed.bucket);
    let shard_by = new.shard_by.clone().unwrap_or_else(|| followed.shard_by.clone());
    check_layout(new.shards, bucket, &shard_by)?;
    Ok(ListedLayout { layout: Layout { version, shards: new.shards, bucket, shard_by }, from, published: None, withdrawn: None })
}

fn conflict(refused: PublishRefused) -> CatalogError {
    CatalogError::LayoutConflict(refused.to_string())
}

fn refuse_begun(promise: Timestamp, listed: &ListedLayout) -> Result<(), CatalogError> {
    if may_withdraw(promise, listed.from) {
        return Ok(());
    }
    let (version, from) = (listed.layout.version.revision, listed.from);
    Err(CatalogError::LayoutConflict(format!("layout {version} begins at {from}, below {promise}, where nothing changes any more")))
}

pub(super) fn found<'a>(known: &'a Known, ns: &Namespace) -> Result<&'a NamespaceView, CatalogError> {
    known.view.namespace(ns).map(|view| &**view).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))
}

fn bounded(have: usize, most: usize, what: &str) -> Result<(), CatalogError> {
    if have >= most {
        return Err(CatalogError::Invalid(format!("there may be no more than {most} {what}")));
    }
    Ok(())
}
