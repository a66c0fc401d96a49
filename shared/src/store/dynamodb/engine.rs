//! One call to the engine: bounded in flight, counted, its error classified, the engine's health noted.

use std::error::Error;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::failure::{Failure, Kind};
use super::retry::{Budgets, Tries};
use super::units::Units;
use crate::store::{StoreError, StoreErrorKind};

/// From when on an engine that answers nothing is said to be down.
const DOWN_AFTER: Duration = Duration::from_secs(5);

/// The engine, as every operation uses it.
pub(super) struct Engine {
    pub(super) client: Client,
    pub(super) table: String,
    pub(super) units: Units,
    pub(super) budgets: Budgets,
    permits: Semaphore,
    down: Mutex<Option<Down>>,
}

/// Since when every call failed, and how the last one did.
struct Down {
    since: Instant,
    last: String,
}

impl Engine {
    pub(super) fn new(client: Client, table: String, units: Units, in_flight: usize) -> Engine {
        Engine { client, table, units, budgets: Budgets::default(), permits: Semaphore::new(in_flight), down: Mutex::default() }
    }

    /// Sends one attempt.
    pub(super) async fn call<T, E>(&self, operation: &'static str, send: impl Future<Output = Result<T, SdkError<E>>>) -> Result<T, Failure>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let _permit = self.permits.acquire().await.map_err(|_| Failure::new(Kind::Refused, "the store is closed"))?;
        self.units.requested(operation);
        let outcome = send.await.map_err(|error| Failure::of(operation, &error));
        self.note(outcome.as_ref().err());
        outcome
    }

    /// Repeats a read until it is answered, or its deadline has come.
    pub(super) async fn read<T, F>(&self, allowed: Duration, mut attempt: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = Tries::of_read(allowed);
        loop {
            match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => self.try_again(&mut tries, failure, Duration::ZERO).await?,
            }
        }
    }

    /// Waits before another attempt, and counts it; the error to give where there is none.
    pub(super) async fn try_again(&self, tries: &mut Tries, failure: Failure, least: Duration) -> Result<(), StoreError> {
        let kind = failure.kind;
        tries.again(failure, least).await?;
        self.units.retried(kind);
        Ok(())
    }

    fn note(&self, failure: Option<&Failure>) {
        let mut down = self.down.lock().expect("no holder panics");
        match failure {
            None => *down = None,
            Some(failure) if matches!(failure.kind, Kind::Condition | Kind::Throttled(_)) => *down = None,
            Some(failure) => {
                let since = down.as_ref().map_or_else(Instant::now, |down| down.since);
                *down = Some(Down { since, last: failure.to_string() });
            }
        }
    }

    /// Whether the engine answers.
    pub(super) fn health(&self) -> Result<(), StoreError> {
        match &*self.down.lock().expect("no holder panics") {
            Some(down) if down.since.elapsed() > DOWN_AFTER => {
                let seconds = down.since.elapsed().as_secs();
                Err(StoreError::new(StoreErrorKind::Unavailable, format!("no call succeeded for {seconds} s: {}", down.last)))
            }
            _ => Ok(()),
        }
    }
}
