//! The file of an export: NDJSON, plain or compressed, or Parquet, as its name says. It gets its name
//! once it is whole and on the disk; until then it is a hidden one, which is deleted where that does not come about.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use braid_shared::block::Cell;
use braid_shared::cold::table::TableWriter;
use braid_shared::model::{FieldValue, Timestamp, ValueRef};
use braid_shared::stamp::Stamp;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::value::RawValue;
use tempfile::NamedTempFile;

use super::client::Failure;

/// Level of zstd, as for table files.
const ZSTD_LEVEL: i32 = 3;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

type Sink = BufWriter<File>;

pub(super) struct ExportFile {
    path: PathBuf,
    hidden: NamedTempFile,
    format: Format,
}

enum Format {
    Plain(Sink),
    Gzip(GzEncoder<Sink>),
    Zstd(zstd::Encoder<'static, Sink>),
    Parquet(Box<TableWriter<Sink>>),
}

/// An event as the server writes it.
#[derive(Deserialize)]
struct Line<'a> {
    key: String,
    id: String,
    ts: String,
    #[serde(borrow, default)]
    fields: BTreeMap<String, &'a RawValue>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

impl ExportFile {
    /// A file that will be `path`, which must not be there.
    pub(super) fn create(path: &Path) -> Result<ExportFile, Failure> {
        let failed = |error| local(path, &error);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} is there already", path.display())));
        }
        let hidden = tempfile::Builder::new().prefix(".braid-export-").permissions(Permissions::from_mode(0o666)).tempfile_in(dir_of(path));
        let hidden = hidden.map_err(failed)?;
        let sink = BufWriter::with_capacity(WRITE_BYTES, hidden.reopen().map_err(failed)?);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let format = match &*name {
            name if name.ends_with(".ndjson") => Format::Plain(sink),
            name if name.ends_with(".ndjson.gz") => Format::Gzip(GzEncoder::new(sink, Compression::default())),
            name if name.ends_with(".ndjson.zst") => Format::Zstd(zstd::Encoder::new(sink, ZSTD_LEVEL).map_err(failed)?),
            name if name.ends_with(".parquet") => {
                Format::Parquet(Box::new(TableWriter::export(sink).map_err(|error| failed(std::io::Error::other(error)))?))
            }
            _ => return Err(Failure::Usage(format!("{name}: no .ndjson, .ndjson.gz, .ndjson.zst or .parquet"))),
        };
        Ok(ExportFile { path: path.to_owned(), hidden, format })
    }

    /// Adds an event: a line with its end.
    pub(super) fn put(&mut self, line: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.format {
            Format::Plain(sink) => sink.write_all(line),
            Format::Gzip(sink) => sink.write_all(line),
            Format::Zstd(sink) => sink.write_all(line),
            Format::Parquet(table) => return put_row(table, line).map_err(|why| local(&self.path, &why)),
        };
        written.map_err(|error| local(&self.path, &error))
    }

    /// Ends the file, syncs it and gives it its name; its length.
    pub(super) fn finish(self) -> Result<u64, Failure> {
        let ExportFile { path, hidden, format } = self;
        let failed = |error| local(&path, &error);
        let sink = match format {
            Format::Plain(sink) => sink,
            Format::Gzip(sink) => sink.finish().map_err(failed)?,
            Format::Zstd(sink) => sink.finish().map_err(failed)?,
            Format::Parquet(table) => table.close().map_err(|error| failed(std::io::Error::other(error)))?,
        };
        let file = sink.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        hidden.persist_noclobber(&path).map_err(|error| failed(error.error))?;
        // Only now does its name outlast a crash too.
        File::open(dir_of(&path)).and_then(|dir| dir.sync_all()).map_err(failed)?;
        Ok(bytes)
    }
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn local(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Local(format!("{}: {why}", path.display()))
}

/// Adds an event to a table. The server does not tell when it was written: the columns for that are 0.
fn put_row(table: &mut TableWriter<Sink>, line: &[u8]) -> Result<(), String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| format!("an event that can't be read: {error}"))?;
    let ts = Timestamp::parse_rfc3339(&line.ts).map_err(|error| format!("{}: {error}", line.ts))?;
    let stamp = Stamp { time: 0, node: 0 };
    let values = line.fields.values().map(|value| field(value.get())).collect::<Result<Vec<_>, _>>()?;
    let fields = line.fields.keys().zip(&values).map(|(name, value)| Cell { tag: false, name, value: value.as_ref(), stamp });
    let tags = line.tags.iter().map(|(name, value)| Cell { tag: true, name, value: ValueRef::Str(value), stamp });
    let cells: Vec<Cell<'_>> = fields.chain(tags).collect();
    table.set_key(&line.key);
    table.push(ts.nanos(), &line.id, &cells, stamp).map_err(|error| error.to_string())
}

/// A field by the text of its value: a number with a point or an exponent is a double, any other an integer.
fn field(text: &str) -> Result<FieldValue, String> {
    let value = match text {
        "true" | "false" => Some(FieldValue::Bool(text == "true")),
        text if text.starts_with('"') => serde_json::from_str(text).map(FieldValue::Str).ok(),
        number if number.contains(['.', 'e', 'E']) => number.parse().map(FieldValue::F64).ok(),
        number => number.parse().map(FieldValue::I64).or_else(|_| number.parse().map(FieldValue::U64)).ok(),
    };
    value.ok_or_else(|| format!("a field that is {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_type_to_the_last_bit() {
        assert_eq!(field("3"), Ok(FieldValue::I64(3)));
        assert_eq!(field("18446744073709551615"), Ok(FieldValue::U64(u64::MAX)));
        assert_eq!(field("3.0"), Ok(FieldValue::F64(3.0)));
        assert_eq!(field("0.30000000000000004"), Ok(FieldValue::F64(0.1 + 0.2)));
        assert_eq!(field(r#""a\u0001b""#), Ok(FieldValue::Str("a\u{1}b".into())));
        assert!(field("null").is_err());
    }

    #[test]
    fn a_file_that_is_there_or_of_another_kind_is_refused_and_one_that_is_given_up_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("there.parquet"), "").unwrap();
        for name in ["there.parquet", "a.csv", "ndjson"] {
            assert!(matches!(ExportFile::create(&dir.path().join(name)), Err(Failure::Usage(_))), "{name}");
        }
        let mut given_up = ExportFile::create(&dir.path().join("a.ndjson")).unwrap();
        given_up.put(b"{}\n").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
