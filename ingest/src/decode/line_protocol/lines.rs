//! Where lines begin and end, and what a broken one costs its neighbours: nothing.

use braid_shared::codes;
use braid_shared::limits::{FIELDS_MAX, REQUEST_EVENTS_MAX, REQUEST_VALUES_MAX};
use braid_shared::model::FieldValue;

use super::decode;
use super::tests::{NANOS, batch, code};

#[test]
fn comments_and_blank_lines_are_passed_and_lines_are_counted_physically() {
    let body = "\u{feff}# one\n\n  \t\r\n\t # \"four\nm a=1\r\n#\r\n\r\nm b=\"x\ny\nz\" 1\r\nm c\nm d=\"\n\" 2\nm e=t";
    let batch = batch(body.as_bytes());
    let rows: Vec<_> = batch.rows.iter().map(|row| (row.index, row.line, &*batch.fields_of(row)[0].0)).collect();
    assert_eq!(rows, [(0, 5, "a"), (1, 8, "b"), (3, 12, "d"), (4, 14, "e")]);
    assert_eq!(batch.faults.iter().map(|fault| (fault.index, fault.line)).collect::<Vec<_>>(), [(2, 11)]);
    for empty in ["", "\n", "\r\n \n", "#", "# x", "\u{feff}"] {
        assert!(super::tests::batch(empty.as_bytes()).rows.is_empty(), "{empty:?}");
    }
}

#[test]
fn a_request_of_too_many_lines_is_refused_whole() {
    let most = "m f=1\n".repeat(REQUEST_EVENTS_MAX - 1) + "bad\n# comment\n\n";
    let batch = batch(most.as_bytes());
    assert_eq!((batch.rows.len(), batch.faults.len()), (REQUEST_EVENTS_MAX - 1, 1));
    assert_eq!(decode((most + "bad").as_bytes(), &NANOS).unwrap_err().code, codes::TOO_MANY_EVENTS);
}

#[test]
fn a_request_of_too_many_values_is_refused_whole() {
    let values: Vec<String> = (0..FIELDS_MAX - 1).map(|i| format!("{i}=1")).collect();
    let line = format!("m,t=v {}\n", values.join(","));
    let most = line.repeat(REQUEST_VALUES_MAX / FIELDS_MAX);
    assert_eq!(batch(most.as_bytes()).values(), REQUEST_VALUES_MAX / FIELDS_MAX * FIELDS_MAX);
    assert_eq!(decode((most + &line).as_bytes(), &NANOS).unwrap_err().code, codes::TOO_MANY_VALUES);
}

#[test]
fn bytes_that_are_not_utf8_cost_their_line_only() {
    let bad: [&[u8]; 9] = [
        b"\xff f=1",
        b"m\xc3,t=v f=1",
        b"m,t\xff=v f=1",
        b"m,t=\xed\xa0\x80 f=1",
        b"m f\xff=1",
        b"m f=\"a\nb\xffc\nd\",g=2 5",
        b"m f=\xff",
        b"m f=1 \xff",
        b"m bad \xff\xff",
    ];
    for line in bad {
        let body = [b"# \xff\nbefore f=1\n", line, b"\n\xff # \n# \xff\nafter f=\"\xc3\xa9\"\n"].concat();
        let batch = batch(&body);
        let faults: Vec<_> = batch.faults.iter().map(|fault| (fault.index, fault.code)).collect();
        assert_eq!(faults, [(1, codes::INVALID_UTF8), (2, codes::INVALID_UTF8)], "{line:?}");
        assert_eq!(batch.rows.iter().map(|row| (row.index, &*row.key)).collect::<Vec<_>>(), [(0, "before"), (3, "after")]);
        assert_eq!(batch.fields_of(&batch.rows[1])[0].1.as_ref().to_owned(), FieldValue::Str("é".into()));
    }
}

#[test]
fn a_string_without_its_closing_quote_runs_on_to_the_next_quote() {
    let body = "a f=1\nb f=\"open 1\nc f=2 2\nd,t=\" f=3 3\ne f=4 4\n";
    let batch = batch(body.as_bytes());
    let rows: Vec<_> = batch.rows.iter().map(|row| (&*row.key, row.line)).collect();
    assert_eq!(rows, [("a", 1), ("e", 5)]);
    assert_eq!(batch.faults.iter().map(|fault| (fault.index, fault.line)).collect::<Vec<_>>(), [(1, 2)]);
}

#[test]
fn a_quote_that_opens_a_string_of_a_later_line_closes_none() {
    for string in ["\"x\"", "\"\"", "\"x y\",g=\"z\""] {
        let body = format!("a f=1\nb f=\"open 1\nc f=2 2\nd f={string} 3\ne f=4 4\n");
        let batch = batch(body.as_bytes());
        assert_eq!(batch.rows.iter().map(|row| (&*row.key, row.line)).collect::<Vec<_>>(), [("a", 1), ("c", 3), ("d", 4), ("e", 5)]);
        assert_eq!(batch.faults.iter().map(|fault| (fault.index, fault.line)).collect::<Vec<_>>(), [(1, 2)]);
    }
}

#[test]
fn a_quote_that_never_closes_costs_its_first_line_only() {
    for open in ["\"open 1", "\"", "\"x\\\"", "1,g=\"x\\", "bad,g=\"x"] {
        let body = format!("a f=\"1\"\nb f={open}\nc f=2 2\nd f=3\n");
        let batch = batch(body.as_bytes());
        assert_eq!(batch.rows.iter().map(|row| (&*row.key, row.line)).collect::<Vec<_>>(), [("a", 1), ("c", 3), ("d", 4)], "{open}");
        assert_eq!(batch.faults.iter().map(|fault| (fault.index, fault.line)).collect::<Vec<_>>(), [(1, 2)], "{open}");
    }
}

#[test]
fn what_stands_in_the_strings_of_a_refused_line_is_no_line() {
    for line in
        ["m a=bad,b=\"x\nroot f=1\ny\" 5", "m,t= b=\"\nroot f=1\n\"", "m b=\"\nroot f=1\n\" late", "m,t=\\ x b=\"\\\"\nroot f=1\n\",c= 5"]
    {
        code(line);
    }
}

#[test]
fn a_quote_outside_of_a_field_value_opens_nothing() {
    let body = "a,t=\"x f=1 1\n\"b f=2 2\nc \"f=3 3\nd f\\=\"g=4 4\ne,t\\=\"=v f=5 5\nf bad\" 6\ng f=7 7";
    let batch = batch(body.as_bytes());
    assert_eq!(batch.rows.iter().map(|row| &*row.key).collect::<Vec<_>>(), ["a", "\"b", "c", "d", "e", "g"]);
    assert_eq!(batch.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [6]);
}
