//! `/v1/namespaces`: every namespace; `/v1/namespaces/{ns}`: policy and first layout.

use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::catalog::{CatalogError, HeatMode, Intent, NamespaceView, NewNamespace, Policy};
use braid_shared::layout::{Layout, ShardBy};
use braid_shared::limits::STRING_BYTES_MAX;
use braid_shared::model::{Namespace, Span};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answers::AuditJson;
use super::{BODY_BYTES_MAX, Body, Call, Place, json as json_answer, params};
use crate::error::QueryError;

/// Layout 0 of a namespace that says nothing else.
const SHARDS_DEFAULT: u32 = 4;

/// A namespace's settings, as they are sent.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SettingsJson {
    shards: Option<u32>,
    bucket: Option<Span>,
    shard_by: Option<String>,
    archive_after: Option<Span>,
    retention: Option<Span>,
    max_age: Option<Span>,
    min_shards: Option<u32>,
    max_shards: Option<u32>,
    eventual_reads: bool,
    heat: Option<HeatMode>,
    target_events: Option<u32>,
    target_units: Option<u32>,
    author: Option<String>,
    reason: Option<String>,
    expected_revision: Option<u64>,
}

/// A page of all namespaces, in the order of their names.
pub(super) async fn list(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["after", "limit"], &[])?;
    let (after, limit) = (params.get("after"), params::limit_or_default(&params)?);
    let view = call.query.catalog.refresh().await?;
    let mut names: Vec<_> = view.namespaces().filter(|ns| after.is_none_or(|after| ns.as_str() > after)).collect();
    names.sort_unstable();
    let next = (names.len() > limit).then(|| names[limit - 1].as_str());
    let listed = names.iter().take(limit).filter_map(|ns| view.namespace(ns).map(|namespace| description(ns, namespace)));
    let listed = listed.collect::<Result<Vec<_>, _>>()?;
    let body = json!({"namespaces": listed, "next": next, "revision": view.revision});
    Ok(json_answer(StatusCode::OK, body.to_string().into_bytes()))
}

pub(super) async fn show(call: Call, _place: Place) -> Result<Response, QueryError> {
    call.params(&[], &[])?;
    described(&call, &call.namespace()?, StatusCode::OK).await
}

pub(super) async fn put(call: Call, _place: Place, body: Body) -> Result<Response, QueryError> {
    call.params(&[], &[])?;
    let ns = call.namespace()?;
    let settings: SettingsJson = parse_body(body)?;
    let shard_by = settings.shard_by.as_deref().map(parse_shard_by).transpose()?;
    let by = settings.intent();
    let catalog = &call.query.catalog;
    if catalog.refresh().await?.namespace(&ns).is_none() {
        let new = NewNamespace {
            shards: settings.shards.unwrap_or(SHARDS_DEFAULT),
            bucket: settings.bucket.unwrap_or(Span::HOUR),
            shard_by: shard_by.clone().unwrap_or_default(),
            policy: settings.policy(),
        };
        if catalog.create_namespace_by(&by, &ns, new).await? {
            return described(&call, &ns, StatusCode::CREATED).await;
        }
    }
    let view = catalog.refresh().await?;
    let namespace = view.namespace(&ns).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    settings.agree_with(&first_layout(namespace)?, shard_by.as_ref())?;
    catalog.set_policy_by(&by, &ns, settings.policy()).await?;
    described(&call, &ns, StatusCode::OK).await
}

impl SettingsJson {
    fn policy(&self) -> Policy {
        Policy {
            archive_after: self.archive_after,
            retention: self.retention,
            max_age: self.max_age,
            min_shards: self.min_shards,
            max_shards: self.max_shards,
            eventual_reads: self.eventual_reads,
            heat: self.heat,
            target_events: self.target_events,
            target_units: self.target_units,
        }
    }

    fn intent(&self) -> Intent {
        let expected_revision = self.expected_revision;
        Intent { author: self.author.clone(), reason: self.reason.clone(), automatic: false, expected_revision }
    }

    /// Layout 0 stands; giving it again as it is changes nothing.
    fn agree_with(&self, first: &Layout, shard_by: Option<&ShardBy>) -> Result<(), CatalogError> {
        let same = self.shards.is_none_or(|shards| shards == first.shards)
            && self.bucket.is_none_or(|bucket| bucket == first.bucket)
            && shard_by.is_none_or(|shard_by| *shard_by == first.shard_by);
        if same {
            return Ok(());
        }
        let Layout { shards, bucket, shard_by, .. } = first;
        let first = format!("shards {shards}, bucket {bucket}, shard_by {shard_by}");
        Err(CatalogError::LayoutImmutable(format!("the namespace was made with {first}; publish a layout to change what comes")))
    }
}

fn first_layout(namespace: &NamespaceView) -> Result<Layout, QueryError> {
    let first = namespace.listed(None).into_iter().next();
    first.map(|listed| listed.layout).ok_or_else(|| QueryError::Internal("a namespace without layouts".into()))
}

/// Answers with a namespace as the catalog has it now.
async fn described(call: &Call, ns: &Namespace, status: StatusCode) -> Result<Response, QueryError> {
    let view = call.query.catalog.refresh().await?;
    let namespace = view.namespace(ns).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    let mut body = description(ns, namespace)?;
    body["revision"] = view.revision.into();
    Ok(json_answer(status, body.to_string().into_bytes()))
}

/// A namespace's policy and first layout.
fn description(ns: &Namespace, namespace: &NamespaceView) -> Result<Value, QueryError> {
    let first = first_layout(namespace)?;
    let policy = &namespace.policy;
    Ok(json!({
        "namespace": ns.as_str(),
        "shards": first.shards,
        "bucket": first.bucket.to_string(),
        "shard_by": first.shard_by.to_string(),
        "archive_after": span(policy.archive_after),
        "retention": span(policy.retention),
        "max_age": span(policy.max_age),
        "min_shards": policy.min_shards,
        "max_shards": policy.max_shards,
        "eventual_reads": policy.eventual_reads,
        "heat": policy.heat,
        "target_events": policy.target_events,
        "target_units": policy.target_units,
        "changed": namespace.policy_set.audit.as_deref().map(AuditJson::from),
    }))
}

fn span(span: Option<Span>) -> Value {
    span.map(|span| span.to_string()).into()
}

/// `id`, or a tag's name.
pub(super) fn parse_shard_by(text: &str) -> Result<ShardBy, QueryError> {
    match ShardBy::from(text.to_owned()) {
        ShardBy::Tag(name) if name.is_empty() || name.len() > STRING_BYTES_MAX => {
            Err(QueryError::Invalid("shard_by is \"id\" or a tag's name".into()))
        }
        sound => Ok(sound),
    }
}

/// Reads a JSON body; an empty one is an empty object.
pub(super) fn parse_body<T: DeserializeOwned>(body: Body) -> Result<T, QueryError> {
    let bytes = body.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => QueryError::BodyTooLarge(BODY_BYTES_MAX),
        other => QueryError::Invalid(other.body_text()),
    })?;
    let text = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes.trim_ascii() };
    // Derived decoding would take an array for the members in order.
    if text[0] != b'{' {
        return Err(QueryError::Invalid("the body is not a JSON object".into()));
    }
    serde_json::from_slice(text).map_err(|error| QueryError::Invalid(format!("the body: {error}")))
}
