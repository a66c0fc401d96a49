//! `GET /v1/{ns}/heat`: what is written how fast, and what the controller made of it.

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::catalog::{CatalogError, NamespaceView};
use braid_shared::heat::{HeatState, KeyDecision, KeyLoad, KeyPolicy, Rate, Tracked, mode, read_state, sum, targets};
use braid_shared::model::{Namespace, Span, Timestamp};
use serde_json::{Value, json};

use super::{Call, Place, json as json_answer, params};
use crate::error::QueryError;

/// Age from which on a report is of a node that is gone, seconds: three times as old as the rarest.
const FRESH_SECONDS_MAX: i64 = 30;
/// Suffixes shown of a key, the most written ones.
const SUFFIXES_SHOWN_MAX: usize = 16;

pub(super) async fn show(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["key", "limit"], &[])?;
    let (ns, limit) = (call.namespace()?, params::limit_or_default(&params)?);
    let wanted = params.get("key").map(params::checked_key).transpose()?;
    let view = call.query.catalog.refresh().await?;
    let namespace = view.namespace(&ns).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    let mut state = read_state(call.query.store.clone()).await?;
    let now = call.query.clock.now();
    state.reports.retain(|report| now.nanos().saturating_sub(report.at) < FRESH_SECONDS_MAX * Span::SECOND.nanos());
    let mut keys = keys(&ns, namespace, &state, now);
    keys.retain(|(key, _)| wanted.as_ref().is_none_or(|wanted| wanted == key));
    let keys: Vec<Value> = keys.into_iter().take(limit).map(|(_, shown)| shown).collect();
    let body = json!({
        "keys": keys,
        "mode": mode(namespace, now),
        "nodes": state.reports.iter().map(|report| node(report.at, &report.node, now, report.unseen)).collect::<Vec<_>>(),
        "leader": state.leader.filter(|leader| !leader.node.is_empty()).map(|leader| json!({"node": leader.node, "term": leader.term})),
        "revision": view.revision,
    });
    Ok(json_answer(StatusCode::OK, body.to_string().into_bytes()))
}

/// The keys that are written or were decided on, the most written first.
fn keys(ns: &Namespace, namespace: &NamespaceView, state: &HeatState, now: Timestamp) -> Vec<(String, Value)> {
    let loads = sum(&state.reports);
    let decisions = state.leader.iter().flat_map(|leader| &leader.decisions).filter(|decision| decision.ns == *ns);
    let decisions: Vec<&KeyDecision> = decisions.collect();
    let mut names: Vec<String> = loads.keys().filter(|tracked| tracked.ns == *ns).map(|tracked| tracked.key.to_string()).collect();
    names.extend(decisions.iter().map(|decision| decision.key.clone()));
    names.sort_unstable();
    names.dedup();
    let mut shown: Vec<(f64, String, Value)> = names
        .into_iter()
        .map(|key| {
            let version = namespace.layout_at(&key, now).version;
            let load = loads.get(&Tracked { ns: ns.clone(), key: key.as_str().into(), version }).cloned().unwrap_or_default();
            let decision = decisions.iter().find(|decision| decision.key == key).copied();
            (load.now.weight(), key.clone(), shown(&key, namespace, &load, decision, now))
        })
        .collect();
    shown.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    shown.into_iter().map(|(_, key, value)| (key, value)).collect()
}

fn shown(key: &str, namespace: &NamespaceView, load: &KeyLoad, decision: Option<&KeyDecision>, now: Timestamp) -> Value {
    let layout = namespace.layout_at(key, now);
    let targets = targets(&namespace.policy);
    let policy = KeyPolicy::of(namespace, key, now);
    let mut suffixes: Vec<_> = load.suffixes.iter().collect();
    suffixes.sort_by(|a, b| b.1.weight().total_cmp(&a.1.weight()).then(a.0.cmp(b.0)));
    let suffixes = suffixes.into_iter().take(SUFFIXES_SHOWN_MAX).map(|(suffix, rate)| json!({"suffix": suffix, "rate": rate_json(rate)}));
    json!({
        "key": key,
        "shards": layout.shards,
        "version": layout.version.revision,
        "min_shards": policy.bounds.min,
        "max_shards": policy.bounds.max,
        "rate": rate_json(&load.now),
        "window": rate_json(&load.window),
        "target": {"events": targets.events, "units": targets.units},
        "load": rounded(targets.load(&load.now)),
        "hottest": load.hottest(&targets).map(|(suffix, rate)| json!({"suffix": suffix, "rate": rate_json(&rate), "load": rounded(targets.load(&rate))})),
        "skew": load.skew(&targets, layout.shards).map(rounded),
        "suffixes": suffixes.collect::<Vec<_>>(),
        "decision": decision.map(decision_json),
    })
}

fn rate_json(rate: &Rate) -> Value {
    json!({"events": rate.events, "bytes": rate.bytes, "units": rate.units, "throttles": rate.throttles})
}

fn decision_json(decision: &KeyDecision) -> Value {
    let mut shown = json!(decision.action);
    shown["at"] = decision.at().to_string().into();
    shown["shards"] = decision.shards.into();
    shown["version"] = decision.version.into();
    shown["load"] = decision.total.into();
    shown["hottest"] = decision.hottest.into();
    shown["throttled"] = decision.throttled.into();
    shown["dry_run"] = decision.dry_run.into();
    shown["reason"] = decision.reason.clone().into();
    shown
}

fn node(at: i64, node: &str, now: Timestamp, unseen: f64) -> Value {
    let age_ms = now.nanos().saturating_sub(at).max(0) / 1_000_000;
    json!({"node": node, "at": Timestamp::from_nanos(at).to_string(), "age_ms": age_ms, "unseen": rounded(unseen)})
}

fn rounded(load: f64) -> f64 {
    (load * 1_000.0).round() / 1_000.0
}
