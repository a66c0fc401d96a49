//! The keyspace and its tables: how they are made, and a check that those found fit.

use std::collections::BTreeMap;

use scylla::client::session::Session;

use super::errors::{Request, corrupt, store_error};
use super::options::{CqlOptions, CqlTables, Replication};
use crate::store::{StoreError, StoreErrorKind};

/// A table: its columns in the order of its primary key, then the others.
struct Table {
    name: &'static str,
    /// Name, type and kind (as `system_schema` says it) of each column.
    columns: &'static [(&'static str, &'static str, &'static str)],
}

const PARTITION: &str = "partition_key";
const CLUSTERING: &str = "clustering";
const REGULAR: &str = "regular";

/// What must be there. Unsigned numbers are kept as the signed ones of the same bits, except in
/// `id`, whose bytes sort as the stamp does.
const TABLES: [Table; 4] = [
    Table {
        name: "blocks",
        columns: &[
            ("ns", "text", PARTITION),
            ("key", "text", PARTITION),
            ("bucket", "bigint", PARTITION),
            ("revision", "bigint", PARTITION),
            ("nonce", "int", PARTITION),
            ("suffix", "int", PARTITION),
            ("min_ts", "bigint", CLUSTERING),
            ("max_ts", "bigint", CLUSTERING),
            ("id", "blob", CLUSTERING),
            ("events", "int", REGULAR),
            ("size", "int", REGULAR),
            ("block", "blob", REGULAR),
        ],
    },
    Table { name: "documents", columns: &[("name", "text", PARTITION), ("etag", "bigint", REGULAR), ("content", "blob", REGULAR)] },
    Table { name: "keys", columns: &[("ns", "text", PARTITION), ("slot", "int", PARTITION), ("key", "text", CLUSTERING)] },
    Table { name: "days", columns: &[("ns", "text", PARTITION), ("key", "text", PARTITION), ("day", "int", CLUSTERING)] },
];

impl Table {
    fn primary_key(&self) -> String {
        let of = |kind| self.columns.iter().filter(move |column| column.2 == kind).map(|column| column.0).collect::<Vec<_>>().join(", ");
        match of(CLUSTERING) {
            none if none.is_empty() => format!("({})", of(PARTITION)),
            clustering => format!("({}), {clustering}", of(PARTITION)),
        }
    }

    fn create(&self, keyspace: &str, with: &str) -> String {
        let columns: String = self.columns.iter().map(|(name, of, _)| format!("{name} {of}, ")).collect();
        format!("CREATE TABLE IF NOT EXISTS {keyspace}.{} ({columns}PRIMARY KEY ({})){with}", self.name, self.primary_key())
    }
}

/// The statements that make the keyspace and its tables, in order.
fn statements(keyspace: &str, tables: &CqlTables, scylla: bool) -> Vec<String> {
    // ScyllaDB takes conditional writes only where tables are not in tablets.
    let tablets = if scylla { " AND tablets = {'enabled': false}" } else { "" };
    let mut all = vec![format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {}{tablets}", tables.replication)];
    all.extend(TABLES.iter().map(|table| {
        // Blocks come compressed.
        let with = match table.name {
            "blocks" => format!(" WITH compaction = {} AND compression = {{'enabled': 'false'}}", tables.compaction),
            _ => String::new(),
        };
        table.create(keyspace, &with)
    }));
    all
}

/// Makes what is missing. What is there stays as it is, also where it was made otherwise.
pub(super) async fn create(session: &Session, options: &CqlOptions, tables: &CqlTables) -> Result<(), StoreError> {
    let nodes = session.get_cluster_state().get_nodes_info().len();
    if let Replication::Everywhere(copies) = tables.replication
        && usize::from(copies) > nodes
    {
        let message = format!("{copies} copies need as many nodes, and the cluster has {nodes}");
        return Err(StoreError::new(StoreErrorKind::Unavailable, message));
    }
    let scylla = session.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some());
    for statement in statements(&options.keyspace, tables, scylla) {
        session.query_unpaged(statement, ()).await.map_err(|error| store_error(Request::Write, &error))?;
    }
    session.await_schema_agreement().await.map_err(|error| StoreError::new(StoreErrorKind::Unavailable, error.to_string()))?;
    Ok(())
}

