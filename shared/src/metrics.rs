//! Registering a metric where it is made. Owns no metric itself.

use prometheus::core::Collector;
use prometheus::{Error, Registry};

/// Registers `collector`, and gives it back to be counted with.
pub fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C, Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
