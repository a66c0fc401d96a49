//! Paths of table files below a database's URL:
//! `{ns}/cold/g3/t0007/2026-11-29T12-1h/0001-9f3c…-0.parquet`.
//!
//! Pure. No part of a path is `name=value`, which engines would read as a column, and no part is
//! made of anything a user wrote but the namespace, whose alphabet is safe. A file's name holds 128
//! random bits of the generation that wrote it, so no name is ever used twice.

use crate::model::{Namespace, Span, Timestamp};

/// The directory below a namespace that holds its tables.
const COLD: &str = "cold";

/// The directory of everything that a namespace keeps in a database.
pub fn namespace_dir(ns: &Namespace) -> String {
    format!("{ns}/{COLD}")
}

/// The directory of a bucket's table files.
pub fn bucket_dir(ns: &Namespace, group: u32, table: u32, bucket: Timestamp, width: Span) -> String {
    format!("{ns}/{COLD}/g{group}/t{table:04}/{}-{width}", instant(bucket))
}

/// The path of one file of a generation.
pub fn file_path(dir: &str, generation: u64, nonce: u128, number: usize) -> String {
    format!("{dir}/{generation:04}-{nonce:032x}-{number}.parquet")
}

/// The random bits in a file's path, if it is one of ours.
pub fn nonce_of(path: &str) -> Option<u128> {
    let name = path.rsplit('/').next()?.strip_suffix(".parquet")?;
    let mut parts = name.split('-');
    let (_generation, nonce, _number) = (parts.next()?, parts.next()?, parts.next()?);
    if nonce.len() != 32 || parts.next().is_some() { None } else { u128::from_str_radix(nonce, 16).ok() }
}

/// A bucket's start to the hour, and further only where it must be; without colons, which some file systems refuse.
fn instant(bucket: Timestamp) -> String {
    let text = bucket.to_string();
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    let digits: String = time.chars().filter(char::is_ascii_digit).take(6).collect();
    let short = match (digits.get(2..4), digits.get(4..6)) {
        (Some("00"), Some("00")) => digits.get(..2),
        (_, Some("00")) => digits.get(..4),
        _ => Some(&*digits),
    };
    format!("{date}T{}", short.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(text: &str, width: &str) -> String {
        let bucket = if text.is_empty() { Timestamp::MIN } else { Timestamp::parse_rfc3339(text).unwrap() };
        bucket_dir(&"shop".parse().unwrap(), 3, 7, bucket, width.parse().unwrap())
    }

    #[test]
    fn a_path_says_group_table_and_bucket() {
        assert_eq!(dir("2026-11-29T12:00:00Z", "1h"), "shop/cold/g3/t0007/2026-11-29T12-1h");
        assert_eq!(dir("2026-11-29T00:00:00Z", "1d"), "shop/cold/g3/t0007/2026-11-29T00-1d");
        assert_eq!(dir("2026-11-29T12:30:00Z", "30m"), "shop/cold/g3/t0007/2026-11-29T1230-30m");
        assert_eq!(dir("2026-11-29T12:30:05Z", "5s"), "shop/cold/g3/t0007/2026-11-29T123005-5s");
        assert_eq!(dir("", "1h"), "shop/cold/g3/t0007/1677-09-21T001243-1h");
    }

    #[test]
    fn no_part_of_a_path_can_be_read_as_a_column() {
        let path = file_path(&dir("2026-11-29T12:30:05Z", "5s"), 12, u128::MAX, 3);
        assert_eq!(path, "shop/cold/g3/t0007/2026-11-29T123005-5s/0012-ffffffffffffffffffffffffffffffff-3.parquet");
        assert!(!path.contains(['=', ':', ' ']));
    }

    #[test]
    fn the_generation_that_wrote_a_file_is_in_its_name() {
        let path = file_path("a/cold/g1/t0000/x", 1, 0xabc, 0);
        assert_eq!(nonce_of(&path), Some(0xabc));
        for other in ["a/b.parquet", "a/0001-zz-0.parquet", "x", "a/0001-00000000000000000000000000000abc-0.parquet.tmp"] {
            assert_eq!(nonce_of(other), None, "{other}");
        }
    }
}
