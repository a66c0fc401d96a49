//! Settings of the DynamoDB store. Who we are and which region: by the SDK's own chain.

use std::time::Duration;

use braid_shared::model::Span;
use braid_shared::store::dynamodb::{Billing, TableOptions};

use super::Reader;

/// Settings of the DynamoDB store.
#[derive(Clone, Debug)]
pub(crate) struct DynamoSettings {
    pub(crate) endpoint: Option<String>,
    pub(crate) table: String,
    pub(crate) ttl: Option<Duration>,
    /// For `braid store init`.
    pub(crate) new_table: TableOptions,
}

impl DynamoSettings {
    pub(super) fn read(read: &mut Reader<'_>) -> DynamoSettings {
        DynamoSettings {
            endpoint: read.optional("dynamodb-endpoint", url),
            table: read.parsed("dynamodb-table", String::new(), table),
            ttl: read.optional("dynamodb-ttl", |value| value.parse::<Span>().map(Span::duration).map_err(|why| why.to_string())),
            new_table: TableOptions {
                billing: read.parsed("dynamodb-billing", Billing::OnDemand, billing),
                point_in_time_recovery: read.boolean("dynamodb-recovery"),
                tags: read.optional("dynamodb-tags", tags).unwrap_or_default(),
            },
        }
    }
}

fn url(value: &str) -> Result<String, String> {
    let host = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
    host.filter(|host| !host.is_empty()).map(|_| value.to_owned()).ok_or_else(|| "a URL such as http://127.0.0.1:8000".into())
}

fn table(value: &str) -> Result<String, String> {
    let sound = (3..=255).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    sound.then(|| value.to_owned()).ok_or_else(|| "3 to 255 letters, digits, _ . -".into())
}

fn billing(value: &str) -> Result<Billing, String> {
    if value == "on-demand" {
        return Ok(Billing::OnDemand);
    }
    let units = |text: &str| text.parse().ok().filter(|units| *units >= 1);
    let provisioned =
        value.split_once(':').and_then(|(read, write)| Some(Billing::Provisioned { read: units(read)?, write: units(write)? }));
    provisioned.ok_or_else(|| "on-demand, or READ:WRITE units per second".into())
}

fn tags(value: &str) -> Result<Vec<(String, String)>, String> {
    let tag =
        |text: &str| text.split_once('=').filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.to_owned(), value.to_owned()));
    value.split(',').map(tag).collect::<Option<_>>().ok_or_else(|| "a list such as team=metrics,stage=test".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused() {
        assert_eq!(billing("100:50"), Ok(Billing::Provisioned { read: 100, write: 50 }));
        assert!(["", "100", "0:5", "a:b", "1:2:3"].iter().all(|value| billing(value).is_err()));
        assert_eq!(tags("a=b,c=").unwrap(), [("a".into(), "b".into()), ("c".into(), String::new())]);
        assert!(["", "a", "=b", "a=b,"].iter().all(|value| tags(value).is_err()));
        assert!(url("http://127.0.0.1:8000").is_ok() && url("127.0.0.1:8000").is_err() && url("http://").is_err());
        assert!(table("braid").is_ok() && table("ab").is_err() && table("a b c").is_err());
    }
}