/// Checks that the tables are there and are what this version writes.
pub(super) async fn check(session: &Session, keyspace: &str) -> Result<(), StoreError> {
    const COLUMNS: &str = "SELECT table_name, column_name, type, kind FROM system_schema.columns WHERE keyspace_name = ?";
    let answer = session.query_unpaged(COLUMNS, (keyspace,)).await.map_err(|error| store_error(Request::Read, &error))?;
    let answer = answer.into_rows_result().map_err(corrupt)?;
    let mut found = BTreeMap::new();
    for row in answer.rows::<(String, String, String, String)>().map_err(corrupt)? {
        let (table, column, of, kind) = row.map_err(corrupt)?;
        found.insert((table, column), (of, kind));
    }
    let faults = faults(&found);
    if faults.is_empty() {
        return Ok(());
    }
    let advice = if found.is_empty() { "; `braid store init` makes it" } else { "" };
    Err(StoreError::new(StoreErrorKind::Unavailable, format!("keyspace {keyspace} does not fit{advice}: {}", faults.join(", "))))
}

type Found = BTreeMap<(String, String), (String, String)>;

/// What is not as it must be. Columns that are not ours are let be.
fn faults(found: &Found) -> Vec<String> {
    let mut faults = Vec::new();
    for table in &TABLES {
        if !found.keys().any(|(name, _)| name == table.name) {
            faults.push(format!("table {} is missing", table.name));
            continue;
        }
        for (column, of, kind) in table.columns {
            let place = format!("{}.{column}", table.name);
            match found.get(&(table.name.to_owned(), (*column).to_owned())) {
                None => faults.push(format!("{place} is missing")),
                Some((is, as_kind)) if (is, as_kind) != (&(*of).to_owned(), &(*kind).to_owned()) => {
                    faults.push(format!("{place} is {is} ({as_kind}), not {of} ({kind})"));
                }
                Some(_) => {}
            }
        }
        let keys = found.iter().filter(|((name, _), (_, kind))| name == table.name && kind != REGULAR).count();
        if keys > table.columns.iter().filter(|column| column.2 != REGULAR).count() {
            faults.push(format!("{} has more columns in its primary key", table.name));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Found {
        let columns = TABLES.iter().flat_map(|table| table.columns.iter().map(|column| (table.name, column)));
        columns.map(|(table, (name, of, kind))| ((table.into(), (*name).into()), ((*of).into(), (*kind).into()))).collect()
    }

    #[test]
    fn tables_that_fit_have_no_fault() {
        assert_eq!(faults(&whole()), [""; 0]);
    }

    #[test]
    fn a_missing_table_a_missing_column_a_foreign_type_and_a_longer_key_are_named() {
        let mut found = whole();
        found.retain(|(table, column), _| table != "days" && column != "etag");
        found.insert(("blocks".into(), "id".into()), ("bigint".into(), CLUSTERING.into()));
        found.insert(("keys".into(), "more".into()), ("int".into(), CLUSTERING.into()));
        let faults = faults(&found);
        assert_eq!(faults.len(), 4, "{faults:?}");
        for (fault, about) in faults.iter().zip(["blocks.id is bigint", "documents.etag is missing", "keys has more", "table days"]) {
            assert!(fault.starts_with(about), "{fault}");
        }
    }

    #[test]
    fn only_blocks_are_compacted_by_time_and_only_scylla_hears_of_tablets() {
        let statements = statements("braid", &CqlTables::default(), false);
        let windowed: Vec<_> = statements.iter().filter(|statement| statement.contains("TimeWindow")).collect();
        assert!(matches!(windowed[..], [blocks] if blocks.contains("braid.blocks")), "{statements:?}");
        assert!(!statements[0].contains("tablets"));
        assert!(super::statements("braid", &CqlTables::default(), true)[0].ends_with("AND tablets = {'enabled': false}"));
    }
}
