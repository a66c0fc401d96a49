//! Logs: structured, on standard error. Metrics are registered by what they measure.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

/// Starts logging. A filter that can't be read is said and replaced by `info`.
pub(crate) fn init(settings: &Settings) {
    let (filter, fault) = match EnvFilter::try_new(&settings.log) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    if let Some(error) = fault {
        tracing::warn!(filter = settings.log, %error, "log filter not understood, logging info");
    }
}
